"""How large beta = lambda_min(ZᵀZ) + eta² must be for a noise level gamma: routes through public numbers.

Z = S X is the sketch, S an SRHT with unit columns, ||x_i|| <= 1, delta_i = Xᵀ(SᵀS - I)e_i, and Sigma = ZᵀZ +
eta² I.  Blanking row i turns Sigma into Sigma - E, E = x xᵀ + delta xᵀ + x deltaᵀ, and `mixing_rdp(alpha,
gamma)` holds for the pair as soon as the nuclear norm N = ||Sigma^(-1/2) E Sigma^(-1/2)|| <= 1/gamma.  With p
= xᵀ Sigma⁻¹ x <= 1/beta and q = deltaᵀ Sigma⁻¹ delta:  N <= p + 2 sqrt(p q).  The routes differ in how they
bound q.  Each result is rounded up by 1 + 2**-36 (see `_rounding`).
"""

from __future__ import annotations

import math

from fastdp_dask import _validate
from fastdp_dask.errors import ArgumentError
from fastdp_dask.privacy._rounding import round_up


def coherence_bound_public(n_padded: int, sketch_size: int, delta_m: float) -> float:
    """m* with P(||delta_i|| > m*) <= delta_m for every data set: m* = sqrt(N/k2 - 1) sqrt(2 ln(2/delta_m)).

    Proof.  K = SᵀS satisfies K² = (N/k2) K, because the k2 distinct rows of the Hadamard matrix are
    orthonormal, and K_ii = 1. So the i-th row of K has sum_j K_ij² = (K²)_ii = N/k2, and N/k2 - 1 without j =
    i.  For fixed sampled rows, K_ij = b_i b_j h_ij with independent signs b, so delta_i = b_i sum_(j != i)
    b_j h_ij x_j is a sign sum of fixed vectors whose squared norms add up to at most V = N/k2 - 1.  Pinelis
    (1994, Theorem 3.5) bounds the norm of such a sum in a Hilbert space: P(norm >= r) <= 2 exp(-r²/(2V)).
    Set this equal to delta_m.  delta_i does not involve x_i, so it is common to both neighbours and one
    delta_m pays for the pair.

    Valid only if the signs are drawn after, and independently of, the data.  sketch_size = n_padded gives 0.
    """
    size = _check_sizes(n_padded, sketch_size)
    variance = n_padded / size - 1.0
    if variance == 0.0:
        return 0.0
    return round_up(math.sqrt(variance) * math.sqrt(2.0 * math.log(2.0 / _validate.delta(delta_m))))


def beta_public(gamma: float, m_star: float) -> float:
    """beta = gamma (1 + 2 m*), given ||delta_i|| <= m*.

    Proof.  q = deltaᵀ Sigma⁻¹ delta <= m*²/beta and p <= 1/beta, so N <= (1 + 2 m*)/beta = 1/gamma.  m* = 0
    is the case of an orthonormal sketch (k2 = N, or XᵀX itself), with beta = gamma.  Source: FM, Lemma 1,
    which has the same C² = 1 + 2m.
    """
    m = _validate.finite("m_star", m_star)
    if m < 0.0:
        raise ArgumentError(f"m_star must be >= 0, got m_star={m!r}. Use coherence_bound_public.")
    return round_up(_validate.positive("gamma", gamma) * (1.0 + 2.0 * m))


def beta_free(gamma: float) -> float:
    """beta = (gamma + sqrt(gamma² + gamma))², about 4 gamma², for every sketch with unit columns, all data.

    Proof.  Let u = S e_i, ||u|| = 1, and v = Zᵀu = x + delta.  Then E = v xᵀ + x vᵀ - x xᵀ, so N <= 2 sqrt(p
    vᵀSigma⁻¹v) + p, and vᵀ Sigma⁻¹ v = uᵀ Z (ZᵀZ + eta²)⁻¹ Zᵀ u <= ||u||² = 1.  Hence N <= 1/beta +
    2/sqrt(beta), which is 1/gamma when sqrt(beta) is the positive root of s² - 2 gamma s - gamma = 0.  At the
    blanked data set delta = Z'ᵀu gives q <= 1 and the same bound. No randomness is used: it holds for a
    sketch that is known beforehand, and costs no delta.
    """
    return beta_leverage(gamma, 1.0)


def beta_leverage(gamma: float, leverage: float) -> float:
    """beta = (gamma Q + sqrt(gamma² Q² + gamma))², given sqrt(q) <= Q = `leverage`.

    Proof.  N <= p + 2 sqrt(p q) <= 1/beta + 2Q/sqrt(beta), which is 1/gamma when sqrt(beta) is the positive
    root of s² - 2 gamma Q s - gamma = 0.  Q -> 0 gives beta = gamma.
    """
    level, bound = _validate.positive("gamma", gamma), _validate.positive("leverage", leverage)
    product = level * bound
    root = product + math.hypot(product, math.sqrt(level))
    beta = round_up(root * root)
    if not math.isfinite(beta):
        raise ArgumentError(f"gamma must be below 1e150, got gamma={level!r}. Raise epsilon or delta.")
    return beta


def leverage_bound(
    n_padded: int,
    d: int,
    sketch_size: int,
    coherence: float,
    delta_b: float,
    delta_1: float,
    chi: float,
) -> tuple[float, float]:
    """Q with sqrt(deltaᵀ Sigma⁻¹ delta) <= Q for every eta >= 0, and the probability that it fails.

    Q = Delta (sqrt d + sqrt(8 ln(1/delta_b))) / sqrt(1 - chi),

    failure = delta_b + delta_1 + d (exp(-chi) / (1 - chi)^(1 - chi))^(1/R),
    R = (sqrt d + sqrt(8 ln(N/delta_1)))² / k2.

    Proof.  Let X = U A with U an orthonormal basis of its range.  If (SU)ᵀSU >= (1 - chi) I then Sigma >= (1
    - chi) AᵀA, and with delta_i = Aᵀ z, z = b_i sum_(j != i) b_j h_ij U_j, q <= zᵀ A (Sigma)⁻¹ Aᵀ z <=
    ||z||²/(1 - chi).  For fixed sampled rows ||z|| is a convex function of the signs; it is Delta-Lipschitz,
    since |h_ij| <= Delta and U has norm one; its mean is at most (sum_j h_ij² ||U_j||²)^(1/2) <= Delta sqrt
    d.  Convex concentration (Ledoux; Tropp 2011, Proposition 2.1), P(f >= mean + Delta r) <= exp(-r²/8),
    gives Q outside delta_b.  The embedding: outside delta_1 no row of H B U is longer than (sqrt d + sqrt(8
    ln(N/delta_1)))/sqrt N (Tropp 2011, Lemma 3.3, a union over all N rows).  Then (SU)ᵀSU is a sum of k2
    matrices of norm at most R, drawn without replacement, with mean I, and the matrix Chernoff bound for such
    sums (Tropp 2011, Theorem 2.2) fails with the last term.

    Parameters
    ----------
    n_padded, d, sketch_size : int
        N (a power of two), columns of the sketched matrix, and k2 <= N.
    coherence : float
        Delta, largest |(SᵀS)_ij| off the diagonal, or an upper bound on it; > 0.
    delta_b, delta_1 : float
        Failure probabilities of the concentration and of the row bound.
    chi : float
        Distortion of the embedding, 0 < chi < 1.

    Returns
    -------
    (Q, failure) : tuple of floats
        Both rounded up; failure may exceed 1, and then says nothing.

    Raises
    ------
    ArgumentError
        An argument is out of range.

    Notes
    -----
    Valid only if rows are sampled uniformly without replacement and signs and rows are drawn after, and
    independently of, the data.
    """
    size, columns = _check_sizes(n_padded, sketch_size), _validate.count("d", d)
    first, second = _validate.delta(delta_b), _validate.delta(delta_1)
    level, distortion = _validate.positive("coherence", coherence), _validate.positive("chi", chi)
    if distortion >= 1.0:
        raise ArgumentError(
            f"chi must satisfy 0 < chi < 1, got chi={distortion!r}. Values near 1/2 are usual."
        )
    root = math.sqrt(columns)
    bound = level * (root + math.sqrt(-8.0 * math.log(first))) / math.sqrt(1.0 - distortion)
    spread = (root + math.sqrt(8.0 * (math.log(n_padded) - math.log(second)))) ** 2 / size
    # The exponent is negative; it is brought towards zero by more than its rounding error.
    exponent = (-distortion - (1.0 - distortion) * math.log1p(-distortion)) / spread * (1.0 - 2.0**-30)
    return round_up(bound), round_up(first + second + columns * math.exp(exponent))


def coherence_bound_uniform(n_padded: int, sketch_size: int, delta_c: float) -> float:
    """Bound on Delta that fails with probability at most delta_c over uniformly sampled rows.

    Delta <= sqrt(2 (1 - (k2-1)/N) ln(2 (N-1)/delta_c) / k2).

    Proof.  |(SᵀS)_ij| is |sum over the sampled rows of a nontrivial Walsh character| / k2, and such a
    character has values +-1 and mean zero over all N rows.  Serfling (1974, Corollary 1.1) bounds the mean of
    k2 values drawn uniformly without replacement: each tail is at most exp(-k2 r² / (2 (1 - (k2-1)/N))).  A
    union over both tails and the N - 1 characters gives the bound.
    """
    size = _check_sizes(n_padded, sketch_size)
    failure = _validate.delta(delta_c)
    log_term = math.log(2.0) + math.log(max(n_padded - 1, 1)) - math.log(failure)
    return round_up(math.sqrt(2.0 * (n_padded - size + 1) / n_padded * log_term / size))


def _check_sizes(n_padded: int, sketch_size: int) -> int:
    rows = _validate.count("n_padded", n_padded)
    if rows & (rows - 1):
        raise ArgumentError(f"n_padded must be a power of two, got n_padded={rows}. Pad with zero rows.")
    size = _validate.count("sketch_size", sketch_size)
    if size > rows:
        raise ArgumentError(f"sketch_size must be <= n_padded={rows}, got sketch_size={size}. Lower it.")
    return size
