"""Dates as numbers and as categories: which parts a bounds file may ask for, and how each is computed.

A date is taken as it is written: an offset from UTC is read and not applied, so that an hour is that of the clock on
the wall.  Every cell is parsed by itself; what is not a date of the years 1 to 9999 is a missing value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import numpy as np

from fastdp_dask.errors import BoundsError

Dates = np.ndarray[Any, Any]  # datetime64[us] of the years 1 to 9999, NaT where there is none

_MICROSECONDS_PER_HOUR = 3_600_000_000
_MICROSECONDS_PER_DAY = 24 * _MICROSECONDS_PER_HOUR
_EPOCH = datetime(1970, 1, 1)
_FIRST, _LAST = np.datetime64(datetime.min, "us"), np.datetime64(datetime.max, "us")
_NONE = np.datetime64("NaT", "us")
_SECONDS_PER_YEAR = 31_556_952.0
_SECONDS = {
    "Y": _SECONDS_PER_YEAR, "M": _SECONDS_PER_YEAR / 12, "W": 604_800.0, "D": 86_400.0, "h": 3600.0, "m": 60.0,
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12, "fs": 1e-15, "as": 1e-18,
}  # fmt: skip
_FINER = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}  # units in a microsecond


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
    "hour": (lambda t: t.astype(np.int64) // _MICROSECONDS_PER_HOUR % 24, 0, 23),
}
NEED_BOUNDS = frozenset({"days", "year"})
PARTS = tuple(_PARTS)
LABELS: dict[str, tuple[str, ...]] = {
    "month": tuple(str(k) for k in range(1, 13)),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour": tuple(str(k) for k in range(24)),
}


def moments(t: np.ndarray[Any, Any]) -> Dates:
    """Each datetime64 (m,), of any unit, in microseconds, rounded down; NaT outside the years 1 to 9999.

    These are the years of ISO 8601, so that a text and a timestamp of one moment agree.  Within them no unit and no
    part overflows; beyond them a conversion may wrap around or raise, and one cell would decide it.
    """
    unit, step = np.datetime_data(t.dtype)
    counts = t.astype(np.int64)
    years = counts * (step * _SECONDS.get(unit, np.nan) / _SECONDS_PER_YEAR)
    known = ~np.isnat(t) & (np.abs(years) < 10_000)
    if step == 1 and unit in _FINER:  # NumPy's own rounding down wraps around in the last microsecond
        found = np.where(known, (counts // _FINER[unit]).view("M8[us]"), _NONE)
    else:
        found = np.where(known, t, np.datetime64("NaT")).astype("M8[us]")
    return np.where((found >= _FIRST) & (found <= _LAST), found, _NONE)


def part_name(source: str, part: str) -> str:
    """Name of the column, or of the category, that holds `part` of the date column `source`."""
    return f"{source}.{part}"


def part_numbers(t: Dates, part: str) -> np.ndarray[Any, Any]:
    """One part of every date as float64 (m,); nan where there is no date."""
    numbers = np.asarray(_PARTS[part][0](t), dtype=np.float64)
    return np.where(np.isnat(t), np.nan, numbers)


def part_codes(t: Dates, part: str, missing: int) -> np.ndarray[Any, Any]:
    """Position of the label of every date in `LABELS[part]`, (m,); `missing` where there is no date."""
    codes = part_numbers(t, part) - _PARTS[part][1]
    labelled = (codes >= 0) & (codes < len(LABELS[part]))  # no value of a cell may index beyond the labels
    return np.where(labelled, codes, missing).astype(np.int64)


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
    except (ValueError, OverflowError):
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
