r"""Exact samplers of the discrete Gaussian and the discrete Laplace law on the integers.

Every decision compares uniform whole numbers below 2⁵³: no logarithm, no exponential and no rounding anywhere, so the
law of what comes out is the stated one and not one near it.

Source: Canonne, Kamath & Steinke (2020), Algorithms 1 (`_coin`), 2 (`_laplace`) and 3 (`_gaussian`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fastdp_dask.compiled import inner, kernel

LARGEST_SCALE = 1 << 52
"""Scales are whole numbers from 1 to this, so that |x| < 2⁶³ except with probability exp(−2000)."""

_WORDS_EACH = 64  # for one number, on average about 50
_MOST_WORDS = 1 << 20


def gaussian(scale: int, size: int, uniform: np.random.Generator) -> np.ndarray:
    """`size` independent integers with P(x) = exp(−x²/(2σ²)) / Σ_z exp(−z²/(2σ²)), σ = scale, as (size,) int64.

    Exact as far as the 64-bit words of `uniform` are uniform and independent; for equal words equal numbers.
    """
    return _filled(_gaussian, scale, size, uniform)


def laplace(scale: int, size: int, uniform: np.random.Generator) -> np.ndarray:
    """`size` independent integers with P(x) = tanh(1/(2t)) exp(−|x|/t), t = scale, as (size,) int64; see `gaussian`."""
    return _filled(_laplace, scale, size, uniform)


def _filled(fill: Callable[..., tuple[int, int]], scale: int, size: int, uniform: np.random.Generator) -> np.ndarray:
    out = np.empty(size, dtype=np.int64)
    done, left = 0, np.empty(0, dtype=np.int64)
    while done < size:
        fresh = uniform.bit_generator.random_raw(min(_MOST_WORDS, _WORDS_EACH * (size - done + 1)))
        words = np.concatenate([left, np.asarray(fresh, dtype=np.uint64).view(np.int64)])
        done, used = fill(out, done, scale, words)
        left = words[used:]  # a number that ran out of words starts again with the same ones, and more
    return out


@kernel
def _gaussian(out: np.ndarray, done: int, scale: int, words: np.ndarray) -> tuple[int, int]:
    """Fill out[done:] while the words last; how many are filled, and how many words were used.

    A discrete Laplace x of scale σ is kept with probability exp(−(|x| − σ)²/(2σ²)).  With |x| − σ = ±(aσ + b), a and b
    whole and 0 ≤ b ≤ σ, that is exp(−1/2)^(a²) · exp(−b/σ)^a · exp(−b²/(2σ²)): coins on whole numbers up to σ.
    """
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < out.shape[0]:
        x = _discrete_laplace(words, at, scale)
        away = abs(abs(x) - scale)
        a, b = away // scale, away % scale
        kept = True
        for _ in range(a * a):
            kept = kept and _coin(words, at, 1, 2, 0)
        for _ in range(a):
            kept = kept and _coin(words, at, b, scale, 0)
        kept = kept and _coin(words, at, b, scale, b)
        if at[0] > words.shape[0]:
            break
        used = at[0]
        if kept:
            out[done] = x
            done += 1
    return done, used


@kernel
def _laplace(out: np.ndarray, done: int, scale: int, words: np.ndarray) -> tuple[int, int]:
    """As `_gaussian`, for the discrete Laplace law."""
    at = np.zeros(1, dtype=np.int64)
    used = 0
    while done < out.shape[0]:
        x = _discrete_laplace(words, at, scale)
        if at[0] > words.shape[0]:
            break
        used = at[0]
        out[done] = x
        done += 1
    return done, used


@inner
def _discrete_laplace(words: np.ndarray, at: np.ndarray, scale: int) -> int:
    """±(u + t·v): u below t, kept with probability exp(−u/t); v coins of exp(−1) in a row; zero has one sign."""
    while True:
        u = _below(words, at, scale)
        if _coin(words, at, u, scale, 0):
            v = 0
            while _coin(words, at, 1, 1, 0):
                v += 1
            x = u + scale * v
            if _below(words, at, 2) == 0:
                return x
            if x > 0:
                return -x
        if at[0] > words.shape[0]:
            return 0


@inner
def _coin(words: np.ndarray, at: np.ndarray, part: int, whole: int, square: int) -> bool:
    """True with probability exp(−γ), γ = part/whole in [0, 1]; with square > 0, γ = part·square/(2·whole²).

    Coins of probability γ/k, k = 1, 2, …, until the first that fails: with probability exp(−γ) that is an odd one.
    """
    k = 1
    while True:
        again = _below(words, at, whole) < part and (k == 1 or _below(words, at, k) == 0)
        if square > 0:
            again = again and _below(words, at, whole) < square and _below(words, at, 2) == 0
        if not again:
            return k % 2 == 1
        k += 1


@inner
def _below(words: np.ndarray, at: np.ndarray, limit: int) -> int:
    """Uniform on 0 … limit − 1: the low bits of the next word that are below limit.

    When the words are used up, `at` points beyond their end and the answer is limit − 1, which ends every loop.
    """
    mask = limit - 1
    for shift in (1, 2, 4, 8, 16, 32):
        mask |= mask >> shift
    while at[0] < words.shape[0]:
        value = words[at[0]] & mask
        at[0] += 1
        if value < limit:
            return value
    at[0] = words.shape[0] + 1
    return limit - 1
