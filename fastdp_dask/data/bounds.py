"""What is declared about the columns: names, bounds and groups.  Public, and never read from the data."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastdp_dask.data import _checks
from fastdp_dask.data._checks import Interval, indicator_name
from fastdp_dask.errors import BoundsError


@dataclass(frozen=True)
class Declaration:
    """Names, bounds and groups of the columns of one data set.

    Column j of X takes part as ``min(max(x, lower_j), upper_j)``, and a group of indicators adds at most 1 to
    the squared norm of a row, however many columns it has.

    Parameters
    ----------
    feature_names : sequence of d strings
        Names of the columns of X, in order; no name twice.
    bounds_X : sequence of d pairs (lower, upper)
        Finite, lower < upper, in the units of the column.
    groups : sequence of sequences of column indices
        Indicator columns of one category: at most one of them is non-zero in a row, entries in [0, 1].
        Disjoint; may be empty.
    target : str
        Name of y.
    bounds_y : pair (lower, upper)
        In the units of y.
    categories : sequence of pairs (source column, labels), optional
        Columns ``source=label`` of X come from the column `source` of a table; each entry is a group.

    Raises
    ------
    BoundsError
        When a bound is missing, not a finite number or not below its partner, or names and groups do not fit.

    Notes
    -----
    Everything here is public.  Sequences are stored as tuples, so that a declaration cannot change.
    """

    feature_names: Sequence[str]
    bounds_X: Sequence[Interval]
    groups: Sequence[Sequence[int]]
    target: str
    bounds_y: Interval
    categories: Sequence[tuple[str, Sequence[str]]] = ()

    def __post_init__(self) -> None:
        listed = _checks.items("feature_names", self.feature_names)
        names = tuple(_checks.text("feature_names", name) for name in listed)
        if not names:
            raise BoundsError("feature_names must hold at least one name, got none. Declare a feature.")
        _checks.refuse_twice("feature_names", names)
        target = _checks.text("target", self.target)
        if target in names:
            raise BoundsError(
                f"target {target!r} is also a feature: expected a column of its own. Remove it from one side."
            )
        pairs = _checks.items("bounds_X", self.bounds_X)
        if len(pairs) != len(names):
            raise BoundsError(
                f"bounds_X must hold one (lower, upper) per feature: expected {len(names)}, got {len(pairs)}."
                " Declare bounds for every column."
            )
        bounds = tuple(
            _checks.pair(f"feature {name!r}", pair) for name, pair in zip(names, pairs, strict=True)
        )
        groups = _checks.groups(_checks.items("groups", self.groups), names, bounds)
        categories = _checks.categories(_checks.items("categories", self.categories), names, groups)
        fields: dict[str, Any] = {
            "feature_names": names,
            "bounds_X": bounds,
            "groups": groups,
            "target": target,
        }
        fields |= {"bounds_y": _checks.pair(f"target {target!r}", self.bounds_y), "categories": categories}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number d of columns of X."""
        return len(self.feature_names)

    def estimator_arguments(self) -> dict[str, Any]:
        """Return ``bounds_X=(lower, upper)``, ``bounds_y`` and ``groups`` in the form the estimator takes."""
        lower, upper = zip(*self.bounds_X, strict=True)
        groups = [list(group) for group in self.groups]
        return {"bounds_X": (list(lower), list(upper)), "bounds_y": self.bounds_y, "groups": groups or None}

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain lists and numbers, the form of a store's attributes."""
        return {
            "feature_names": list(self.feature_names),
            "target": self.target,
            "bounds_X": [list(pair) for pair in self.bounds_X],
            "bounds_y": list(self.bounds_y),
            "groups": [list(group) for group in self.groups],
            "categories": [[source, list(labels)] for source, labels in self.categories],
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Declaration:
        """Return the declaration that `to_dict` wrote; ``groups`` and ``categories`` may be absent.

        Raises
        ------
        BoundsError
            When an entry is absent or malformed.
        """
        required = ("feature_names", "bounds_X", "target", "bounds_y")
        absent = [name for name in required if table.get(name) is None]
        if absent:
            raise BoundsError(f"declaration lacks {', '.join(absent)}: expected {', '.join(required)}.")
        fields: dict[str, Any] = {name: table[name] for name in required}
        fields |= {name: table.get(name) or () for name in ("groups", "categories")}
        return cls(**fields)


def read_declaration(
    source: Declaration | Mapping[str, Any] | str | Path,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
) -> Declaration:
    """Return the declaration written in a bounds file.

    The file is TOML (or JSON of the same shape)::

        [target]
        name = "delay"
        lower = -60
        upper = 180

        [features.distance]
        lower = 0
        upper = 5000

        [features.origin]
        categories = ["EWR", "JFK", "LGA"]     # indicator columns origin=EWR, origin=JFK, origin=LGA

    Parameters
    ----------
    source : path, mapping of that shape, or Declaration
    target : str, optional
        Name of the target; must agree with the file where the file has one.
    features : sequence of str, optional
        Which declared features to keep, in this order.  None keeps all, in the order of the file.

    Raises
    ------
    BoundsError
        When the file cannot be read, bounds are missing or malformed, or a name is not declared.
    """
    if isinstance(source, Declaration):
        source = _as_table(source)
    where = "bounds" if isinstance(source, Mapping) else str(source)
    table = source if isinstance(source, Mapping) else _load(Path(source))
    _checks.refuse_unknown(where, table, {"target", "features"})
    goal = _checks.table(where, "target", table.get("target"))
    declared = _checks.table(where, "features", table.get("features"))
    _checks.refuse_unknown(f"{where}, target", goal, {"name", "lower", "upper"})
    name = goal.get("name", target)
    if name is None:
        raise BoundsError(f"{where}: target has no name: expected the name of a column. Pass target=.")
    if target is not None and name != target:
        raise BoundsError(f"target={target!r} but {where} bounds {name!r}. Correct one of them.")
    chosen = list(declared) if features is None else _checks.items("features", features)
    names: list[str] = []
    bounds: list[Interval] = []
    groups: list[list[int]] = []
    categories: list[tuple[str, list[str]]] = []
    for feature in chosen:
        if feature not in declared:
            raise BoundsError(f"feature {feature!r} has no bounds in {where}. Add [features.{feature}].")
        entry = _checks.table(where, f"features.{feature}", declared[feature])
        if "categories" in entry:
            _checks.refuse_unknown(f"{where}, feature {feature!r}", entry, {"categories"})
            listed = _checks.items(f"categories of {feature!r}", entry["categories"])
            labels = [_checks.label(feature, each) for each in listed]
            if not labels:
                raise BoundsError(f"feature {feature!r}: categories must hold at least one label, got none.")
            groups.append(list(range(len(names), len(names) + len(labels))))
            categories.append((feature, labels))
            names += [indicator_name(feature, label) for label in labels]
            bounds += [(0.0, 1.0)] * len(labels)
        else:
            _checks.refuse_unknown(f"{where}, feature {feature!r}", entry, {"lower", "upper"})
            names.append(feature)
            bounds.append(_checks.pair(f"feature {feature!r}", (entry.get("lower"), entry.get("upper"))))
    bounds_y = _checks.pair(f"target {name!r}", (goal.get("lower"), goal.get("upper")))
    return Declaration(names, bounds, groups, name, bounds_y, categories)


def _as_table(declaration: Declaration) -> dict[str, Any]:
    """Return the bounds-file form of a declaration, so that features of it can be selected by name."""
    bounds = dict(zip(declaration.feature_names, declaration.bounds_X, strict=True))
    source_of = {indicator_name(s, label): s for s, labels in declaration.categories for label in labels}
    labels_of = dict(declaration.categories)
    grouped = {declaration.feature_names[j] for group in declaration.groups for j in group}
    if not grouped <= source_of.keys():
        raise BoundsError(
            "declaration has groups without categories: a table column cannot be mapped to them. "
            "Declare the source column and its categories instead."
        )
    features: dict[str, Any] = {}
    for name, (lower, upper) in bounds.items():
        if name in source_of:
            features[source_of[name]] = {"categories": list(labels_of[source_of[name]])}
        else:
            features[name] = {"lower": lower, "upper": upper}
    lower, upper = declaration.bounds_y
    return {"target": {"name": declaration.target, "lower": lower, "upper": upper}, "features": features}


def _load(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        table = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # the file is public, so its parser may speak
        raise BoundsError(f"bounds file {path} cannot be read: {error}. Expected TOML or JSON.") from None
    return _checks.table(str(path), "the file", table)
