"""Names and number of columns, and the target: public facts that a fit and its predictions must agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastdp_dask.errors import ArgumentError, DataShapeError


def required(y: Any) -> None:
    """Refuse a missing target."""
    if y is None:
        raise DataShapeError(
            "y must be given: LinearRegression requires y to be passed, but the target y is None. Pass one target for "
            "each row of X."
        )


def check_targets(target: Any, n_targets: int) -> None:
    """Refuse a target whose array has other columns than its shape said: bounds and noise were set for those."""
    found = 1 if target.ndim == 1 else int(target.shape[1])
    if found != n_targets:
        raise DataShapeError(
            f"y must have the columns that its shape says, {n_targets}, got an array of {found}. Pass an array."
        )


def refuse_weights(positional: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse a third argument of fit, which scikit-learn would take for `sample_weight`, and that name itself.

    The name stays out of fit's signature, where a meta-estimator looks it up before it passes weights.
    """
    others = sorted(set(named) - {"sample_weight"})
    if others:
        raise TypeError(f"LinearRegression.fit() got an unexpected keyword argument {others[0]!r}")
    if any(value is not None for value in (*positional, *named.values())):
        raise ArgumentError(
            "sample_weight must be left out, got weights: sample_weight is not supported, as a weight would multiply "
            "one person's influence beyond the declared bounds. Leave it out."
        )


def checked(names: Sequence[str], n_features: int) -> list[str]:
    """The names as a list, if they are one string for each column."""
    listed = [] if isinstance(names, str) or not isinstance(names, Sequence) else list(names)
    if len(listed) != n_features or not all(isinstance(name, str) for name in listed):
        raise DataShapeError(
            f"feature_names must be {n_features} strings, one for each column of X, got {len(listed)} entries. "
            "Pass one name for each column."
        )
    return distinct("feature_names", listed)


def distinct(name: str, listed: list[str]) -> list[str]:
    """The names, if none stands twice."""
    twice = next((each for k, each in enumerate(listed) if each in listed[:k]), None)
    if twice is not None:
        raise DataShapeError(f"{name} must differ from each other, got {twice!r} twice. Rename one of the columns.")
    return listed


def as_many(fitted: int, given: int) -> None:
    """Refuse another number of columns than that of the fit."""
    if given != fitted:
        raise DataShapeError(
            f"X must have {fitted} columns as in fit, got another number: X has {given} features, but LinearRegression "
            f"is expecting {fitted} features as input. Select the same features."
        )


def same(fitted: Sequence[str] | None, given: Sequence[str] | None) -> None:
    """Refuse columns of another name or order than those of the fit; arrays without names pass."""
    if fitted is None or given is None or list(fitted) == list(given):
        return
    pairs = zip(fitted, given, strict=False)
    wrong = next((j for j, (a, b) in enumerate(pairs) if a != b), min(len(fitted), len(given)))
    expected, got = (repr(names[wrong]) if wrong < len(names) else "none" for names in (fitted, given))
    raise DataShapeError(
        f"X must have the columns of fit in their order: expected {expected} as column {wrong}, got {got}. "
        "Select them by name."
    )
