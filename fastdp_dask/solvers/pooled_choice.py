"""Which free parameters a pooled fit takes: a search over a small grid for the least predicted risk.

Public facts only.  The privacy does not depend on the choice: it is calibrated exactly afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from fastdp_dask import privacy
from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms.spectral import upward_shift
from fastdp_dask.privacy import GaussianEvent, MixingEvent
from fastdp_dask.sketch import low_coherence
from fastdp_dask.sketch.blocks import next_power_of_two
from fastdp_dask.solvers import predict

ITERATIONS = (5, 6)
FLOOR_SHARE = 0.05  # of delta, for the bound on the sketch's deviation
ESTIMATE_SHARE = 0.05  # of delta, for each one-sided estimate
_NEARLY = 1.02  # a pass is saved when that costs less than 2 % of predicted risk
_CLEARLY = 1.4  # an estimate must pay for itself clearly
_SPREAD = 1.4  # largest deviation over the typical one
_BATCH = 1 << 14  # numbers of one array: settings are weighed many at a time, but never more than fit a cache


@dataclass(frozen=True)
class Choice:
    """One setting of the free parameters.

    Attributes
    ----------
    n_iter : int
        T.
    degrees : int
        K.
    gradient_share, deviation_share, eigenvalue_share : float
        Shares of the Rényi budget; the sketch takes the rest.  0: no such release.
    eigenvalue_kind : str
        "" (no estimate), "eigenvalue" (λ_min, sensitivity 1 + 2m) or "singular" (s_min, sensitivity 1).
    route : str
        "gram", "public", "leverage", "free" or "private".
    """

    n_iter: int
    degrees: int
    gradient_share: float
    deviation_share: float = 0.0
    eigenvalue_share: float = 0.0
    eigenvalue_kind: str = ""
    route: str = "gram"

    @property
    def sketch_share(self) -> float:
        """What is left for the Gaussian sketch."""
        return 1.0 - self.gradient_share - self.deviation_share - self.eigenvalue_share


@dataclass(frozen=True)
class Problem:
    """The public facts of a fit, and the floors that its sketch allows."""

    n_samples: int
    n_columns: int
    epsilon: float
    delta: float
    k2: int
    rounds: int = 1
    estimate_always: bool = False
    row_energy: float = predict.ROW_ENERGY
    algebraic_rows: bool = True
    _floors: dict[tuple[float, str], privacy.Floor] = field(default_factory=dict, compare=False, repr=False)
    _factors: dict[tuple[int, float], float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def n_padded(self) -> int:
        """N."""
        return next_power_of_two(self.n_samples)

    def factor(self, rows: int, share: float) -> float:
        """c at which γ = c·sqrt(rows/(4·share)) and a Gaussian of c·sqrt(1/(2(1 − share))) use up the budget."""
        if (rows, share) not in self._factors:
            kept = 1 - FLOOR_SHARE - 2 * ESTIMATE_SHARE
            self._factors[rows, share] = privacy.smallest_noise(
                lambda c: privacy.compose(
                    [
                        MixingEvent(rows=rows, gamma=max(1.0 + 1e-9, c * math.sqrt(rows / (4 * share)))),
                        GaussianEvent(noise_multiplier=c * math.sqrt(1 / (2 * (1 - share)))),
                    ]
                ),
                self.epsilon,
                self.delta * kept,
                lower=1e-6,
                upper=1e60,
            )
        return self._factors[rows, share]

    def row_design(self, route: str) -> str:
        """How the SRHT picks rows: by algebra where the private route gains from it and such rows exist.

        The private route's proof holds for every choice of rows; that of the leverage route needs uniform ones.
        """
        algebraic = self.algebraic_rows and route == "private" and low_coherence.fits(self.n_padded, self.k2)
        return "low_coherence" if algebraic else "uniform"

    def floor(self, gamma: float, route: str) -> privacy.Floor:
        """β for a route whose bound is public, with δ paid for every round."""
        key = (gamma, route)
        if key not in self._floors:
            self._floors[key] = privacy.choose_floor(
                gamma, n_padded=self.n_padded, d=self.n_columns, sketch_size=self.k2,
                delta=FLOOR_SHARE * self.delta / self.rounds, route=route,
            )  # fmt: skip
        return self._floors[key]

    def m_bound(self, route: str) -> float:
        """The public bound m* that a sensitivity may use: 0 without a sketch, infinite where no m is bounded."""
        if route == "gram":
            return 0.0
        if route != "public":
            return math.inf
        return float(
            privacy.coherence_bound_public(self.n_padded, self.k2, FLOOR_SHARE * self.delta / self.rounds)
        )


def choose(problem: Problem, routes: tuple[str, ...], settings: Iterator[Choice]) -> tuple[Choice, float]:
    """The setting of least predicted risk; the fewest rounds among those within 2 % of it.

    γ = c·sqrt(K/(4 s)) and noise multipliers c·sqrt(count/(2 s)) for a share s of one Rényi curve α/c², which is exact
    as γ → ∞; c is calibrated for each K at equal shares.
    """
    settings_of: dict[int, list[Choice]] = {}
    for choice in settings:
        settings_of.setdefault(choice.n_iter, []).append(choice)
    best = {T: _least_risk(problem, listed, several=len(routes) > 1) for T, listed in settings_of.items()}
    least = min(risk for risk, _ in best.values())
    rounds = min(T for T, (risk, _) in best.items() if risk <= _NEARLY * least)
    return best[rounds][1], best[rounds][0]


def _least_risk(problem: Problem, settings: list[Choice], *, several: bool) -> tuple[float, Choice]:
    """The least predicted risk, and its setting, among settings of one number of rounds; `several` routes compete."""
    n, d = problem.n_samples, problem.n_columns
    eigenvalues = predict.spectra(n, d, problem.row_energy)
    distortion = 0.0 if problem.k2 == problem.n_padded else d / problem.k2
    factors = [problem.factor(choice.degrees, 0.5) for choice in settings]
    added, noise, handicap = [], [], []
    for choice, c in zip(settings, factors, strict=True):
        gamma = max(1.01, c * math.sqrt(choice.degrees / (4 * choice.sketch_share)))
        added.append(predicted_added_variance(problem, choice, gamma, c, eigenvalues.min(axis=1)))
        noise.append(c * math.sqrt(choice.n_iter / (2 * choice.gradient_share)))
        estimates = choice.eigenvalue_kind != "" and not problem.estimate_always
        another_pass = choice.route == "private" and several
        handicap.append((_CLEARLY if estimates else 1.0) * (_CLEARLY if another_pass else 1.0))
    risks = []
    batch = max(1, _BATCH // eigenvalues.size)
    for first in range(0, len(settings), batch):
        some = slice(first, first + batch)
        risk = predict.excess_risk(
            eigenvalues, n, added=np.array(added[some]), noise=np.array(noise[some]),
            degrees=np.array([choice.degrees for choice in settings[some]]),
            n_iter=settings[0].n_iter, distortion=distortion,
        )  # fmt: skip
        risks.append(np.exp(np.mean(np.log(risk), axis=-1)) * handicap[some])  # geometric means
    total = np.concatenate(risks)
    at = int(np.argmin(total))
    return float(total[at]), settings[at]


def predicted_added_variance(
    problem: Problem, choice: Choice, gamma: float, c: float, smallest: np.ndarray
) -> np.ndarray:
    """η² for each guess of λ_min(XᵀX), (m,): β less what the estimate is expected to find."""
    d, k2 = problem.n_columns, problem.k2
    embedded = smallest if k2 == problem.n_padded else smallest * (1 - math.sqrt(d / k2)) ** 2
    if choice.route == "private":
        typical = _SPREAD * math.sqrt(problem.n_padded / k2 * problem.row_energy)
        coherence = math.sqrt(2 * math.log(2 * problem.n_padded) / k2)
        if problem.row_design("private") == "low_coherence":
            coherence = low_coherence.coherence_bound(problem.n_padded, k2)
        w = c * math.sqrt(1 / (2 * choice.deviation_share))
        m_bound = typical + coherence * upward_shift(w, ESTIMATE_SHARE * problem.delta)
        beta = gamma * (1 + 2 * m_bound)
    else:
        m_bound = problem.m_bound(choice.route)
        beta = problem.floor(gamma, choice.route).beta
    found = np.zeros_like(smallest)
    if choice.eigenvalue_kind:
        shift = upward_shift(c * math.sqrt(1 / (2 * choice.eigenvalue_share)), ESTIMATE_SHARE * problem.delta)
        if choice.eigenvalue_kind == "eigenvalue":
            found = np.maximum(embedded - (1 + 2 * m_bound) * shift, 0.0)
        else:
            found = np.maximum(np.sqrt(embedded) - shift, 0.0) ** 2
    return np.maximum(beta - found, 1e-9 * beta)


def routes_for(problem: Problem, coherence: str) -> tuple[str, ...]:
    """The routes that a value of `coherence` allows: for "auto" the best public one and the private one."""
    if problem.k2 == problem.n_padded:
        return ("gram",)
    if coherence != "auto":
        return (coherence,)
    return (problem.floor(100.0, "auto").name, "private")


def settings(
    problem: Problem,
    routes: tuple[str, ...],
    *,
    n_iter: int | None,
    k1: int | None,
    draws_of: Callable[[int], int] = lambda T: 1,
) -> Iterator[Choice]:
    """The grid: T, K between 8 and 32 columns' worth (for each of `draws_of(T)` draws), shares, routes, estimates."""
    d = problem.n_columns
    for T in ITERATIONS if n_iter is None else (n_iter,):
        ratios = (16, 32) if routes == ("gram",) else (8, 16, 32)
        sizes = [draws_of(T) * max(d * ratio, d + 8) for ratio in ratios] if k1 is None else [T * k1]
        for K in sizes:
            if d + 4 > K // draws_of(T):
                raise ArgumentError(
                    f"k1 must give each Gaussian sketch at least {d + 4} rows, the columns (with the intercept) and 4 "
                    f"more, got k1={k1} with n_iter={T}. Leave it out for the default."
                )
            for route in routes:
                for gradient in (0.4, 0.5, 0.6, 0.7):
                    yield from _with_estimates(problem, Choice(T, K, gradient, route=route))


def _with_estimates(problem: Problem, plain: Choice) -> Iterator[Choice]:
    kinds = ("eigenvalue", "singular") if plain.route != "free" and plain.route != "leverage" else ("singular",)
    for deviation in (0.05, 0.1, 0.2, 0.3) if plain.route == "private" else (0.0,):
        base = Choice(
            plain.n_iter, plain.degrees, plain.gradient_share, deviation_share=deviation, route=plain.route
        )
        if not problem.estimate_always:
            yield base
        for share in (0.05, 0.1, 0.2, 0.35):
            for kind in kinds:
                choice = Choice(
                    base.n_iter, base.degrees, base.gradient_share, deviation, share, kind, base.route
                )
                if choice.sketch_share > 0.05:
                    yield choice


def least_added_variance(problem: Problem, routes: tuple[str, ...], rows: int) -> Choice:
    """For one mixing release of `rows` rows without gradients: the setting of least predicted γ + η².

    The geometric mean over the guessed spectra; γ stands for the noise that the release has at any η².  Rows are taken
    to be about as long as declared.
    """
    smallest = predict.spectra(problem.n_samples, problem.n_columns, problem.row_energy).min(axis=1)
    c = problem.factor(rows, 0.8)
    best: tuple[float, Choice] | None = None
    for route in routes:
        for choice in _with_estimates(problem, Choice(1, rows, 0.0, route=route)):
            gamma = max(1.01, c * math.sqrt(rows / (4 * choice.sketch_share)))
            added = predicted_added_variance(problem, choice, gamma, c, smallest)
            size = predict.geometric_mean(gamma + added)
            if best is None or size < best[0]:
                best = (size, choice)
    assert best is not None
    return best[1]
