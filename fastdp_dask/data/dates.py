"""Dates as numbers and as categories: which parts a bounds file may ask for, and how each is computed.

A date is taken as it is written: an offset from UTC is read and not applied, so that an hour is that of the clock on
the wall.  Every cell is parsed by itself; what is not a date is a missing value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from fastdp_dask.errors import BoundsError

Dates = np.ndarray[Any, Any]  # datetime64[us], NaT where there is none

_MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)


def _whole_days(t: Dates) -> Dates:
    return t.astype("M8[D]")


# Part -> (number, smallest value, largest value); days and years take their bounds from the declaration.
_PARTS: dict[str, tuple[Callable[[Dates], Any], float, float]] = {
    "days": (lambda t: t.astype(np.int64) / _MICROSECONDS_PER_DAY, np.nan, np.nan),  # since 1970-01-01
    "year": (lambda t: t.astype("M8[Y]").astype(np.int64) + 1970, np.nan, np.nan),
    "month": (lambda t: t.astype("M8[M]").astype(np.int64) % 12 + 1, 1, 12),
    "day": (lambda t: (_whole_days(t) - t.astype("M8[M]").astype("M8[D]")).astype(np.int64) + 1, 1, 31),
    "dayofyear": (lambda t: (_whole_days(t) - t.astype("M8[Y]").astype("M8[D]")).astype(np.int64) + 1, 1, 366),
    "weekday": (lambda t: (_whole_days(t).astype(np.int64) + 3) % 7, 0, 6),  # 1970-01-01 was a Thursday; Monday is 0
    "hour": (lambda t: (t - _whole_days(t)).astype("m8[h]").astype(np.int64), 0, 23),
}
NEED_BOUNDS = frozenset({"days", "year"})
PARTS = tuple(_PARTS)
LABELS: dict[str, tuple[str, ...]] = {
    "month": tuple(str(k) for k in range(1, 13)),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour": tuple(str(k) for k in range(24)),
}


def part_name(source: str, part: str) -> str:
    """Name of the column, or of the category, that holds `part` of the date column `source`."""
    return f"{source}.{part}"


def part_numbers(t: Dates, part: str) -> np.ndarray[Any, Any]:
    """One part of every date as float64 (m,); nan where there is no date."""
    numbers = np.asarray(_PARTS[part][0](t), dtype=np.float64)
    return np.where(np.isnat(t), np.nan, numbers)


def part_codes(t: Dates, part: str, missing: int) -> np.ndarray[Any, Any]:
    """Position of the label of every date in `LABELS[part]`, (m,); `missing` where there is no date."""
    with np.errstate(invalid="ignore"):
        codes = (part_numbers(t, part) - _PARTS[part][1]).astype(np.int64)
    return np.where(np.isnat(t), missing, codes)


def part_bounds(part: str, lower: datetime, upper: datetime) -> tuple[float, float]:
    """Declared or natural bounds of a part."""
    if part == "days":
        return days(lower), days(upper)
    if part == "year":
        return lower.year, max(upper.year, lower.year + 1)
    _, low, high = _PARTS[part]
    return low, high


def days(moment: datetime) -> float:
    """Days since 1970-01-01, the time of day as a fraction."""
    return (moment - _EPOCH) / timedelta(days=1)


def moment_of(days_since: float) -> datetime:
    """The inverse of `days`."""
    return _EPOCH + timedelta(days=days_since)


def parse(cells: Sequence[Any]) -> Dates:
    """Each cell an ISO 8601 date or date and time (``2024-03-01``, ``2024-03-01T08:30:00``); else NaT."""
    return np.array([_parse(cell) for cell in cells], dtype="M8[us]")


def _parse(cell: Any) -> datetime | None:
    if isinstance(cell, bytes):
        cell = cell.decode(errors="replace")
    try:
        return datetime.fromisoformat(str(cell).strip()).replace(tzinfo=None)
    except ValueError:
        return None


def declared(where: str, value: Any) -> datetime:
    """A date of a bounds file: a TOML date or an ISO text.  Public, so a message may show it.

    Raises
    ------
    BoundsError
        If it is neither.
    """
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    moment = _parse(value) if isinstance(value, str) else None
    if moment is None:
        got = "nothing" if value is None else repr(value)
        raise BoundsError(f"{where} must be a date such as 2024-01-31, got {got}. Write it without quotes in TOML.")
    return moment
