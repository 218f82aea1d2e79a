r"""How far to step along each direction of the released Hessian: post-processing, so it costs no privacy.

A round sees g̃ = G (θ* − θ) + σζ with G = XᵀX, and knows H = G + η²I only through W/K, W ~ Wishart_d(K, H).  In an
eigenvector of W/K with eigenvalue w the step u = g̃/w moves by x (θ* − θ) + noise, x = (w − η²)/w.

* Where x is near 1, one step leaves little but noise, and the later rounds are best averaged.
* Where x is near 0 the gradient says little, and only many full steps help.

Both come from one rule.  Keep for each direction the expected squared error P; step by c P / (P + N) over the *most*
x that W allows (so that no step overshoots), N the variance of the step's noise; update P with the *least* x that W
allows.  Then P falls at once where x is surely near 1 (gains 1, 1/2, 1/3, …: the average) and stays where x may be 0
(full steps, and longer ones where x is surely small).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastdp_dask.linalg import bounded


def stein_eigenvalues(values: np.ndarray, degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Stein's isotonized estimate of the eigenvalues of H from those of W/K, and the size of each pooled cluster.

    φ_i = K l_i / (K − d + 1 + 2 l_i Σ_{j≠i} 1/(l_i − l_j)), made positive and ascending by pooling neighbours: sample
    eigenvalues spread beyond the true ones, and close ones are pulled together.

    Parameters
    ----------
    values : ndarray of shape (d,)
        Eigenvalues l of W/K, ascending, positive.
    degrees : int
        K ≥ d.

    Notes
    -----
    Stein (1975), isotonized as by Lin & Perlman (1985).
    """
    d = values.shape[0]
    gaps = values[:, None] - values[None, :]
    inverse = np.divide(1.0, gaps, out=np.zeros_like(gaps), where=gaps != 0)
    weights = degrees - d + 1 + 2 * values * inverse.sum(axis=1)
    pools: list[list[float]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append([degrees * value, weight, 1.0])
        while len(pools) > 1 and not _ascending(pools[-2], pools[-1]):
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last, strict=True)]
    while len(pools) > 1 and pools[0][1] <= 0:  # a first pool whose weight stayed negative
        first = pools.pop(0)
        pools[0] = [a + b for a, b in zip(pools[0], first, strict=True)]
    sizes = np.array([int(pool[2]) for pool in pools])
    # A weight below 1 would lift its pool beyond all reason; what that lowers stays ascending.
    levels = np.maximum.accumulate([pool[0] / max(pool[1], 1.0) for pool in pools])
    return np.repeat(levels, sizes), np.repeat(sizes, sizes)


def _ascending(left: list[float], right: list[float]) -> bool:
    # A pool of negative weight has no value of its own: it waits for its right neighbour, or joins its left one.
    if right[1] <= 0:
        return False
    return left[1] <= 0 or left[0] / left[1] < right[0] / right[1]


def most_share(share: np.ndarray, error: np.ndarray | float) -> np.ndarray:
    """The most x that W allows, between 1/3 and 1: steps are lengthened at most threefold.

    Longer ones learn weak directions faster where the signal is there, but where all of it lies in strong directions
    they only add noise, by the square.
    """
    return np.clip(share + 1.5 * np.sqrt(error) * (1.0 - share), 1 / 3, 1.0)


@dataclass
class AdaptiveSteps:
    """The rule above, for one fit.

    Parameters
    ----------
    hessian : ndarray of shape (d, d)
        W/K, released.
    degrees : int
        K, public.
    added : float
        η², released.
    noise : float
        σ, the standard deviation of the noise on each gradient coordinate; public.
    distortion : float
        Relative squared error of ZᵀZ as an estimate of XᵀX, about d/k2; 0 without an SRHT.  Public.
    """

    hessian: np.ndarray
    degrees: int
    added: float
    noise: float
    distortion: float = 0.0

    @np.errstate(all="ignore")  # no warning may depend on what the data released; `bounded` ends what overflows
    def __post_init__(self) -> None:
        d = self.hessian.shape[0]
        values, self._basis = np.linalg.eigh((self.hessian + self.hessian.T) / 2)
        floor = max(float(values[-1]) * 1e-12, np.finfo(float).tiny)
        self._scale, cluster = stein_eigenvalues(np.maximum(values, floor), self.degrees)
        # Relative squared error of W/K across clusters (within one the basis does not matter).
        self._error = (d - cluster) / self.degrees + 2.0 / self.degrees + self.distortion
        self._share = np.clip((self._scale - self.added) / self._scale, 0.0, 1.0)
        spread = np.sqrt(self._error) * (1.0 - self._share)
        self._least_share = np.maximum(self._share - spread, 0.0)
        self._most_share = most_share(self._share, self._error)
        self._step_noise = (self.noise / self._scale) ** 2
        self._expected: np.ndarray | None = None

    @np.errstate(all="ignore")
    def step(self, gradient: np.ndarray) -> np.ndarray:
        """The update of θ for a released gradient, both (d,)."""
        d = gradient.shape[0]
        w, N, x = self._scale, self._step_noise, self._share
        move = (self._basis.T @ gradient) / w
        if self._expected is None:
            # The first gradient tells how large the error of θ = 0 is, equally in all directions.
            signal = float(np.sum(w * (move**2 - N))) / float(np.sum(w * (x**2 + 1e-9)))
            self._expected = np.full(d, max(signal, 1e-3 * float(np.sum(w * N)) / float(np.sum(w))))
        P = self._expected
        gain = P / (P + N) / ((1.0 + self._error) * self._most_share)
        # Errors of other directions leak in through the error of the basis.
        leak = self._error / d * float(np.sum(w * x**2 * P)) / w
        self._expected = (1.0 - gain * self._least_share) ** 2 * P + gain**2 * (N + leak)
        return bounded(self._basis @ (gain * move))


def damping(degrees: int, columns: int) -> float:
    """c = (K − d)(K − d − 3) / (K (K − 1)): the mean-square best constant step for H⁻¹ ≈ K W⁻¹, K > d + 3.

    c = E tr(K W⁻¹) / E tr((K W⁻¹)²) at H = I, from the moments of the inverse Wishart law (von Rosen, 1988).
    """
    K, d = degrees, columns
    return (K - d) * (K - d - 3) / (K * (K - 1))
