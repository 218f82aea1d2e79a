"""Standard errors and confidence intervals of a fitted model, in the user's units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.scaling import Scaling
from fastdp_dask.solvers.adassp import AdaSSPPlan
from fastdp_dask.solvers.base import Plan
from fastdp_dask.solvers.pooled_plan import PooledPlan
from fastdp_dask.uncertainty import coordinates
from fastdp_dask.uncertainty.likelihood import sketch_error
from fastdp_dask.uncertainty.residual import RESIDUAL, why_not
from fastdp_dask.uncertainty.scores import Error, moment_error

POPULATION, RECORDS = "population", "records"


@dataclass(frozen=True)
class Intervals:
    """Estimates and their variances: coefficients in the order of the features, then the intercept if there is one.

    Columns of a group that is declared complete (a declared category) count from the mean of their group, which the
    intercept takes up; without an intercept the last such group does, and stays as it is.  All others, also those of a
    group with its baseline left out, are in the coordinates of `coef_`.

    Attributes
    ----------
    target : str
        What an interval covers: "population", the coefficients that more and more such records would give (sampling
        error and privacy noise); or "records", least squares of the very records of the fit (privacy noise alone).
    coef : tuple of float
        The model's own coefficients, read in the same way.
    estimate : tuple of float
        The solution without shrinkage (`fastdp_dask.uncertainty.likelihood`; of AdaSSP, `.scores`): standard errors are
        its own, and intervals have their centre in it.
    privacy_variance, sampling_variance : tuple of float
        Of the estimate; the second is 0 for the target "records".
    grouped : tuple of bool
        Which of them count from the mean of their group.
    """

    target: str
    coef: tuple[float, ...]
    estimate: tuple[float, ...]
    privacy_variance: tuple[float, ...]
    sampling_variance: tuple[float, ...]
    grouped: tuple[bool, ...]

    @property
    def standard_error(self) -> np.ndarray:
        """Of every estimate."""
        return np.asarray(np.sqrt(np.array(self.privacy_variance) + np.array(self.sampling_variance)))

    @property
    def privacy_share(self) -> np.ndarray:
        """Of the variance of every estimate, the share that the privacy noise makes: 0 to 1."""
        total = np.array(self.privacy_variance) + np.array(self.sampling_variance)
        return np.asarray(np.divide(self.privacy_variance, total, out=np.zeros_like(total), where=total > 0))

    def confint(self, level: float = 0.95) -> np.ndarray:
        """Lower and upper ends, (rows, 2): estimate ± z · standard error, z the normal quantile of `level`."""
        level = _validate.positive("level", level, "Typical values are 0.9, 0.95 and 0.99.")
        if level >= 1.0:
            raise ArgumentError(f"level must lie between 0 and 1, got level={level!r}. Typical are 0.9, 0.95 and 0.99.")
        half = float(ndtri((1 + level) / 2)) * self.standard_error
        center = np.array(self.estimate)
        return np.column_stack([center - half, center + half])

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Intervals:
        """What `to_dict` made."""
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in document.items()}
        return cls(**fields)


def intervals(
    plan: Plan, releases: ReleaseLog, iterates: np.ndarray, scaling: Scaling, complete: Sequence[bool] = ()
) -> Intervals | None:
    """Of a finished fit, from its releases and public facts alone; None where `why_not` says why.

    Parameters
    ----------
    plan : Plan
    releases : ReleaseLog
        Complete.
    iterates : ndarray of shape (T, d)
        θ_1, …, θ_T.
    scaling : Scaling
    complete : sequence of bool
        Of each declared group, whether it has a column for every label; those beyond its end have not.
    """
    if why_not(plan):
        return None
    basis = coordinates.estimable(scaling, complete)
    found = _of_adassp if isinstance(plan, AdaSSPPlan) else _of_pooled
    error = found(plan, releases.stored, np.vstack([np.zeros(plan.n_columns), iterates]), basis)
    matrix, shift = coordinates.to_user(scaling, complete)
    seen = matrix @ basis
    spread = 0.0
    if RESIDUAL in releases:
        n, least = plan.n_samples, plan.residual_noise * plan.clip**2
        spread = max(float(releases.stored(RESIDUAL)), least) / max(n - basis.shape[1], 1)
    group = np.zeros(len(matrix), dtype=bool)
    for columns in coordinates.centred(scaling, complete):
        group[columns] = True
    return Intervals(
        target=POPULATION if RESIDUAL in releases else RECORDS,
        coef=_numbers(matrix @ iterates[-1] + shift),
        estimate=_numbers(seen @ error.estimate + shift),
        privacy_variance=_numbers(np.einsum("ij,jk,ik->i", seen, error.privacy, seen)),
        sampling_variance=_numbers(spread * np.einsum("ij,jk,ik->i", seen, error.sampling, seen)),
        grouped=tuple(bool(value) for value in group),
    )


def _of_pooled(plan: Plan, stored: Callable[[str], np.ndarray], iterates: np.ndarray, basis: np.ndarray) -> Error:
    assert isinstance(plan, PooledPlan)
    added = float(np.max(stored("added_variance")))
    gradients = np.array([stored(f"gradient_{t}") for t in range(plan.n_iter)])
    return sketch_error(
        basis.T @ stored("hessian_0") @ basis, plan.degrees, added, 1.0 / plan.k2 if plan.k2 else 0.0,
        iterates @ basis, gradients @ basis, plan.noise_multiplier * plan.clip,
    )  # fmt: skip


def _of_adassp(plan: Plan, stored: Callable[[str], np.ndarray], iterates: np.ndarray, basis: np.ndarray) -> Error:
    """One gradient, at θ = 0, and a Gram matrix with noise of its own."""
    assert isinstance(plan, AdaSSPPlan)
    ridge = max(0.0, plan.ridge - float(stored("lambda_tilde")))
    off_diagonal = max(plan.off_diagonal_noise, plan.gram_noise / math.sqrt(2))
    return moment_error(
        basis.T @ stored("gram") @ basis, basis.T @ stored("moment"), iterates[-1] @ basis, off_diagonal, ridge,
        plan.moment_noise,
    )  # fmt: skip


def _numbers(values: np.ndarray) -> tuple[float, ...]:
    """Finite floats: what overflowed reads as very large."""
    return tuple(float(value) for value in np.clip(np.nan_to_num(values, nan=1e300), -1e300, 1e300))
