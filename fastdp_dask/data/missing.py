"""What is put in the place of a missing value: a rule declared for a column, never a value learned from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp_dask.data.dates import Dates
from fastdp_dask.data.readers import MISSING, Array


@dataclass(frozen=True)
class MissingRule:
    """The rule of one source column.  Without a rule, a record with a missing value counts as blank.

    Attributes
    ----------
    source : str
        Column of the table.
    fill : float, str or None
        What stands in its place: a number in the bounds of the column, one of its labels, or an ISO date.  None:
        nothing does.
    indicator : bool
        Whether a column ``source.missing`` is 1 where the value was missing, else 0.
    """

    source: str
    fill: float | str | None
    indicator: bool

    def to_list(self) -> list[Any]:
        """The rule as plain values, the form of a store's attributes."""
        return [self.source, self.fill, self.indicator]


def indicator_of(source: str) -> str:
    """Name of the column that is 1 where `source` is missing."""
    return f"{source}.missing"


def filled_numbers(numbers: Array, fill: float) -> tuple[Array, Array]:
    """(numbers with `fill` wherever there is no finite one, 1.0 there and 0.0 elsewhere), each (m,)."""
    gap = ~np.isfinite(numbers)
    return np.where(gap, fill, numbers), gap.astype(np.float64)


def filled_dates(dates: Dates, fill: str) -> tuple[Dates, Array]:
    """The same of dates."""
    gap = np.isnat(dates)
    return np.where(gap, np.datetime64(fill, "us"), dates), gap.astype(np.float64)


def filled_codes(codes: Array, fill: str, labels: Sequence[str]) -> tuple[Array, Array]:
    """The same of categories; one that is not declared is not missing."""
    gap = codes == MISSING
    return np.where(gap, list(labels).index(fill), codes), gap.astype(np.float64)
