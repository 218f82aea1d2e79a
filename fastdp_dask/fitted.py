"""What a fitted model is and does: its numbers, their form in `model.json`, prediction and score."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from sklearn.utils.validation import check_is_fitted

from fastdp_dask.blocked import columns
from fastdp_dask.blocked.source import as_blocks, column_names, count_features
from fastdp_dask.errors import ArgumentError, NoIntervalsError
from fastdp_dask.uncertainty.intervals import Intervals
from fastdp_dask.uncertainty.summary import Summary, notes_of, rows_of


class FittedLinear:
    """ŷ = X coef_ + intercept_, from released numbers alone."""

    coef_: np.ndarray
    intercept_: Any
    n_features_in_: int
    n_iter_: int
    release_: dict[str, float]
    privacy_spent_: tuple[float, float]
    intervals_: Intervals | None
    no_intervals_: str

    def predict(self, X: Any) -> Any:
        """X coef_ᵀ + intercept_, (n_samples,) or (n_samples, n_targets): lazy for Dask input, else NumPy.

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
        """R² of `predict` on (X, y), computed exactly: not private, so use it on data you may look at.

        Of several targets the mean of theirs.
        """
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
        residual = target - (features.astype(np.float64) @ self.coef_.T + self.intercept_)
        left, total = da.compute((residual**2).sum(axis=0), ((target - target.mean(axis=0)) ** 2).sum(axis=0))
        return float(np.mean(1.0 - left / total))

    @property
    def estimate_(self) -> np.ndarray:
        """The solution without shrinkage, in the rows of `stderr_`: what intervals have their centre in.

        `coef_` predicts better where the noise is large, and this is what can be given an error.
        """
        return np.array(self._intervals().estimate)

    @property
    def stderr_(self) -> np.ndarray:
        """Standard errors of `estimate_`, (n_features,), and last that of the intercept if there is one.

        They are not those of `coef_`, which is shrunken: coef_ ± 1.96 stderr_ is no interval.  Use `confint`.
        """
        return self._intervals().standard_error

    def confint(self, level: float = 0.95) -> np.ndarray:
        """Confidence intervals, lower and upper ends, in the rows of `stderr_`: (n_features + intercept, 2).

        estimate_ ± z · stderr_, in the coordinates of `coef_`.  Only in a group that is declared complete (the
        categories of a store or a bounds file, or a `fastdp_dask.rows.groups.CompleteGroup`) each coefficient counts
        from the group's mean, which the intercept takes up: that is what the data can tell.  See
        `fastdp_dask.uncertainty.intervals.Intervals` for what an interval covers, and `summary` for the table.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ArgumentError
            If the solver has no intervals, or `level` is out of range.
        """
        return self._intervals().confint(level)

    def summary(self, level: float = 0.95) -> Summary:
        """Coefficients; estimates without shrinkage, their standard errors, intervals and the share due to privacy."""
        check_is_fitted(self)
        if self.coef_.ndim > 1:
            raise ArgumentError(
                f"summary must be of one target, got a model of {len(self.coef_)}. Read coef_ and intercept_ instead."
            )
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.coef_.size)])]
        found = self.intervals_
        coef = self.coef_.tolist()
        if found is None or len(found.coef) > len(names):
            names, coef = [*names, "(intercept)"], [*coef, self.intercept_]
        epsilon, delta = self.privacy_spent_
        heading = (f"Private linear regression, epsilon = {epsilon:.4g}, delta = {delta:.3g}",)
        rows = rows_of(names, found, coef, level)
        return Summary(rows, heading, notes_of(found, self.no_intervals_), level)

    def _intervals(self) -> Intervals:
        check_is_fitted(self)
        if self.intervals_ is None:
            raise NoIntervalsError(f"solver must be one with intervals, got another: {self.no_intervals_}.")
        return self.intervals_

    def _on(self, X: Any) -> da.Array:
        columns.as_many(self.n_features_in_, count_features(X))
        columns.same(getattr(self, "feature_names_in_", None), column_names(X))
        features, _, _ = as_blocks(X)
        return features.astype(np.float64) @ self.coef_.T + self.intercept_

    def _set(
        self,
        coef: np.ndarray,
        intercept: Any,
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
        self.intervals_, self.no_intervals_ = None, "this model was kept without them"

    def _restore(self, document: dict[str, Any]) -> None:
        """Take the numbers of a `model.json`."""
        spent = (float(document["privacy_spent"]["epsilon"]), float(document["privacy_spent"]["delta"]))
        coef = np.array(document["coef"], dtype=np.float64)
        intercept = float(document["intercept"]) if coef.ndim == 1 else np.array(document["intercept"])
        self._set(
            coef, intercept, document["released"], spent, document["feature_names"],
            int(document["n_iter"]),
        )  # fmt: skip
        kept = document.get("intervals")
        self.intervals_ = None if kept is None else Intervals.from_dict(kept)
        self.no_intervals_ = document.get("no_intervals", self.no_intervals_)

    def _document(self, *, solver: str, preset: str, reproducible: bool) -> dict[str, Any]:
        names = getattr(self, "feature_names_in_", None)
        return {
            "coef": self.coef_.tolist(),
            "intercept": self.intercept_ if self.coef_.ndim == 1 else self.intercept_.tolist(),
            "feature_names": None if names is None else names.tolist(),
            "privacy_spent": {"epsilon": self.privacy_spent_[0], "delta": self.privacy_spent_[1]},
            "neighboring_relation": "one record counted as blank: the zero row after scaling (n public)",
            "private_against_seed_holders": not reproducible,
            "released": self.release_,
            "n_iter": self.n_iter_,
            "solver": solver,
            "preset": preset,
            "intervals": None if self.intervals_ is None else self.intervals_.to_dict(),
            "no_intervals": self.no_intervals_,
        }
