"""The bounds file: TOML or JSON in which a person declares the columns of a table."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastdp_dask.data import _checks, dates
from fastdp_dask.data._checks import Interval, indicator_name
from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.missing import MissingRule, indicator_of
from fastdp_dask.errors import BoundsError

_GAP = {"missing", "missing_indicator"}


def read_declaration(
    source: Declaration | Mapping[str, Any] | str | Path,
    *,
    target: str | None = None,
    features: Sequence[str] | None = None,
) -> Declaration:
    """Return the declaration written in a bounds file.

    The file is TOML (or JSON of the same shape, dates as text)::

        [target]
        name = "delay"
        lower = -60
        upper = 180

        [features.distance]
        lower = 0
        upper = 5000
        missing = 1000                         # a public number for the missing ones; without it they blank a record
        missing_indicator = true               # and a column distance.missing of 0 and 1

        [features.origin]
        categories = ["EWR", "JFK", "LGA"]     # indicator columns origin=EWR, origin=JFK, origin=LGA

        [features.departure]                   # an ISO date, or date and time
        date = ["days", "hour"]                # numbers departure.days (since 1970-01-01) and departure.hour
        date_categories = ["weekday"]          # indicator columns departure.weekday=Mon and so on
        lower = 2013-01-01                     # bounds of "days" and "year"; the other parts have natural ones
        upper = 2013-12-31

    Parts of a date: days, year, month (1 to 12), day (1 to 31), dayofyear (1 to 366), weekday (0 for Monday to 6),
    hour (0 to 23); as categories: month, weekday, hour.  A date is taken as written, whatever its offset from UTC.

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
        source = as_table(source)
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
        raise BoundsError(f"target must be {name!r} as in {where}, got target={target!r}. Correct one of them.")
    columns = _Columns(where)
    for feature in list(declared) if features is None else _checks.items("features", features):
        if feature not in declared:
            raise BoundsError(f"feature {feature!r} has no bounds in {where}. Add [features.{feature}].")
        columns.add(feature, _checks.table(where, f"features.{feature}", declared[feature]))
    bounds_y = _checks.pair(f"target {name!r}", (goal.get("lower"), goal.get("upper")))
    return Declaration(
        columns.names, columns.bounds, columns.groups, name, bounds_y, columns.categories, columns.dates,
        columns.missing,
    )  # fmt: skip


class _Columns:
    """The columns of X that the entries of a file stand for, as they come."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.names: list[str] = []
        self.bounds: list[Interval] = []
        self.groups: list[list[int]] = []
        self.categories: list[tuple[str, list[str]]] = []
        self.dates: list[tuple[str, list[str]]] = []
        self.missing: list[MissingRule] = []

    def add(self, feature: str, entry: Mapping[str, Any]) -> None:
        where = f"{self._where}, feature {feature!r}"
        if "categories" in entry:
            _checks.refuse_unknown(where, entry, {"categories", *_GAP})
            listed = _checks.items(f"categories of {feature!r}", entry["categories"])
            labels = [_checks.label(feature, each) for each in listed]
            if not labels:
                raise BoundsError(f"feature {feature!r}: categories must hold at least one label, got none. Add one.")
            self._indicators(feature, labels)
        elif "date" in entry or "date_categories" in entry:
            _checks.refuse_unknown(where, entry, {"date", "date_categories", "lower", "upper", *_GAP})
            self._date(feature, entry)
        else:
            _checks.refuse_unknown(where, entry, {"lower", "upper", *_GAP})
            self._number(feature, _checks.pair(f"feature {feature!r}", (entry.get("lower"), entry.get("upper"))))
        self._rule(feature, entry)

    def _number(self, name: str, bounds: Interval) -> None:
        self.names.append(name)
        self.bounds.append(bounds)

    def _indicators(self, source: str, labels: list[str]) -> None:
        self.groups.append(list(range(len(self.names), len(self.names) + len(labels))))
        self.categories.append((source, labels))
        for label in labels:
            self._number(indicator_name(source, label), (0.0, 1.0))

    def _date(self, feature: str, entry: Mapping[str, Any]) -> None:
        parts = _parts(feature, "date", entry, dates.PARTS)
        labelled = _parts(feature, "date_categories", entry, tuple(dates.LABELS))
        if not parts and not labelled:
            listed = ", ".join(dates.PARTS)
            raise BoundsError(f"feature {feature!r}: date must list at least one of {listed}, got none. Add one.")
        _checks.refuse_twice(f"feature {feature!r}: parts of a date", [*parts, *labelled])
        bounded = dates.NEED_BOUNDS & set(parts)
        if bounded:
            lower, upper = (dates.declared(f"feature {feature!r}: {k}", entry.get(k)) for k in ("lower", "upper"))
        elif {"lower", "upper"} & set(entry):
            raise BoundsError(
                f"feature {feature!r}: lower and upper must be left out, since they bound only days and year, got them "
                f"for {', '.join([*parts, *labelled])}. Leave them out."
            )
        else:
            lower = upper = dates.moment_of(0.0)
        self.dates.append((feature, [*parts, *labelled]))
        for part in parts:
            made = dates.part_name(feature, part)
            self._number(made, _checks.pair(f"feature {made!r}", dates.part_bounds(part, lower, upper)))
        for part in labelled:
            self._indicators(dates.part_name(feature, part), list(dates.LABELS[part]))

    def _rule(self, feature: str, entry: Mapping[str, Any]) -> None:
        fill, indicator = entry.get("missing"), entry.get("missing_indicator", False)
        if not isinstance(indicator, bool):
            raise BoundsError(
                f"feature {feature!r}: missing_indicator must be true or false, got {type(indicator).__name__}. "
                "Correct it."
            )
        if fill is None:
            if indicator:
                raise BoundsError(
                    f"feature {feature!r}: missing_indicator needs a public value in the place of a missing one, got "
                    "none. Add missing = ...."
                )
            return
        if "date" in entry or "date_categories" in entry:
            fill = dates.declared(f"feature {feature!r}: missing", fill).isoformat()
        elif "categories" in entry:
            fill = _checks.label(feature, fill)
        elif type(fill) in (int, float):
            fill = float(fill)
        self.missing.append(MissingRule(feature, fill, indicator))
        if indicator:
            self._number(indicator_of(feature), (0.0, 1.0))


def _parts(feature: str, entry_name: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> list[str]:
    value = entry.get(entry_name, [])
    listed = [value] if isinstance(value, str) else _checks.items(f"{entry_name} of {feature!r}", value)
    for part in listed:
        if part not in known:
            raise BoundsError(
                f"feature {feature!r}: {entry_name} must list some of {', '.join(known)}, got {part!r}. "
                "Check the spelling."
            )
    return listed


def as_table(declaration: Declaration) -> dict[str, Any]:
    """Return the bounds-file form of a declaration, so that features of it can be selected by name."""
    bounds = dict(zip(declaration.feature_names, declaration.bounds_X, strict=True))
    labels_of = dict(declaration.categories)
    made = {indicator_name(source, label) for source, labels in declaration.categories for label in labels}
    if not {declaration.feature_names[j] for group in declaration.groups for j in group} <= made:
        raise BoundsError(
            "declaration must have categories for its groups, got groups without categories: a table column cannot "
            "be mapped to them. Declare the source column and its categories instead."
        )
    parts_of = dict(declaration.dates)
    features: dict[str, Any] = {}
    for source in declaration.sources:
        if source in labels_of:
            features[source] = {"categories": list(labels_of[source])}
        elif source in parts_of:
            features[source] = _date_entry(source, parts_of[source], bounds)
        else:
            features[source] = dict(zip(("lower", "upper"), bounds[source], strict=True))
    for rule in declaration.missing:
        features[rule.source] |= {"missing": rule.fill, "missing_indicator": rule.indicator}
    lower, upper = declaration.bounds_y
    return {"target": {"name": declaration.target, "lower": lower, "upper": upper}, "features": features}


def _date_entry(source: str, parts: Sequence[str], bounds: Mapping[str, Interval]) -> dict[str, Any]:
    numeric = [part for part in parts if dates.part_name(source, part) in bounds]
    entry: dict[str, Any] = {"date": numeric, "date_categories": [part for part in parts if part not in numeric]}
    if "days" in numeric:
        lower, upper = bounds[dates.part_name(source, "days")]
        entry |= {"lower": dates.moment_of(lower), "upper": dates.moment_of(upper)}
    elif "year" in numeric:
        first, last = bounds[dates.part_name(source, "year")]
        entry |= {"lower": f"{int(first):04}-01-01", "upper": f"{int(last):04}-01-01"}
    return entry


def _load(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        table = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # the file is public, so its parser may speak
        raise BoundsError(f"bounds file {path} cannot be read: {error}. Expected TOML or JSON.") from None
    except RecursionError:
        raise BoundsError(
            f"bounds file {path} cannot be read: its brackets are nested too deep. Expected TOML or JSON."
        ) from None
    return _checks.table(str(path), "the file", table)
