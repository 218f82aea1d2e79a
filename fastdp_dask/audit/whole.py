"""Audits of everything that one call releases: `fastmix`, and fits with all their intermediate releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fastdp_dask import privacy, rng
from fastdp_dask.audit import pairs, scores
from fastdp_dask.audit.bounds import Claim
from fastdp_dask.audit.fastmix_step import FastmixStep, fastmix_step
from fastdp_dask.audit.mechanism import Case, Mechanism, Noise, Sampler
from fastdp_dask.audit.pairs import Pair
from fastdp_dask.audit.replay import ReplayedRows
from fastdp_dask.privacy import Event, FailureEvent, GaussianEvent, LaplaceEvent, MixingEvent
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.solvers import dispatch
from fastdp_dask.solvers.base import Plan
from fastdp_dask.solvers.calibrate import events_of
from fastdp_dask.solvers.fast_ihm_paper import PaperPlan
from fastdp_dask.solvers.pooled_choice import ESTIMATE_SHARE, Problem
from fastdp_dask.solvers.pooled_plan import PooledPlan

PUBLIC_SEED = 1
_N, _K2, _ROUNDS = 64, 8, 2
_K1 = 256  # enough rows for the bulk of the likelihood ratio to tell the two data sets apart


def _claim(epsilon: float, delta: float, events: Sequence[Event]) -> Claim:
    failure = sum(event.delta * event.count for event in events if isinstance(event, FailureEvent))
    return Claim(epsilon, delta, privacy.compose(events), failure)


def _reach(plan: Any, preset: str) -> float:
    """The deviation of rows aligned with the sketch: sqrt(γ), where a missing factor 1 + 2m would show most.

    Bounds that are promised for data independent of the sketch alone are kept: no more than m*, and no alignment for
    the leverage route.
    """
    most = math.sqrt(plan.gamma)
    if preset == "paper":
        return most
    return 0.0 if plan.route == "leverage" else min(most, float(plan.m_bound))


# -- fastmix -------------------------------------------------------------------------------------------------


def _fastmix(preset: str, epsilon: float, delta: float) -> Sequence[Case]:
    """(X̃, m̃, λ̃, η) with k2 = N on one record alone, and with k2 < N on rows aligned with the sketch."""
    cases: list[Case] = []
    for n, k2 in ((2, 2), (_N, _K2)):
        pair = pairs.rank_one(n)
        step = fastmix_step(pair.X, epsilon=epsilon, delta=delta, k1=_K1, k2=k2, preset=preset, public_seed=PUBLIC_SEED)
        if k2 < n:
            pair = pairs.aligned_with(step.sketch, _reach(step.plan, preset))
        events = _paper_events(step, delta) if preset == "paper" else _tight_events(step, n, k2, epsilon, delta)
        cases.append((_claim(step.plan.epsilon, delta, events), _fastmix_of(pair, step)))
    return cases


def _paper_events(step: FastmixStep, delta: float) -> Sequence[Event]:
    return (
        LaplaceEvent(step.plan.omega, 2),
        MixingEvent(_K1, step.plan.gamma, "paper"),
        FailureEvent(delta / 3, 2),
    )


def _tight_events(step: FastmixStep, n: int, k2: int, epsilon: float, delta: float) -> Sequence[Event]:
    plan = step.plan
    uses = (_K1, 0, int(plan.deviation_noise > 0), int(plan.eigenvalue_noise > 0))
    failures = ESTIMATE_SHARE * delta * (uses[2] + uses[3])
    if plan.route != "private":
        failures += Problem(n, 1, epsilon, delta, k2).floor(2.0, plan.route).failure_delta
    return events_of(plan.gamma, (0.0, plan.deviation_noise, plan.eigenvalue_noise), uses, failures)


def _fastmix_of(pair: Pair, step: FastmixStep) -> Sampler:
    sides = pair.rows()

    def sample(side: int, runs: int, noise: Noise) -> np.ndarray:
        released = [step(sides[side], noise(run)) for run in range(runs)]
        if not sides[1 - side].grams:
            step(sides[1 - side], noise(0))  # the attacker knows both data sets
        first, second = (rows.grams[0] for rows in sides)
        W = np.array([r.sketch.T @ r.sketch for r in released])
        numbers = np.array([(r.eta, r.m_tilde, r.lambda_tilde) for r in released])
        ratio = scores.wishart_ratio(W, _K1, first, second, numbers[:, 0] ** 2)
        return np.column_stack([ratio, np.nan_to_num(numbers, posinf=0.0)])

    return sample


# -- fits ----------------------------------------------------------------------------------------------------


def _fit(solver: str, preset: str, epsilon: float, delta: float) -> Sequence[Case]:
    """Every release of a fit, in order; the coefficients are a function of them."""
    k2 = None if solver == "ihm" else _K2
    request = dispatch.check_request(
        epsilon=epsilon, delta=delta, solver=solver, preset=preset, n_iter=_ROUNDS, k1=_K1, k2=k2
    )
    plan = dispatch.make_plan(request, _N, 1)
    pair = pairs.rank_one(_N)
    if k2 is not None:
        rows, _ = pair.rows()
        _solve(rows, plan, rng.NoiseSource(), ReleaseLog())
        pair = pairs.aligned_with(rows.sketches[0], _reach(plan, preset))
    return [(_claim(plan.epsilon, delta, _events(plan)), _fit_of(pair, plan))]


def _solve(rows: ReplayedRows, plan: Plan, noise: rng.NoiseSource, releases: ReleaseLog) -> np.ndarray:
    """The θ at which each gradient was released, (T, d)."""
    solution = dispatch.solve(rows, plan, public_seed=PUBLIC_SEED, noise=noise, releases=releases)
    return np.concatenate([np.zeros((1, plan.n_columns)), solution.iterates[:-1]])


def _events(plan: Plan) -> Sequence[Event]:
    if isinstance(plan, PooledPlan):
        return plan.events
    assert isinstance(plan, PaperPlan)
    T = plan.n_iter
    return (
        LaplaceEvent(plan.omega, 2 * T),
        MixingEvent(T * plan.k1, plan.gamma, "paper"),
        GaussianEvent(plan.noise_multiplier, T),
        FailureEvent(math.exp(-plan.tau) / 2, 2 * T),
    )


def _fit_of(pair: Pair, plan: Plan) -> Sampler:
    sides = pair.rows()
    for rows in sides:
        _solve(rows, plan, rng.NoiseSource(), ReleaseLog())  # the attacker knows both data sets
    grams = [rows.grams for rows in sides]

    def sample(side: int, runs: int, noise: Noise) -> np.ndarray:
        logs, gradients = [], []
        for run in range(runs):
            log = ReleaseLog()
            thetas = _solve(sides[side], plan, noise(run), log)
            gradients.append([[rows.gradient(theta, plan.clip) for theta in thetas] for rows in sides])
            logs.append(log)
        return _scores_of(plan, logs, np.array(gradients), grams)

    return sample


def _scores_of(
    plan: Plan, logs: Sequence[ReleaseLog], means: np.ndarray, grams: Sequence[Sequence[np.ndarray]]
) -> np.ndarray:
    """The likelihood ratio of Hessians and gradients, together and apart; all numbers; changes between rounds.

    `means` (runs, 2, T, d): the gradients that either data set has at each θ of each run.
    """
    names = logs[0].names
    stored = {name: np.array([log.stored(name) for log in logs]) for name in names}
    hessians = np.stack([stored[name] for name in names if name.startswith("hessian_")], axis=1)
    gradients = np.stack([stored[name] for name in names if name.startswith("gradient_")], axis=1)
    draws = hessians.shape[1]
    degrees = plan.degrees // draws if isinstance(plan, PooledPlan) else plan.k1
    mixed = np.zeros(len(logs))
    for t in range(draws):
        first, second = (side[min(t, len(side) - 1)] for side in grams)
        mixed += scores.wishart_ratio(degrees * hessians[:, t], degrees, first, second, stored["added_variance"])
    scale = plan.noise_multiplier * plan.clip
    stepped = np.zeros(len(logs))
    for t in range(plan.n_iter):
        stepped += scores.gaussian_ratio(gradients[:, t], means[:, 0, t], means[:, 1, t], scale)
    numbers = [values.reshape(len(logs), -1) for values in stored.values()]
    changes = [scores.change(hessians), scores.change_ratio(gradients, means[:, 0], means[:, 1])]
    columns = [mixed + stepped, mixed, stepped, *numbers, *changes]
    return np.column_stack(columns)


WHOLE = (
    Mechanism("fastmix-paper", "fastmix(preset='paper')", 0.1, lambda e, d: _fastmix("paper", e, d)),
    Mechanism("fastmix-tight", "fastmix(preset='tight')", 0.1, lambda e, d: _fastmix("tight", e, d)),
    Mechanism("ihm", "LinearRegression(solver='ihm')", 0.05, lambda e, d: _fit("ihm", "tight", e, d)),
    Mechanism("fastihm-tight", "LinearRegression(solver='fastihm')", 0.05, lambda e, d: _fit("fastihm", "tight", e, d)),
    Mechanism(
        "fastihm-paper", "LinearRegression(solver='fastihm', preset='paper')", 0.05,
        lambda e, d: _fit("fastihm", "paper", e, d),
    ),
)  # fmt: skip
