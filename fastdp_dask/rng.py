"""Two kinds of randomness that must never mix: the public sketch and the private noise.

*Public*: a word of the sketch is a function of (seed, stream name, global index) alone, by the Philox counter
generator, so that every chunking, thread, retry and machine sees the same sketch.

*Private*: drawn once, on the driver, from the operating system's randomness: whole numbers by OpenDP's exact samplers,
or by those of `fastdp_dask.discrete` from ChaCha20 under a key of the operating system, as the Gaussian and χ² numbers
of a mixing release are.  Its state is never recorded and nothing about it derives from the public seed, which may be
published.
"""

from __future__ import annotations

import hashlib
import numbers
import secrets
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from randomgen import ChaCha

from fastdp_dask.errors import ArgumentError, PrivacyLeakWarning

_WORDS_PER_COUNTER = 4  # Philox 4x64 makes four words from each counter value
_MOST_FROM_OPENDP = 4096
_LARGEST_SCALE = 1 << 52  # that of `fastdp_dask.discrete`


def fresh_seed() -> int:
    """A public seed of 128 bits from the operating system."""
    return secrets.randbits(128)


def check_seed(name: str, seed: Any) -> int:
    """Return `seed` as a whole number with 0 <= seed < 2**128."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not 0 <= int(seed) < 2**128:
        got = repr(int(seed)) if isinstance(seed, numbers.Integral) else type(seed).__name__
        raise ArgumentError(
            f"{name} must be a whole number from 0 to 2**128 - 1, got {got}. Leave it out for a fresh one."
        )
    return int(seed)


def derive_key(seed: int, *path: str | int) -> int:
    """128 bits that depend on `seed` and on every element of `path`, for naming a stream.

    BLAKE2b of an unambiguous encoding, so that distinct (seed, path) give unrelated keys.
    """
    digest = hashlib.blake2b(digest_size=16, person=b"fastdp-stream")
    digest.update(seed.to_bytes(16, "little"))
    for part in path:
        encoded = repr(part).encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return int.from_bytes(digest.digest(), "little")


def counter_words(key: int, first: int, count: int) -> np.ndarray:
    """Words `first`, …, `first + count - 1` of the stream `key`, as (count,) uint64, in O(count)."""
    counter, skip = divmod(first, _WORDS_PER_COUNTER)
    stream = np.random.Philox(key=key, counter=counter)
    return stream.random_raw(count + skip)[skip:]


def standard_normals(key: int, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers of the stream `key`, float64.

    By Philox, which is no cipher: for sketches whose randomness need not be secret, and for timing those that must.
    """
    return np.random.Generator(np.random.Philox(key=key)).standard_normal(shape)


def sign_bits(key: int, first: int, count: int) -> np.ndarray:
    """Bits `first`, …, `first + count - 1` of the stream `key`, as (count,) uint8 of 0 and 1.

    Bit i is bit i mod 64 of word i div 64; 1 stands for the sign −1.
    """
    word = first // 64
    last = (first + count + 63) // 64
    words = counter_words(key, word, last - word).astype("<u8", copy=False)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    return bits[first - 64 * word :][:count]


def distinct_indices(key: int, size: int, count: int) -> np.ndarray:
    """`count` distinct indices, uniform among all subsets of {0, …, size − 1}, ascending, as (count,) int64.

    `size` is a power of two, so the low bits of a word are uniform and the first `count` different ones among
    them are a uniform subset.  Beyond half the size the complement is drawn instead.
    """
    if 2 * count > size:
        kept = np.ones(size, dtype=bool)
        kept[distinct_indices(key, size, size - count)] = False
        return np.flatnonzero(kept).astype(np.int64)
    mask = np.uint64(size - 1)
    drawn = np.empty(0, dtype=np.uint64)
    chosen = drawn
    while chosen.size < count:
        # Words 0, 1, 2, … of the stream are looked at in order whatever the batch size.
        more = counter_words(key, drawn.size, count - chosen.size + 64) & mask
        drawn = np.concatenate([drawn, more])
        _, order = np.unique(drawn, return_index=True)
        chosen = drawn[np.sort(order)[:count]]
    return np.sort(chosen).astype(np.int64)


class NoiseStream(np.random.Generator):
    """The private noise of one release: a generator of real numbers that draws whole ones exactly.

    Up to 4,096 whole numbers of a secure stream come from OpenDP, which takes its randomness from the operating
    system; more of them (10 µs each there), and those of a seeded stream, from this generator's own bits.  The law is
    the same.
    """

    def __init__(self, bits: Any, *, secure: bool) -> None:
        super().__init__(bits)
        self._secure = secure

    def discrete_gaussian(self, scale: int, size: int) -> np.ndarray:
        """`size` whole numbers, P(x) proportional to exp(−x²/(2 scale²)), as int64; 1 ≤ scale ≤ 2⁵²."""
        return self._draw("gaussian", scale, size)

    def discrete_laplace(self, scale: int, size: int) -> np.ndarray:
        """`size` whole numbers, P(x) proportional to exp(−|x|/scale), as int64; 1 ≤ scale ≤ 2⁵²."""
        return self._draw("laplace", scale, size)

    def _draw(self, law: str, scale: int, size: int) -> np.ndarray:
        if scale > _LARGEST_SCALE:  # a function of public numbers
            raise ArgumentError(
                "epsilon and delta must ask for noise below 2^52 units of its grid, got a budget that is too small for "
                "it. Choose a larger epsilon or delta."
            )
        if self._secure and size <= _MOST_FROM_OPENDP:
            return np.array(_opendp_sampler(law, scale)([0] * size), dtype=np.int64)
        from fastdp_dask import discrete  # compiles on first use

        sampler = discrete.gaussian if law == "gaussian" else discrete.laplace
        return sampler(scale, size, self)


@lru_cache(maxsize=64)
def _opendp_sampler(law: str, scale: int) -> Any:
    import opendp.prelude as dp  # takes as long to load as a small fit takes

    dp.enable_features("contrib")  # samplers that are proved but not yet vetted a second time by that project
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "gaussian":
        return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(scale))
    return dp.m.make_laplace(domain, dp.l1_distance(T="f64"), scale=float(scale))


class NoiseSource:
    """The private noise of one fit: a named stream for each release.

    Parameters
    ----------
    random_state : None, int or numpy.random.Generator
        None: every stream takes its randomness from the operating system (`NoiseStream`; ChaCha with 20 rounds under
        its own 256-bit key).  An int or a Generator makes the noise reproducible, which is for tests: it warns, since
        whoever knows the seed can subtract the noise.  An int gives equal noise each time; a Generator gives one
        number and so advances.

    Notes
    -----
    A stream depends on its name alone, not on what was drawn before, so that a restarted fit that skips the
    releases already made draws the others as the undisturbed one would have.
    """

    def __init__(self, random_state: Any = None) -> None:
        self._seed: int | None = None
        if random_state is None:
            return
        hint = "Leave it out for secure noise."
        if isinstance(random_state, np.random.Generator):
            self._seed = int(random_state.integers(2**63))
        elif isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
            self._seed = int(random_state)
            if not 0 <= self._seed < 2**128:
                raise ArgumentError(
                    f"random_state must be None, an int from 0 to 2**128 - 1 or a numpy Generator, got "
                    f"{self._seed}. {hint}"
                )
        else:
            raise ArgumentError(
                "random_state must be None, an int from 0 to 2**128 - 1 or a numpy Generator, "
                f"got {type(random_state).__name__}. {hint}"
            )
        warnings.warn(
            "random_state makes the private noise reproducible: the result is not private against whoever knows "
            f"the seed. {hint}",
            PrivacyLeakWarning,
            stacklevel=3,
        )

    @property
    def reproducible(self) -> bool:
        """Whether a seed was given, so that the result is not private against whoever knows it."""
        return self._seed is not None

    def stream(self, name: str) -> NoiseStream:
        """The generator for the release `name`; call it once for each release."""
        key = secrets.randbits(256) if self._seed is None else derive_key(self._seed, "noise", name)
        return NoiseStream(ChaCha(key=key, rounds=20), secure=self._seed is None)
