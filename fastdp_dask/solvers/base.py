"""What every solver shares: its plan, and what a run hands back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fastdp_dask.privacy import Event


@dataclass(frozen=True)
class BudgetLine:
    """Where a part of the budget goes."""

    purpose: str
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Forecast:
    """What one solver is predicted to cost and to achieve, from public facts and machine constants.

    Attributes
    ----------
    solver : str
    k2 : int
        Rows of the SRHT; 0: none.
    n_passes : int
    seconds, driver_seconds : float
        Of the whole fit, and of its work on the driver alone.
    bytes_read, bytes_moved : int
        Chunks as decoded, and partial results handed on by tasks, over all passes; data held in memory are decoded
        once, so that this, and the seconds, are then upper figures.
    task_bytes, worker_bytes, driver_bytes : int
        Projected peaks: of the largest task, of a worker process with all its threads, and of results on the driver.
    noise : float
        Standard deviation of the noise on Xᵀy or on each gradient; 0 where only a sketch is released.
    added_variance : float
        η² expected on the sketch, or the ridge of AdaSSP: mean over the guessed spectra.
    risk : float
        Mean squared error beyond least squares in units of the half-width of `bounds_y` squared: geometric mean of
    risks : tuple of float
        the same for each guessed spectrum of XᵀX: flat, falling, spiked.
    fits : bool
        Whether the projected peak of a worker is within its memory limit.
    """

    solver: str
    k2: int
    n_passes: int
    seconds: float
    driver_seconds: float
    bytes_read: int
    bytes_moved: int
    task_bytes: int
    worker_bytes: int
    driver_bytes: int
    noise: float
    added_variance: float
    risk: float
    risks: tuple[float, ...]
    fits: bool = True


@dataclass(frozen=True)
class Plan:
    """What will be done, from public facts only: shapes, (ε, δ) and options.

    Attributes
    ----------
    solver, preset : str
    n_samples, n_columns : int
        n and d, the intercept included in d.
    epsilon, delta : float
        The guarantee for the whole fit, blank-one-record neighbours.
    n_iter : int
        T, gradient steps.
    k1, k2 : int
        Rows of one released Gaussian sketch, and of the SRHT (0: no SRHT).
    clip : float
        C, bound on a scaled residual.
    gamma : float
        Floor of (λ_min + η²) / (1 + 2m) that the sketch needs.
    noise_multiplier : float
        Standard deviation of the noise on each gradient, over its sensitivity C.
    n_passes : int
        Passes over X.
    budget : tuple of BudgetLine
    reasons : tuple of str
        Why the free parameters are what they are.
    events : tuple of Event
        Every mechanism that the run pays for: the ledger recomputes ε from them.  A run draws each release through
        `ReleaseLog.once`, and nothing else is drawn.
    residual_noise : float
        Standard deviation of the noise on the sum of squared residuals, over its sensitivity C²; 0: not released.
    n_targets : int
        t, columns of y.  A gradient is a (d, t) matrix of sensitivity C sqrt(t) in the Frobenius norm.
    forecasts : tuple of Forecast
        What each solver of the family is predicted to cost and to achieve, the chosen one first.
    why : tuple of str
        Why this solver, in two lines.
    outlook : tuple of str
        What a larger epsilon or more rows would buy.

    The last three are predictions: two plans that differ in nothing else are equal.
    """

    solver: str
    preset: str
    n_samples: int
    n_columns: int
    epsilon: float
    delta: float
    n_iter: int
    k1: int
    k2: int
    clip: float
    gamma: float
    noise_multiplier: float
    n_passes: int
    budget: tuple[BudgetLine, ...] = ()
    reasons: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()
    residual_noise: float = 0.0
    n_targets: int = 1
    forecasts: tuple[Forecast, ...] = field(default=(), compare=False)
    why: tuple[str, ...] = field(default=(), compare=False)
    outlook: tuple[str, ...] = field(default=(), compare=False)

    @property
    def theta_shape(self) -> tuple[int, ...]:
        """(d,), or (d, t) for several targets."""
        return (self.n_columns,) if self.n_targets == 1 else (self.n_columns, self.n_targets)

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """A few lines for a person."""
        lines = [
            f"{self.solver} ({self.preset}): n = {self.n_samples:,}, d = {self.n_columns}, "
            f"epsilon = {self.epsilon:g}, delta = {self.delta:.3g}",
            f"{self.n_iter} iterations in {self.n_passes} passes over X; sketch k1 = {self.k1:,}"
            + (f", k2 = {self.k2:,}" if self.k2 else ""),
            f"gamma = {self.gamma:.4g}, noise on each gradient = {self.noise_multiplier:.4g} x its sensitivity",
        ]
        if self.n_targets > 1:
            lines.append(f"{self.n_targets} targets in one release: the sensitivity grows by sqrt({self.n_targets})")
        lines += [f"budget: {b.purpose}: epsilon {b.epsilon:.4g}, delta {b.delta:.3g}" for b in self.budget]
        lines += [*self.reasons, *self.why, *self.outlook]
        return "\n".join(lines)


@dataclass(frozen=True)
class Solution:
    """What a solver returns: released numbers only.

    Attributes
    ----------
    theta : ndarray of shape (d,), or (d, t) for several targets
        Coefficients of the scaled problem.
    epsilon, delta : float
        What the run spent.
    released : dict
        Released scalars (η², m̃, λ̃, …) by name.
    iterates : ndarray of shape (T, d) or (T, d, t)
        θ after each step: post-processing of released values.
    """

    theta: np.ndarray
    epsilon: float
    delta: float
    released: dict[str, float] = field(default_factory=dict)
    iterates: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
