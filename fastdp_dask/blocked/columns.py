"""Names of columns, and the target: public facts that a fit and its predictions must agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastdp_dask.errors import DataShapeError


def required(y: Any) -> None:
    """Refuse a missing target."""
    if y is None:
        raise DataShapeError("y must be given: expected one target for each row of X, got None. Pass the targets.")


def checked(names: Sequence[str], n_features: int) -> list[str]:
    """The names as a list, if they are one string for each column."""
    listed = [] if isinstance(names, str) or not isinstance(names, Sequence) else list(names)
    if len(listed) != n_features or not all(isinstance(name, str) for name in listed):
        raise DataShapeError(
            f"feature_names must be {n_features} strings, one for each column of X, got {len(listed)} entries. "
            "Pass one name for each column."
        )
    return listed


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
