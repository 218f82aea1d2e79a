"""Column names for a Dask array, so that a fitted model and its plan name their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da


class NamedColumns(da.Array):
    """A Dask array (n, d) that has, as a DataFrame does, `columns`: d names, public.

    Whatever is computed from it is a plain Dask array.
    """

    __slots__ = ("columns",)

    def __new__(cls, array: Any, names: Sequence[str]) -> NamedColumns:
        made = super().__new__(cls, array.dask, array.name, array.chunks, dtype=array.dtype, meta=array._meta)
        made.columns = list(names)
        return made
