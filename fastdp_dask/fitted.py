"""What a fitted model is and does: its numbers, their form in `model.json`, prediction and score."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from sklearn.utils.validation import check_is_fitted

from fastdp_dask.blocked import columns
from fastdp_dask.blocked.source import as_blocks, column_names, count_features
from fastdp_dask.errors import ArgumentError


class FittedLinear:
    """ŷ = X coef_ + intercept_, from released numbers alone."""

    coef_: np.ndarray
    intercept_: float
    n_features_in_: int
    n_iter_: int
    release_: dict[str, float]
    privacy_spent_: tuple[float, float]

    def predict(self, X: Any) -> Any:
        """X coef_ + intercept_, (n_samples,): a lazy Dask array for Dask input, else NumPy.

        Raises
        ------
        NotFittedError
            Before `fit`.
        DataShapeError, DataTypeError
            If X has other columns than those of the fit.
        """
        check_is_fitted(self)
        lazy = isinstance(X, da.Array) or hasattr(X, "dask")
        predicted = self._on(X)
        return predicted if lazy else predicted.compute()

    def score(self, X: Any, y: Any, sample_weight: None = None) -> float:
        """R² of `predict` on (X, y), computed exactly: not private, so use it on data you may look at."""
        if sample_weight is not None:
            raise ArgumentError(
                "sample_weight must be left out: score weighs every row alike, got weights. Leave it out."
            )
        check_is_fitted(self)
        columns.required(y)
        columns.as_many(self.n_features_in_, count_features(X))
        columns.same(getattr(self, "feature_names_in_", None), column_names(X))
        features, target, _ = as_blocks(X, y)
        assert target is not None
        residual = target - (features.astype(np.float64) @ self.coef_ + self.intercept_)
        left, total = da.compute((residual**2).sum(), ((target - target.mean()) ** 2).sum())
        return float(1.0 - left / total)

    def _on(self, X: Any) -> da.Array:
        columns.as_many(self.n_features_in_, count_features(X))
        columns.same(getattr(self, "feature_names_in_", None), column_names(X))
        features, _, _ = as_blocks(X)
        return features.astype(np.float64) @ self.coef_ + self.intercept_

    def _set(
        self,
        coef: np.ndarray,
        intercept: float,
        released: dict[str, float],
        spent: tuple[float, float],
        names: list[str] | None,
        n_iter: int,
    ) -> None:
        self.coef_, self.intercept_ = coef, intercept
        self.n_features_in_ = coef.shape[-1]
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.release_, self.privacy_spent_, self.n_iter_ = released, spent, n_iter

    def _restore(self, document: dict[str, Any]) -> None:
        """Take the numbers of a `model.json`."""
        spent = (float(document["privacy_spent"]["epsilon"]), float(document["privacy_spent"]["delta"]))
        coef = np.array(document["coef"], dtype=np.float64)
        self._set(
            coef, float(document["intercept"]), document["released"], spent, document["feature_names"],
            int(document["n_iter"]),
        )  # fmt: skip

    def _document(self, *, solver: str, preset: str, reproducible: bool) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        return {
            "coef": self.coef_.tolist(),
            "intercept": self.intercept_,
            "feature_names": None if names is None else names.tolist(),
            "privacy_spent": {"epsilon": self.privacy_spent_[0], "delta": self.privacy_spent_[1]},
            "neighboring_relation": "one record counted as blank: the zero row after scaling (n public)",
            "private_against_seed_holders": not reproducible,
            "released": self.release_,
            "n_iter": self.n_iter_,
            "solver": solver,
            "preset": preset,
        }
