"""`fastmix`: one private Gaussian sketch of the data, for whoever needs the sketch itself."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastdp_dask import _validate, privacy, rng
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.blocked.source import as_blocks, count_features
from fastdp_dask.errors import ArgumentError, PrivacyLeakWarning
from fastdp_dask.linalg import gram_of, one_blas_thread, smallest_eigenvalue, square_root
from fastdp_dask.mechanisms import fast_mixing, spectral
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import declare
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.sketch.srht import SRHT
from fastdp_dask.solvers.calibrate import calibrated, events_of, spent
from fastdp_dask.solvers.pooled_choice import ESTIMATE_SHARE, Problem, least_added_variance, routes_for

_PRESETS = ("tight", "paper")


@dataclass(frozen=True)
class FastMixRelease:
    """What `fastmix` releases; everything here may be published together.

    Attributes
    ----------
    sketch : ndarray of shape (k1, n_features)
        Rows i.i.d. N(0, ZᵀZ + η²I) given Z = S X, in the units of X.  sketchᵀ sketch / k1 estimates XᵀX + η²I.
    eta : float
        η, in the units of X.
    gamma : float
        Noise level: floor of (λ_min(ZᵀZ) + η²) / (1 + 2m).
    coherence : float
        Δ of the SRHT (for low-coherence rows its bound by formula), public.
    m_tilde : float
        Upper bound on the deviation m that was used: the released m̃ or the public m*; 0 when k2 = N, infinite when
        none was needed.
    lambda_tilde : float
        Released lower bound on λ_min(ZᵀZ), of rows scaled to norm ≤ 1.
    epsilon, delta : float
        What the release costs.
    """

    sketch: np.ndarray
    eta: float
    gamma: float
    coherence: float
    m_tilde: float
    lambda_tilde: float
    epsilon: float
    delta: float


def fastmix(
    X: Any,
    *,
    epsilon: float,
    delta: float,
    k1: int,
    k2: int,
    preset: str = "tight",
    public_seed: int | None = None,
    random_state: Any = None,
    data_norm: float = 1.0,
) -> FastMixRelease:
    r"""Release X̃ = S_G (S X) + η Ξ under (epsilon, delta)-differential privacy.

    S is an SRHT of k2 rows, S_G (k1, k2) and Ξ (k1, d) are standard normal.  Neighbours differ in one row replaced by
    the zero row.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Dask or NumPy array, Dask or pandas DataFrame; private.  Rows longer than `data_norm` are scaled down to it, a
        row with a non-finite entry counts as zero.
    epsilon, delta : float
        epsilon > 0 and finite, 0 < delta < 1.
    k1, k2 : int
        Rows of the release and of the SRHT; n_features ≤ k2 ≤ N, the power of two that holds n_samples.
    preset : {"tight", "paper"}
        "paper": FM, Algorithm 1 and Theorem 1, half of epsilon to the two Laplace releases (ω = 4/ε,
        τ = log(3/(2δ))); two passes.  "tight": the Gaussian-mixing curve, one Rényi sum, and the bound on the
        deviation and the estimate of λ_min that are predicted to need the least η²; one or two passes.
    public_seed, random_state
        As in `LinearRegression`: for tests, with PrivacyLeakWarning.
    data_norm : float
        Declared bound on the Euclidean norm of a row.

    Raises
    ------
    ArgumentError, BoundsError, DataShapeError, DataTypeError
        Before anything is read or spent.
    """
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    k1, k2 = _validate.count("k1", k1, maximum=1 << 28), _validate.count("k2", k2)
    _validate.choice("preset", preset, _PRESETS)
    scaling = declare(count_features(X), data_norm=data_norm, bounds_y=(-1, 1), fit_intercept=False)
    if public_seed is not None:
        rng.check_seed("public_seed", public_seed)
        warnings.warn(
            "public_seed fixes the sketch: its bounds need a sketch drawn after the data was collected. "
            "Leave it out for any real release.",
            PrivacyLeakWarning,
            stacklevel=2,
        )
    noise = rng.NoiseSource(random_state)
    features, _, _ = as_blocks(X)
    _validate.warn_of_large_delta(delta, features.shape[0])
    n, d = features.shape
    if not d <= k2 <= next_power_of_two(n):
        raise ArgumentError(
            f"k2 must lie between n_features={d} and {next_power_of_two(n)}, the power of two that holds the rows, "
            f"got k2={k2}. Choose a size between them."
        )
    seed = rng.fresh_seed() if public_seed is None else int(public_seed)
    rows = BlockedRows(features, None, scaling)
    plan = _paper(epsilon, delta, k1) if preset == "paper" else _tight(epsilon, delta, k1, n, k2, d)
    sketch = SRHT(n, k2, seed=rng.derive_key(seed, "round", 0), design=plan.row_design)
    with one_blas_thread():
        return _release(rows, sketch, plan, preset, delta, k1, noise, float(data_norm))


def _release(
    rows: BlockedRows,
    sketch: SRHT,
    plan: _Plan,
    preset: str,
    delta: float,
    k1: int,
    noise: rng.NoiseSource,
    unit: float,
) -> FastMixRelease:
    k2, d = sketch.sketch_size, rows.scaling.n_columns
    (sums,), _ = rows.sketch([sketch], 1.0)
    coherence = sketch.coherence_bound()
    gram = gram_of(sums, GRID * math.sqrt(k2))
    if preset == "paper":
        (deviation,) = rows.deviation([sketch], [sums])
        # k2 = N has no deviation, by case.
        sensitivity = spectral.deviation_sensitivity(coherence, sketch.n_rows, k2, d) if k2 < sketch.n_padded else 0.0
        m_tilde = fast_mixing.private_deviation(
            deviation if sensitivity else 0.0, sensitivity, plan.omega, plan.tau, noise.stream("m_tilde")
        )
        lambda_tilde = fast_mixing.private_eigenvalue(
            smallest_eigenvalue(gram), m_tilde, plan.omega, plan.tau, noise.stream("lambda_tilde")
        )
        added = fast_mixing.added_variance(plan.gamma, m_tilde, lambda_tilde)
        released = fast_mixing.mixing(sums / (GRID * math.sqrt(k2)), added, k1, noise.stream("sketch"))
    else:
        m_tilde = plan.m_bound
        if plan.route == "private":
            (deviation,) = rows.deviation([sketch], [sums])
            sensitivity = spectral.deviation_sensitivity(coherence, sketch.n_rows, k2, d)
            m_tilde = spectral.deviation(
                deviation, sensitivity, plan.deviation_noise, plan.failure, noise.stream("m_tilde")
            )
        beta = plan.gamma * (1.0 + 2.0 * m_tilde) if plan.route == "private" else plan.beta
        lambda_tilde = _estimate(gram, m_tilde, plan, noise.stream("lambda_tilde"))
        added = max(0.0, beta - lambda_tilde)
        # The same law as S_G Z + η Ξ, from d × d numbers: rows N(0, ZᵀZ + η²I).
        root = square_root(gram + added * np.eye(d))
        released = noise.stream("sketch").standard_normal((k1, d)) @ root.T
    return FastMixRelease(
        sketch=released * unit,
        eta=math.sqrt(added) * unit,
        gamma=plan.gamma,
        coherence=coherence,
        m_tilde=m_tilde,
        lambda_tilde=lambda_tilde,
        epsilon=plan.epsilon,
        delta=delta,
    )


def _estimate(gram: np.ndarray, m_bound: float, plan: _Plan, z: rng.NoiseStream) -> float:
    if plan.eigenvalue_kind == "eigenvalue":
        value = smallest_eigenvalue(gram)
        return spectral.smallest_eigenvalue(value, m_bound, plan.eigenvalue_noise, plan.failure, z)
    if plan.eigenvalue_kind == "singular":
        value = spectral.singular_value_of(gram)
        return spectral.smallest_singular_value(value, plan.eigenvalue_noise, plan.failure, z)
    return 0.0


@dataclass(frozen=True)
class _Plan:
    gamma: float
    epsilon: float
    omega: float = 0.0
    tau: float = 0.0
    route: str = ""
    row_design: str = "uniform"
    beta: float = 0.0
    m_bound: float = 0.0
    deviation_noise: float = 0.0
    eigenvalue_noise: float = 0.0
    eigenvalue_kind: str = ""
    failure: float = 0.0


def _paper(epsilon: float, delta: float, k1: int) -> _Plan:
    """ω = 4/ε, so that 2/ω = ε/2; γ the least with ε(ω, γ, k1, δ) ≤ ε (FM, Theorem 1)."""
    omega = 4.0 / epsilon
    gamma = privacy.calibrate_gamma(epsilon / 2, delta / 3, k1, bound="paper")
    return _Plan(
        gamma=gamma,
        epsilon=min(epsilon, privacy.fastmix_epsilon(omega, gamma, k1, delta, bound="paper")),
        omega=omega,
        tau=math.log(3 / (2 * delta)),
    )


def _tight(epsilon: float, delta: float, k1: int, n: int, k2: int, d: int) -> _Plan:
    """The route and estimates of least predicted η² (flat and falling spectra), one Rényi sum converted once."""
    # Rows are guessed to be about as long as declared: a guess that steers the split, not the privacy.
    problem = Problem(n, d, epsilon, delta, k2, row_energy=1.0)
    choice = least_added_variance(problem, routes_for(problem, "auto"), k1)
    uses = (k1, 0, int(choice.deviation_share > 0), int(choice.eigenvalue_share > 0))
    failures = ESTIMATE_SHARE * delta * (uses[2] + uses[3])
    if choice.route != "private":
        failures += problem.floor(2.0, choice.route).failure_delta
    accounting = "renyi" if uses[2] or uses[3] else "exact"  # exact only where η² is fixed before any release
    gamma, _, deviation_noise, eigenvalue_noise = calibrated(
        choice, uses, epsilon, delta - failures, accounting=accounting
    )
    events = events_of(gamma, (0.0, deviation_noise, eigenvalue_noise), uses, failures)
    m_bound = problem.m_bound(choice.route)
    return _Plan(
        gamma=gamma,
        epsilon=spent(events, delta, accounting),
        route=choice.route,
        row_design=problem.row_design(choice.route),
        beta=0.0 if choice.route == "private" else problem.floor(gamma, choice.route).beta,
        m_bound=m_bound,
        deviation_noise=deviation_noise,
        eigenvalue_noise=eigenvalue_noise,
        eigenvalue_kind=choice.eigenvalue_kind,
        failure=ESTIMATE_SHARE * delta,
    )
