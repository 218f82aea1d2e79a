"""Products and scaled columns whose bounds follow from declared ones: what a scaler would otherwise learn from data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from fastdp_dask.blocked import columns
from fastdp_dask.blocked.source import as_blocks, column_names, count_features, native
from fastdp_dask.data import Declaration
from fastdp_dask.errors import ArgumentError
from fastdp_dask.rows.groups import CompleteGroup

Interval = tuple[float, float]


class BoundedFeatures(TransformerMixin, BaseEstimator):
    r"""Clipped and scaled columns, and products of pairs, with bounds computed from declared bounds alone.

    Each declared column x with bounds [l, u] becomes  z = 2 (min(max(x, l), u) − l)/(u − l) − 1  (`scale`), and a pair
    of sources adds the products of their columns.  Nothing is learned: `fit` looks at no value, every row is
    transformed by itself, and so one record changes one row, as the guarantee of `LinearRegression` needs.

    A `StandardScaler` or a `MinMaxScaler` before a private fit learns its means and ranges from all records, and
    releases them with the coefficients; this does the same work from public facts.

    Parameters
    ----------
    declaration : Declaration
        Columns of X, their bounds and groups (`fastdp_dask.data.read_declaration`, or the one of a store).  Public.
    products : sequence of pairs of str
        Two source columns each, by the names of the bounds file.  A number times a number is one column
        ``a*b``; a category takes part with each of its indicators.  Two categories, and with `scale` a category and a
        number, give columns of which one is non-zero at most: a group, which adds 1 to the squared norm of a row
        however many columns it has.
    scale : bool, default True
        Map numbers to [−1, 1] (to [0, 1] where a category multiplies them); False keeps their units.

    Notes
    -----
    A missing value stays missing, in every product it takes part in, and blanks its record.

    Interval arithmetic: with a ∈ [l, u], b ∈ [l', u'], the product lies between the least and the largest of l l',
    l u', u l', u u'; a square between 0 (if 0 ∈ [l, u]) and the larger of l², u².
    """

    def __init__(
        self, declaration: Declaration, *, products: Sequence[tuple[str, str]] = (), scale: bool = True
    ) -> None:
        self.declaration = declaration
        self.products = products
        self.scale = scale

    def fit(self, X: Any = None, y: Any = None) -> BoundedFeatures:
        """Nothing is learned.  Returns self.

        Raises
        ------
        ArgumentError
            If a pair names no declared source.
        """
        self._layout()
        return self

    def transform(self, X: Any) -> Any:
        """X (n, d) with the declared columns, in their order, to (n, d + products): lazy for Dask input, else NumPy.

        Raises
        ------
        DataShapeError, DataTypeError
            If X has other columns than the declaration.
        """
        columns.as_many(self.declaration.n_features, count_features(X))
        columns.same(list(self.declaration.feature_names), column_names(X))
        layout = self._layout()
        blocks, _, _ = as_blocks(X)
        made = da.map_blocks(
            layout.apply, blocks, dtype=np.float64, chunks=(blocks.chunks[0], (len(layout.names),)),
            meta=np.empty((0, 0)),
        )  # fmt: skip
        return made if isinstance(X, da.Array) or hasattr(X, "dask") else made.compute()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` makes."""
        return np.asarray(self._layout().names, dtype=object)

    def estimator_arguments(self) -> dict[str, Any]:
        """`bounds_X`, `bounds_y` and `groups` of the transformed columns, as `LinearRegression` takes them."""
        layout = self._layout()
        lower, upper = zip(*layout.bounds, strict=True)
        # A product of a category and a number has no column that is 1 in every record.
        whole = self.declaration.is_category
        groups = [CompleteGroup(group) if whole(group) else list(group) for group in layout.groups]
        return {
            "bounds_X": (list(lower), list(upper)), "bounds_y": self.declaration.bounds_y, "groups": groups or None,
        }  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _layout(self) -> _Layout:
        layout = _Layout(self.declaration, bool(self.scale))
        for pair in self.products:
            if isinstance(pair, str) or len(pair) != 2:
                raise ArgumentError(f"products must be pairs of source columns, got {pair!r}. Write ('a', 'b').")
            layout.multiply(*pair)
        return layout


class _Layout:
    """Names, bounds and groups of the columns that come out, and the columns and factors that they are made of."""

    def __init__(self, declaration: Declaration, scale: bool) -> None:
        self._declaration, self._scale = declaration, scale
        self._grouped = {j for group in declaration.groups for j in group}
        self._of: dict[str, list[int]] = {}
        for j, source in enumerate(declaration.source_of.values()):
            self._of.setdefault(source, []).append(j)
        self.names = list(declaration.feature_names)
        self.bounds: list[Interval] = [
            (-1.0, 1.0) if self._numeric(j) and scale else pair for j, pair in enumerate(declaration.bounds_X)
        ]
        self.groups = [tuple(group) for group in declaration.groups]
        self._pairs: list[tuple[int, int, bool]] = []  # columns, and whether numbers are taken in [0, 1]

    def _numeric(self, j: int) -> bool:
        return j not in self._grouped

    def multiply(self, first: str, second: str) -> None:
        for source in (first, second):
            if source not in self._of:
                raise ArgumentError(
                    f"products must name declared source columns, got {source!r}. Choose from "
                    f"{', '.join(self._of)}."
                )
        left, right = self._of[first], self._of[second]
        pairs = [(i, j) for i in left for j in right] if first != second else _with_itself(left)
        pairs = [(i, j) for i, j in pairs if self._numeric(i) or self._numeric(j) or first != second]
        if not pairs:
            raise ArgumentError(f"products must be of two columns, got a category, {first!r}, with itself. Remove it.")
        by_group = not all(self._numeric(i) and self._numeric(j) for i, j in pairs)
        # In a product of whole groups one column is non-zero at most; several parts of a date are no such product.
        exclusive = by_group and all(self._one_group(s) or len(s) == 1 for s in (left, right))
        grouped = exclusive and (self._scale or all(not self._numeric(i) for i in (*left, *right)))
        at = len(self.names)
        for i, j in pairs:
            self.names.append(f"{self._declaration.feature_names[i]}*{self._declaration.feature_names[j]}")
            unit = grouped or (by_group and self._scale)
            self.bounds.append(self._product_bounds(i, j, unit))
            self._pairs.append((i, j, unit))
        if grouped:
            self.groups.append(tuple(range(at, len(self.names))))

    def _one_group(self, source_columns: Sequence[int]) -> bool:
        return any(set(source_columns) == set(group) for group in self._declaration.groups)

    def _product_bounds(self, i: int, j: int, unit: bool) -> Interval:
        if unit:
            return 0.0, 1.0
        (a, b), (c, d) = self.bounds[i], self.bounds[j]
        if i == j:
            return (0.0 if a <= 0 <= b else min(a * a, b * b)), max(a * a, b * b)
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)

    def apply(self, block: np.ndarray) -> np.ndarray:
        """The transformed rows of a block, (m, d + products)."""
        lower, upper = np.array(self._declaration.bounds_X).T
        with np.errstate(all="ignore"):  # a warning would tell of a value
            clipped = np.clip(native(block).astype(np.float64), lower, upper)
            unit = (clipped - lower) / (upper - lower)
            scaled = 2 * unit - 1 if self._scale else clipped
            numeric = np.array([self._numeric(j) for j in range(len(lower))])
            made = np.where(numeric, scaled, clipped)
            units = np.where(numeric, unit, clipped)
            out = [made]
            for i, j, in_unit in self._pairs:
                taken = units if in_unit else made
                out.append((taken[:, i] * taken[:, j])[:, None])
        return np.concatenate(out, axis=1)


def _with_itself(indices: Sequence[int]) -> list[tuple[int, int]]:
    return [(i, j) for k, i in enumerate(indices) for j in indices[k:]]
