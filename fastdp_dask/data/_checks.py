"""Checks of what is declared about columns.  All of it is public, so messages may show it."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fastdp_dask.data.dates import PARTS, part_name
from fastdp_dask.data.missing import MissingRule, indicator_of
from fastdp_dask.errors import BoundsError

Interval = tuple[float, float]

_LARGEST = sys.float_info.max


def indicator_name(source: str, label: str) -> str:
    """Return the name of the column that is 1 where the column `source` has the category `label`."""
    return f"{source}={label}"


def table(where: str, name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        got = "nothing" if value is None else type(value).__name__
        raise BoundsError(f"{where}: {name} must be a table of names and values, got {got}.")
    return value


def refuse_unknown(where: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    unknown = sorted(str(key) for key in table if key not in known)
    if unknown:
        listed = ", ".join(sorted(known))
        raise BoundsError(f"{where}: unknown entry {unknown[0]!r}: expected {listed}. Check the spelling.")


def items(name: str, value: Any) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise BoundsError(f"{name} must be a list, got {type(value).__name__}. Write it as [..., ...].")
    return list(value)


def text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BoundsError(f"{name} must hold non-empty strings, got {type(value).__name__}. Name each column.")
    return value


def label(feature: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | numbers.Integral) or value == "":
        raise BoundsError(
            f"feature {feature!r}: categories must be non-empty strings or whole numbers, "
            f"got {type(value).__name__}. Give a true/false column lower = 0 and upper = 1 instead."
        )
    return str(value)


def pair(where: str, value: Any) -> Interval:
    ends = items(f"bounds of {where}", value)
    if len(ends) != 2:
        raise BoundsError(f"bounds of {where} must be one (lower, upper), got {len(ends)} numbers. Give both.")
    for side, end in zip(("lower", "upper"), ends, strict=True):
        if end is None:
            raise BoundsError(f"{where} needs its {side} bound, got none. Declare it: none is read from the data.")
        if isinstance(end, bool) or not isinstance(end, numbers.Real):
            raise BoundsError(
                f"{side} bound of {where} must be a finite number, got {type(end).__name__}. Declare one."
            )
        size: Any = end
        if not -_LARGEST <= size <= _LARGEST:  # false for nan; float() of a huge whole number would raise
            got = f"{side}={end}" if isinstance(size, float) else "a larger one than a float can hold"
            raise BoundsError(f"{side} bound of {where} must be a finite number, got {got}. Declare one.")
    lower, upper = float(ends[0]), float(ends[1])
    if not lower < upper:
        raise BoundsError(
            f"bounds of {where} need lower < upper, got lower={lower!r}, upper={upper!r}. Correct them."
        )
    return lower, upper


def refuse_twice(what: str, values: Sequence[Any]) -> None:
    if len(set(values)) != len(values):
        twice = next(value for k, value in enumerate(values) if value in values[:k])
        raise BoundsError(f"{what} must not repeat: expected each once, got {twice!r} twice. Remove one.")


def groups(value: list[Any], names: Sequence[str], bounds: Sequence[Interval]) -> tuple[tuple[int, ...], ...]:
    checked: list[tuple[int, ...]] = []
    for group in value:
        columns: tuple[Any, ...] = tuple(items("a group", group))
        if not columns:
            raise BoundsError("groups must not hold an empty group. Remove it.")
        for j in columns:
            whole = isinstance(j, numbers.Integral) and not isinstance(j, bool)
            if not (whole and 0 <= j < len(names)):
                raise BoundsError(
                    f"groups must hold column indices from 0 to {len(names) - 1}, got {j!r}. Correct the group."
                )
            if bounds[j][0] < 0 or bounds[j][1] > 1:
                raise BoundsError(
                    f"feature {names[j]!r} is in a group: expected bounds inside [0, 1], got {bounds[j]}. Correct "
                    "them, or take it out of the group."
                )
        checked.append(tuple(int(j) for j in columns))
    refuse_twice("column indices in groups", [j for group in checked for j in group])
    return tuple(checked)


def _two(entry: Any) -> tuple[str, Any]:
    both = items("an entry of categories", entry)
    if len(both) != 2:
        raise BoundsError(f"an entry of categories must be (source, labels), got {len(both)} items. Give both.")
    return text("categories", both[0]), both[1]


def categories(
    value: list[Any], names: Sequence[str], declared: Sequence[tuple[int, ...]]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    checked: list[tuple[str, tuple[str, ...]]] = []
    for each in value:
        source, labels = _two(each)
        made = tuple(label(source, entry) for entry in items("categories", labels))
        wanted = [indicator_name(source, entry) for entry in made]
        columns = tuple(names.index(name) for name in wanted if name in names)
        if len(columns) != len(made) or columns not in declared:
            raise BoundsError(
                f"categories of {source!r} must be the columns of one declared group, got others. Declare the group."
            )
        checked.append((source, made))
    refuse_twice("sources of categories", [source for source, _ in checked])
    return tuple(checked)


def dates(
    value: list[Any], names: Sequence[str], labels_of: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    checked: list[tuple[str, tuple[str, ...]]] = []
    for each in value:
        both = items("an entry of dates", each)
        if len(both) != 2:
            raise BoundsError(f"an entry of dates must be (source, parts), got {len(both)} items. Give both.")
        source, parts = text("dates", both[0]), tuple(items("parts of a date", both[1]))
        for part in parts:
            if part not in PARTS or (part_name(source, part) not in names and part_name(source, part) not in labels_of):
                raise BoundsError(
                    f"dates of {source!r}: each part must be one of {', '.join(PARTS)} and have a column or categories "
                    f"of its name, got {part!r}. Declare {source}.{part}."
                )
        checked.append((source, parts))
    refuse_twice("sources of dates", [source for source, _ in checked])
    return tuple(checked)


def rules(value: Any) -> tuple[MissingRule, ...]:
    """The rules for missing values that a store's attributes hold as [source, fill, indicator] each."""
    made = []
    for each in items("missing", value):
        parts = items("an entry of missing", each)
        if len(parts) != 3 or not isinstance(parts[2], bool) or isinstance(parts[1], list | Mapping):
            raise BoundsError(
                "an entry of missing must be (source, value, true or false), got another form. Ingest the table again."
            )
        made.append(MissingRule(text("missing", parts[0]), parts[1], parts[2]))
    return tuple(made)


def missing(
    value: list[Any], bounds: Mapping[str, Interval], labels_of: Mapping[str, Sequence[str]], dated: Sequence[str]
) -> tuple[MissingRule, ...]:
    for rule in value:
        fill = rule.fill
        if rule.source in labels_of:
            fits, expected = fill in labels_of[rule.source], "one of its categories"
        elif rule.source in dated:
            fits, expected = isinstance(fill, str), "a date"
        elif rule.source in bounds:
            lower, upper = bounds[rule.source]
            fits = isinstance(fill, float) and lower <= fill <= upper
            expected = "a number inside its bounds"
        else:
            raise BoundsError(f"missing must name a declared source column, got {rule.source!r}. Declare it.")
        if not fits:
            raise BoundsError(f"feature {rule.source!r}: missing must be {expected}, got {fill!r}. Correct it.")
        if rule.indicator and indicator_of(rule.source) not in bounds:
            raise BoundsError(
                f"feature {rule.source!r}: expected a column {indicator_of(rule.source)!r} for its indicator, got "
                "none. Declare it with bounds (0, 1)."
            )
    refuse_twice("sources of missing", [rule.source for rule in value])
    return tuple(value)
