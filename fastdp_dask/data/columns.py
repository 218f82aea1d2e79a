"""From the columns of a table to those of X: categories become indicators, dates become parts, gaps are filled."""

from __future__ import annotations

import numpy as np

from fastdp_dask.data import dates, missing
from fastdp_dask.data._checks import indicator_name
from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.readers import MISSING, Array, Batch, Columns
from fastdp_dask.data.write import Block


def columns_of(declaration: Declaration) -> Columns:
    """Return the source columns that a declaration needs: numeric ones, the target last, then the others."""
    dated = tuple(source for source, _ in declaration.dates)
    derived = {dates.part_name(source, part) for source, parts in declaration.dates for part in parts}
    categorical = {source: labels for source, labels in declaration.categories if source not in derived}
    numeric = [source for source in declaration.sources if source not in categorical and source not in dated]
    return Columns((*numeric, declaration.target), categorical, dated)


@np.errstate(all="ignore")  # a warning, even of a signalling NaN, would tell of a value
def to_block(batch: Batch, declaration: Declaration, dtype: str = "float32") -> Block:
    """Return (X, y) of one batch: numbers, parts of dates, and categories as indicators; private.

    With code c of a row and K labels, the group's columns are ``[c = 0], ..., [c = K − 1]``; all zero for an
    undeclared category, all NaN for a missing one.  A missing number, date or category that has a rule is filled
    first; a missing number or date without one is NaN.  Each row depends on its own cells alone.
    """
    y = batch[declaration.target]
    X = np.zeros((len(y), declaration.n_features), dtype=dtype)
    position = {name: j for j, name in enumerate(declaration.feature_names)}
    batch = _filled(batch, declaration)
    for source, parts in declaration.dates:
        for part in parts:
            name = dates.part_name(source, part)
            if name in position:
                batch[name] = dates.part_numbers(batch[source], part)
            else:
                batch[name] = dates.part_codes(batch[source], part, MISSING)
    for source, labels in declaration.categories:
        codes = batch[source]
        columns = np.array([position.pop(indicator_name(source, label)) for label in labels])
        known = np.flatnonzero(codes >= 0)
        X[known, columns[codes[known]]] = 1
        X[np.ix_(np.flatnonzero(codes == MISSING), columns)] = np.nan
    for name, j in position.items():
        X[:, j] = batch[name]
    return X, y.astype(dtype)


def _filled(batch: Batch, declaration: Declaration) -> Batch:
    """The batch with the declared values in its gaps, and the columns that say where they were."""
    batch = dict(batch)
    labels_of = dict(declaration.categories)
    for rule in declaration.missing:
        cells: Array = batch[rule.source]
        if rule.source in labels_of:
            assert isinstance(rule.fill, str)
            cells, gap = missing.filled_codes(cells, rule.fill, labels_of[rule.source])
        elif cells.dtype.kind == "M":
            assert isinstance(rule.fill, str)
            cells, gap = missing.filled_dates(cells, rule.fill)
        else:
            assert isinstance(rule.fill, float)
            cells, gap = missing.filled_numbers(cells, rule.fill)
        batch[rule.source] = cells
        if rule.indicator:
            batch[missing.indicator_of(rule.source)] = gap
    return batch
