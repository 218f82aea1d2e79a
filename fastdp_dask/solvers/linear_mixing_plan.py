"""Plans of linear mixing and fast linear mixing: one mixing release of B = [X y]/√2, rows of norm ≤ 1.

Everything here is a function of public facts: n, d, (ε, δ) and options.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fastdp_dask import privacy
from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms.spectral import upward_shift
from fastdp_dask.privacy import Event, FailureEvent, GaussianEvent, LaplaceEvent, MixingEvent
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.solvers import predict
from fastdp_dask.solvers.base import BudgetLine, Plan

_FLOOR_SHARE = 0.05  # of delta: the bound on the sketch's deviation
_ESTIMATE_SHARE = 0.05  # of delta: the one-sided estimate of λ_min
_ROW_RATIOS = (2.5, 4, 8, 16, 32)  # K in columns of B: more would gain on flat spectra and lose on falling ones
_EIGENVALUE_SHARES = (0.0, 0.05, 0.1, 0.2, 0.35)
_DEVIATION_SHARES = (0.05, 0.15, 0.3)
_ROW_ENERGY = 0.3  # guess at the mean squared norm of a row of B, and at
_SPREAD = 1.4  # the largest deviation over the typical one
_SIGNAL = 0.05  # guesses at the mean squared scaled target that the model explains, and
_RESIDUAL = 0.02  # at what it leaves: the choice of K depends on them, the privacy does not

Shares = tuple[float, float]
"""Of the Rényi budget: to λ_min and to the deviation m; the sketch takes the rest."""


@dataclass(frozen=True)
class MixingPlan(Plan):
    """`Plan` with what one mixing release of B needs; k1 is the number of its rows.

    Attributes
    ----------
    route : str
        How the deviation of the SRHT is bounded: "gram" (no SRHT), "public", "leverage", "free", or "private".
    beta, m_bound : float
        Floor of λ_min + η² (of γ alone for "private"), and the public bound on the deviation.
    omega, tau : float
        Scale and shift of the Laplace releases, in units of their sensitivities (paper preset).
    eigenvalue_noise, deviation_noise : float
        Noise multipliers of the Gaussian estimates of λ_min and m (0: none).
    estimate_failure : float
        Probability that one estimate is on its wrong side.
    eigenvalue_kind : str
        "eigenvalue" (sensitivity 1 + 2m) or "singular" (s_min, sensitivity 1); "" for none.
    """

    route: str = "gram"
    beta: float = 0.0
    m_bound: float = 0.0
    omega: float = 0.0
    tau: float = 0.0
    eigenvalue_noise: float = 0.0
    eigenvalue_kind: str = ""
    deviation_noise: float = 0.0
    estimate_failure: float = 0.0


def make_plan(
    n_samples: int,
    n_columns: int,
    *,
    solver: str,
    epsilon: float,
    delta: float,
    preset: str = "tight",
    k1: int | None = None,
    k2: int | None = None,
    coherence: str = "auto",
) -> MixingPlan:
    """The rows, the noise level and the floor of one mixing release.

    `solver` "linear_mixing" mixes B itself (no SRHT: m = 0 by case); "fast_linear_mixing" an SRHT of k2 rows of B.

    Raises
    ------
    ArgumentError
        If k1 < d + 2, k2 < d + 1 or k2 > N.
    CalibrationError
        If coherence="leverage" needs a larger sketch.
    """
    padded = next_power_of_two(n_samples)
    width = n_columns + 1
    if k1 is not None and k1 < width + 1:
        raise ArgumentError(
            f"k1 must be at least {width + 1}, the columns (with the intercept and the target) and one more, got "
            f"k1={k1}. Leave it out for the default."
        )
    if k2 is not None and not width <= k2 <= padded:
        raise ArgumentError(
            f"k2 must lie between {width}, the columns with the intercept and the target, and {padded}, got k2={k2}. "
            "Leave it out for the default."
        )
    if preset == "paper":
        return _paper(n_samples, n_columns, solver, epsilon, delta, k1, k2)
    size = padded
    if solver == "fast_linear_mixing":
        size = k2 or min(padded, max(next_power_of_two(4 * width), padded // 16))
    return _tight(n_samples, n_columns, solver, epsilon, delta, k1, size, "auto" if size == padded else coherence)


def _paper(n: int, d: int, solver: str, epsilon: float, delta: float, k1: int | None, k2: int | None) -> MixingPlan:
    """Half of ε to the Laplace releases, half to the sketch; δ in equal parts to what may fail and to the sketch.

    Linear mixing releases λ̃ (ω = 2/ε, τ = log(1/δ), so that λ̃ > λ has probability δ/2), then k1 rows at
    (ε/2, δ/2) (GM).  Fast linear mixing is FastMix of B (FM, Algorithm 1 and Theorem 1): m̃ and λ̃ with ω = 4/ε, so that
    together they cost ε/2, τ = log(3/(2δ)), and k1 rows at (ε/2, δ/3).  k1 = 2.5 max(d + 1, log(2/ϱ)), ϱ = δ/10.
    """
    size = max(float(d + 1), math.log(2 / (delta / 10)))
    rows = math.ceil(2.5 * size) if k1 is None else k1
    fast = solver == "fast_linear_mixing"
    padded = next_power_of_two(n)
    sketch = 0
    if fast:
        sketch = min(padded, math.ceil(100 * size)) if k2 is None else k2
    parts, bound = (3, "paper") if fast else (2, "tight")
    gamma = privacy.calibrate_gamma(epsilon / 2, delta / parts, rows, bound=bound)
    omega = (4 if fast else 2) / epsilon
    tau = math.log(3 / (2 * delta)) if fast else math.log(1 / delta)
    estimates = parts - 1
    events = (
        LaplaceEvent(omega, estimates),
        MixingEvent(rows, gamma, bound),
        FailureEvent(delta / parts * (1 + 2.0**-40), estimates),
    )
    return MixingPlan(
        solver=solver,
        preset="paper",
        n_samples=n,
        n_columns=d,
        epsilon=epsilon,
        delta=delta,
        n_iter=1,
        k1=rows,
        k2=0 if sketch == padded else sketch,
        clip=1.0,
        gamma=gamma,
        noise_multiplier=0.0,
        n_passes=2 if sketch and sketch < padded else 1,
        budget=(
            BudgetLine(f"{estimates} Laplace releases", epsilon / 2, delta * estimates / parts),
            BudgetLine(f"Gaussian sketch of {rows:,} rows of [X y]", epsilon / 2, delta / parts),
        ),
        reasons=("split of the budget as in the papers: halves of epsilon, equal parts of delta",),
        route="private" if sketch and sketch < padded else "gram",
        beta=gamma,
        omega=omega,
        tau=tau,
        events=events,
    )


def _tight(
    n: int, d: int, solver: str, epsilon: float, delta: float, k1: int | None, size: int, route: str
) -> MixingPlan:
    """K and the share of λ_min by least predicted risk, then one Rényi sum calibrated exactly."""
    width, padded = d + 1, next_power_of_two(n)
    floor_delta = _FLOOR_SHARE * delta

    def floor(gamma: float, bounded_by: str) -> privacy.Floor:
        if bounded_by == "private":
            return privacy.Floor("private", gamma, 0.0, "the deviation is released: beta = gamma (1 + 2 m_tilde)")
        return privacy.choose_floor(
            gamma, n_padded=padded, d=width, sketch_size=size, delta=floor_delta, route=bounded_by
        )

    def calibrate(rows: int, shares: Shares, bounded_by: str) -> tuple[float, float]:
        """The least factor of `_levels` within (ε, δ), and the failures paid in δ."""
        failures = 0.0 if size == padded or bounded_by == "private" else floor_delta
        failures += _ESTIMATE_SHARE * delta * sum(share > 0 for share in shares)
        factor = privacy.smallest_noise(
            lambda c: privacy.compose(_curves(rows, *_levels(rows, shares, c))),
            epsilon,
            (delta - failures) * (1 - 2.0**-40),
            lower=1e-6,
            upper=1e60,
        )
        return factor, failures

    best: tuple[float, int, Shares, str, str] | None = None
    for rows in [max(math.ceil(width * ratio), width + 8) for ratio in _ROW_RATIOS] if k1 is None else [k1]:
        factor = calibrate(rows, (0.1, 0.0), "auto")[0]
        for bounded_by, shares, kind in _settings(route, size == padded):
            gamma, noise, m_noise = _levels(rows, shares, factor)
            ground = floor(gamma, bounded_by)
            beta, m_bound = ground.beta, _m_bound(padded, size, floor_delta, ground.name)
            if bounded_by == "private":
                m_bound = _predicted_deviation(padded, size, upward_shift(m_noise, _ESTIMATE_SHARE * delta))
                beta = gamma * (1 + 2 * m_bound)
            if kind == "eigenvalue" and not math.isfinite(m_bound):
                continue
            shift = upward_shift(noise, _ESTIMATE_SHARE * delta) * (1 + 2 * m_bound if kind == "eigenvalue" else 1)
            risk = _risk(n, d, rows, beta, shift, kind)
            if best is None or risk < best[0]:
                best = (risk, rows, shares, kind, bounded_by)
    assert best is not None
    risk, rows, shares, kind, bounded_by = best
    factor, failures = calibrate(rows, shares, bounded_by)
    gamma, noise, m_noise = _levels(rows, shares, factor)
    chosen = floor(gamma, bounded_by)
    events = (*_curves(rows, gamma, noise, m_noise), *([FailureEvent(failures)] if failures else []))
    return MixingPlan(
        solver=solver,
        preset="tight",
        n_samples=n,
        n_columns=d,
        epsilon=epsilon,
        delta=delta,
        n_iter=1,
        k1=rows,
        k2=0 if size == padded else size,
        clip=1.0,
        gamma=gamma,
        noise_multiplier=0.0,
        n_passes=2 if chosen.name == "private" else 1,
        budget=(
            BudgetLine("Gaussian sketch of [X y] and one-sided estimates, one sum", epsilon, delta - failures),
            *([BudgetLine("bounds that fail with small probability", 0.0, failures)] if failures else []),
        ),
        reasons=(f"K = {rows:,} rows: least predicted risk, {risk:.2g}", chosen.reason),
        route=chosen.name,
        beta=chosen.beta,
        m_bound=_m_bound(padded, size, floor_delta, chosen.name),
        eigenvalue_noise=noise,
        eigenvalue_kind=kind,
        deviation_noise=m_noise,
        estimate_failure=_ESTIMATE_SHARE * delta if noise or m_noise else 0.0,
        events=events,
    )


def _settings(route: str, whole: bool) -> Iterator[tuple[str, Shares, str]]:
    """How the deviation is bounded, the shares of the estimates of λ_min and m, and what of λ_min is estimated."""
    routes = (route, "private") if route == "auto" and not whole else (route,)
    for bounded_by in routes:
        for deviation in _DEVIATION_SHARES if bounded_by == "private" else (0.0,):
            for share in _EIGENVALUE_SHARES:
                for kind in ("eigenvalue", "singular") if share else ("",):
                    yield bounded_by, (share, deviation), kind


def _levels(rows: int, shares: Shares, factor: float) -> tuple[float, float, float]:
    """γ and the multipliers for λ_min and m that take their shares of a Rényi curve α/c² (exact as γ → ∞)."""
    gamma = max(1.0 + 1e-9, factor * math.sqrt(rows / (4 * (1 - sum(shares)))))
    noise, m_noise = (factor * math.sqrt(1 / (2 * share)) if share else 0.0 for share in shares)
    return gamma, noise, m_noise


def _curves(rows: int, gamma: float, *noises: float) -> tuple[Event, ...]:
    return (MixingEvent(rows, gamma), *(GaussianEvent(noise) for noise in noises if noise))


def _predicted_deviation(padded: int, size: int, shift: float) -> float:
    coherence = math.sqrt(2 * math.log(2 * padded) / size)
    return _SPREAD * math.sqrt(padded / size * _ROW_ENERGY) + coherence * shift


def _m_bound(padded: int, size: int, delta: float, route: str) -> float:
    if size == padded:
        return 0.0
    return privacy.coherence_bound_public(padded, size, delta) if route == "public" else math.inf


def _risk(n: int, d: int, rows: int, beta: float, shift: float, kind: str) -> float:
    """Predicted excess risk of least squares on K mixed rows: pull of η² and the sketch's own error.

    Minimising over mixed rows is ridge regression with 2η² on data whose residuals have 2η²(1 + ‖θ‖²) more energy, and
    K rows leave d/(K − d − 1) of the residual energy as error.  shift = 0: λ_min is not estimated.
    """
    spectra = predict.spectra(n, d)
    signal = _SIGNAL * n / spectra.sum(axis=1, keepdims=True)  # θ_j², equal in all directions
    smallest = spectra.min(axis=1).clip(max=n * _RESIDUAL) / 2
    risks = []
    for eigenvalues, theta, low in zip(spectra, signal, smallest, strict=True):
        found = 0.0
        if shift:
            found = max(0.0, low - shift if kind == "eigenvalue" else max(0.0, math.sqrt(low) - shift) ** 2)
        added = 2 * max(0.0, beta - found)
        share = eigenvalues / (eigenvalues + added)
        pull = float((eigenvalues * (1 - share) ** 2).sum() * theta[0])
        energy = n * _RESIDUAL + pull + added * (1 + float((share**2).sum() * theta[0]))
        risks.append((pull + float(share.mean()) * d / (rows - d - 1) * energy) / n)
    return math.exp(sum(math.log(risk) for risk in risks) / len(risks))
