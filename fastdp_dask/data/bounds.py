"""What is declared about the columns: names, bounds and groups.  Public, and never read from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastdp_dask.data import _checks
from fastdp_dask.data._checks import Interval, indicator_name
from fastdp_dask.data.dates import part_name
from fastdp_dask.data.missing import MissingRule, indicator_of
from fastdp_dask.errors import BoundsError
from fastdp_dask.rows.groups import CompleteGroup


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
    dates : sequence of pairs (source column, parts), optional
        Columns ``source.part`` of X, or categories of that name, come from the dates in the column `source`.
    missing : sequence of MissingRule, optional
        What stands in the place of a missing value, and the columns ``source.missing`` that say so.

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
    dates: Sequence[tuple[str, Sequence[str]]] = ()
    missing: Sequence[MissingRule] = ()

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
        fields["dates"] = _checks.dates(_checks.items("dates", self.dates), names, dict(categories))
        fields["missing"] = _checks.missing(
            _checks.items("missing", self.missing), dict(zip(names, bounds, strict=True)), dict(categories),
            [source for source, _ in fields["dates"]],
        )  # fmt: skip
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n_features(self) -> int:
        """Number d of columns of X."""
        return len(self.feature_names)

    @property
    def source_of(self) -> dict[str, str]:
        """The column of a table that each column of X comes from, by name."""
        source_of = {indicator_name(s, label): s for s, labels in self.categories for label in labels}
        dated = {part_name(source, part): source for source, parts in self.dates for part in parts}
        filled = {indicator_of(rule.source): rule.source for rule in self.missing if rule.indicator}
        found = {name: source_of.get(name, filled.get(name, name)) for name in self.feature_names}
        return {name: dated.get(source, source) for name, source in found.items()}

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns of a table that X comes from, in the order of X."""
        return tuple(dict.fromkeys(self.source_of.values()))

    def is_category(self, group: Sequence[int]) -> bool:
        """Whether the columns of a group are those of one entry of `categories`, with all its labels."""
        if tuple(group) not in self.groups:
            return False
        names = {self.feature_names[j] for j in group}
        return any(names == {indicator_name(source, label) for label in labels} for source, labels in self.categories)

    def estimator_arguments(self) -> dict[str, Any]:
        """Return ``bounds_X=(lower, upper)``, ``bounds_y`` and ``groups`` in the form the estimator takes.

        The groups of `categories` are declared complete: intervals count their coefficients from the group's mean.
        """
        lower, upper = zip(*self.bounds_X, strict=True)
        groups = [CompleteGroup(group) if self.is_category(group) else list(group) for group in self.groups]
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
            "dates": [[source, list(parts)] for source, parts in self.dates],
            "missing": [rule.to_list() for rule in self.missing],
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Declaration:
        """Return the declaration that `to_dict` wrote; all but names, bounds and target may be absent.

        Raises
        ------
        BoundsError
            When an entry is absent or malformed.
        """
        required = ("feature_names", "bounds_X", "target", "bounds_y")
        absent = [name for name in required if table.get(name) is None]
        if absent:
            raise BoundsError(
                f"declaration lacks {', '.join(absent)}: expected {', '.join(required)}. Add what is missing."
            )
        fields: dict[str, Any] = {name: table[name] for name in required}
        fields |= {name: table.get(name) or () for name in ("groups", "categories", "dates", "missing")}
        fields["missing"] = _checks.rules(fields["missing"])
        return cls(**fields)
