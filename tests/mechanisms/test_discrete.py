"""Discrete noise: exact laws by two samplers, the grid of what is released, and why real accounts hold for it.

Every statistical test has a false alarm of at most 1e-6 and rejects a near law or scale at that level.
"""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from fastdp_dask import PrivacyLeakWarning, discrete, privacy, rng
from fastdp_dask.errors import ArgumentError
from fastdp_dask.mechanisms import additive

FALSE_ALARM = 1e-6
LAWS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "gaussian": lambda k, scale: np.exp(-0.5 * (k / scale) ** 2),
    "laplace": lambda k, scale: np.exp(-np.abs(k) / scale),
}
CONTINUOUS = {"gaussian": stats.norm, "laplace": stats.laplace}


def streams() -> list[rng.NoiseStream]:
    """Secure (OpenDP), and seeded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        return [rng.NoiseSource().stream("a"), rng.NoiseSource(3).stream("a")]


def drawn(law: str, stream: rng.NoiseStream, scale: int, size: int, at_once: int = 4000) -> np.ndarray:
    draw = stream.discrete_gaussian if law == "gaussian" else stream.discrete_laplace
    return np.concatenate([draw(scale, min(at_once, size - start)) for start in range(0, size, at_once)])


def chi_square(sample: np.ndarray, law: str, scale: float) -> float:
    """p of the counts against the law, outcomes expected fewer than ten times together."""
    k = np.arange(-400, 401)
    p = LAWS[law](k, scale)
    expected = p / p.sum() * sample.size
    counts = np.bincount(sample + 400, minlength=801)
    often = expected >= 10
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    return float(stats.chi2.sf(((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum(), observed.size - 1))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [1, 3, 10])
def test_every_integer_has_its_probability(law: str, scale: int) -> None:
    """The probability of each integer, by either sampler; at scales 2 % off the seeded sample is rejected."""
    secure, seeded = streams()
    assert chi_square(drawn(law, secure, scale, 4000), law, scale) > FALSE_ALARM
    many = drawn(law, seeded, scale, 1_000_000, 1_000_000)
    assert chi_square(many, law, scale) > FALSE_ALARM
    for wrong in (0.98, 1.02):
        assert chi_square(many, law, scale * wrong) < FALSE_ALARM


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [(1 << 44) + 12345, (1 << 52) - 1, 1 << 52])
def test_large_scales_have_the_law_and_scale_of_real_noise(law: str, scale: int) -> None:
    """4,000 draws by either sampler at the scales in use: not 2/3 and not 3/2 of it."""
    for stream in streams():
        sample = drawn(law, stream, scale, 4000) / scale
        assert stats.kstest(sample, CONTINUOUS[law].cdf).pvalue > FALSE_ALARM
        for wrong in (2 / 3, 3 / 2):
            assert stats.kstest(sample * wrong, CONTINUOUS[law].cdf).pvalue < FALSE_ALARM


def test_all_bits_of_large_noise_are_uniform() -> None:
    """The lowest bits too, where real noise cast to a grid would show its own spacing."""
    for stream in streams():
        for law in LAWS:
            low = drawn(law, stream, (1 << 44) + 1, 8000) & 15
            assert stats.chisquare(np.bincount(low, minlength=16)).pvalue > FALSE_ALARM


def test_words_that_run_out_do_not_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few words at a time: a number that did not finish starts again with the same words, so nothing changes."""
    whole = discrete.gaussian(7, 3000, np.random.default_rng(5))
    monkeypatch.setattr(discrete, "_MOST_WORDS", 3)
    assert np.array_equal(discrete.gaussian(7, 3000, np.random.default_rng(5)), whole)


def test_seeded_noise_repeats_and_secure_noise_does_not() -> None:
    (secure, seeded), (other, again) = streams(), streams()
    assert np.array_equal(seeded.discrete_gaussian(1 << 44, 50), again.discrete_gaussian(1 << 44, 50))
    assert not np.intersect1d(secure.discrete_gaussian(1 << 44, 50), other.discrete_gaussian(1 << 44, 50)).size
    assert not np.intersect1d(secure.discrete_laplace(1 << 44, 5000), other.discrete_laplace(1 << 44, 5000)).size > 5


# -- privacy of the discrete laws ------------------------------------------------------------------------------


def renyi(law: str, scale: float, shift: int, *alphas: float) -> list[float]:
    """Divergence of the law shifted by `shift` from itself, summed over the integers to fifty digits."""
    with mpmath.workdps(50):
        reach = int((20 if law == "gaussian" else 90) * scale) + shift * math.ceil(max(alphas)) + 20
        ks = range(-reach, reach + 1)
        if law == "gaussian":
            logarithm = {k: -mpmath.mpf(k * k) / (2 * mpmath.mpf(scale) ** 2) for k in range(-reach - shift, reach + 1)}
        else:
            logarithm = {k: -mpmath.mpf(abs(k)) / scale for k in range(-reach - shift, reach + 1)}
        total = mpmath.fsum(mpmath.exp(logarithm[k]) for k in ks)
        found = []
        for alpha in alphas:
            terms = (mpmath.exp(alpha * logarithm[k - shift] + (1 - alpha) * logarithm[k]) for k in ks)
            found.append(float(mpmath.log(mpmath.fsum(terms) / total) / (alpha - 1)))
        return found


@pytest.mark.parametrize("scale", [1.0, 2.0, 9.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_shifted_discrete_gaussians_against_the_curve(scale: float, shift: int) -> None:
    """D_α = αΔ²/(2σ²) for whole orders, and below it between them: the curve is attained, never exceeded."""
    orders = (1.25, 1.5, 2.0, 3.0, 7.0)
    for alpha, exact in zip(orders, renyi("gaussian", scale, shift, *orders), strict=True):
        bound = float(privacy.gaussian_rdp(alpha, scale, shift))
        assert exact <= bound * (1 + 1e-12)
        if alpha == int(alpha):
            assert exact == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("scale", [2, 5, 15])
@pytest.mark.parametrize("shift", [1, 2, 17])
def test_discrete_laplace_costs_less_than_real_laplace_of_one_unit_less(scale: int, shift: int) -> None:
    """And more than real Laplace noise of the same scale: the unit is needed."""
    orders = (1.001, 1.5, 2.0, 5.0, 30.0)
    for alpha, exact in zip(orders, renyi("laplace", scale, shift, *orders), strict=True):
        assert exact <= float(privacy.laplace_rdp(alpha, scale - 1, shift))
        assert exact <= shift / scale * (1 + 1e-12)
        assert exact > float(privacy.laplace_rdp(alpha, scale, shift)) * (1 - 1e-12)


def test_a_discrete_gaussian_is_real_noise_rounded_at_random() -> None:
    """P(k) = E ρ_6(k − g)/Σ_z ρ_6(z − g), g ~ N(0, s²), up to 1 ± 10⁻³⁰⁰: post-processing of real noise."""
    with mpmath.workdps(330):
        s, smooth = mpmath.mpf(2), mpmath.mpf(6)
        sigma = mpmath.sqrt(s**2 + smooth**2)
        reach = range(-260, 261)
        # Poisson summation: Σ_z ρ(z − g) = √(2π)·6·(1 + 2 Σ_m exp(−2π²36m²) cos(2πmg)) at its largest and smallest.
        ripple = 2 * mpmath.exp(-2 * mpmath.pi**2 * smooth**2)
        assert ripple < mpmath.mpf(10) ** -307
        direct = [
            mpmath.fsum(mpmath.exp(-((z - g) ** 2) / (2 * smooth**2)) for z in range(-260, 261)) for g in (0, 0.5)
        ]
        mean = mpmath.sqrt(2 * mpmath.pi) * smooth
        for found in direct:
            assert abs(found / mean - 1) < 2 * ripple
        assert direct[0] > direct[1]  # the ripple is there: the sums are exact enough to see it
        total = mpmath.fsum(mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * sigma**2)) for z in reach)
        for k in (0, 3):
            # The mixture over g of ρ_6(k − g)/(√(2π)·6) is the density of N(0, σ²) at k.
            mixture = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * sigma**2)) / (mpmath.sqrt(2 * mpmath.pi) * sigma)
            law = mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * sigma**2)) / total
            assert abs(mixture / law - 1) < 4 * ripple


def exceeded(epsilon: np.ndarray, scale: float, shift: int) -> np.ndarray:
    """Σ_k (p(k) − e^ε p(k + shift))₊ of the discrete Gaussian."""
    k = np.arange(-int(14 * scale) - shift, int(14 * scale) + shift + 1)
    p, q = (LAWS["gaussian"](k + move, scale) for move in (0, shift))
    return np.maximum(p - np.exp(epsilon)[:, None] * q, 0.0).sum(axis=1) / p.sum()


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 1), (3.0, 1), (50.0, 7)])
def test_the_trade_off_is_below_that_of_real_noise_of_36_units_less_variance(scale: float, shift: int) -> None:
    """And at equal scales it is above it between the steps of a coarse law: the units are needed."""
    epsilon, mu = np.linspace(0.0, 3.0 * shift / scale, 301), shift / scale
    real = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
    assert (exceeded(epsilon, math.hypot(scale, 6.0), shift) <= real * (1 + 1e-9)).all()
    if shift == 1:
        assert (exceeded(epsilon, scale, shift) > real * (1 + 1e-9)).any()


# -- what is released ------------------------------------------------------------------------------------------


def grid_of(values: np.ndarray) -> float:
    """The largest power of two that all values are whole multiples of."""
    exponents = [math.frexp(v)[1] - 53 for v in values.ravel() if v]
    return min(
        2.0 ** (e + bit)
        for e, v in zip(exponents, (v for v in values.ravel() if v), strict=True)
        for bit in [int(math.ldexp(v, -e)) & -int(math.ldexp(v, -e))]
        for bit in [bit.bit_length() - 1]
    )


@pytest.mark.parametrize("n", [1000, 1 << 30])
def test_neighbours_release_on_one_grid(n: int) -> None:
    """No low bits to tell them apart: both sides are multiples of one public unit, also beyond exact floats."""
    for stream in streams():
        step = 2.0**-32
        first, second = np.full(300, 3.0), np.full(300, 3.0 - 5 * step)
        released = [additive.gaussian(v, 10.0, stream, step=step, largest=n) for v in (first, second)]
        unit = 2.0**-41 if n == 1000 else 2.0**-22
        for side in released:
            assert np.array_equal(np.rint(side / unit) * unit, side)
            assert grid_of(side) == unit  # and no coarser
        bound = [additive.gaussian_bound(value, 1.0, 3.0, 4.0, stream, above=False) for value in (0.1, 1 / 3, math.pi)]
        bound += [additive.laplace_bound(value, 1.0, 3.0, 4.0, stream, above=True) for value in (0.1, 1 / 3, math.pi)]
        assert np.array_equal(np.rint(np.array(bound) * 2.0**43), np.array(bound) * 2.0**43)


class Recorder:
    """Remembers the scales asked for; its noise is zero."""

    def __init__(self) -> None:
        self.scales: list[int] = []

    def discrete_gaussian(self, scale: int, size: int) -> np.ndarray:
        self.scales.append(scale)
        return np.zeros(size, dtype=np.int64)

    discrete_laplace = discrete_gaussian


@pytest.mark.parametrize("multiplier", [1e-8, 0.3, 10.0, 1e7])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1000, 3), (1 << 33, 4096)])
def test_the_scale_covers_the_sensitivity_that_rounding_adds(multiplier: float, n: int, d: int) -> None:
    """At least (σ² + 36)^(1/2) units for the true change and 1.5 units an entry where floats are not exact."""
    step, value = 2.0**-32, np.zeros(d)
    fake = Recorder()
    noise: rng.NoiseStream = fake  # type: ignore[assignment]
    additive.gaussian(value, multiplier, noise, step=step, largest=n)
    (scale,) = fake.scales
    unit = additive._unit(multiplier, n)
    exact = unit <= step and n <= 2**21
    needed = multiplier * (1 / unit + (0 if exact else 1.5 * math.sqrt(d)))
    assert needed**2 + 36 <= scale**2
    assert scale <= discrete.LARGEST_SCALE
    assert n / unit <= 2**53  # a float, and far from the end of int64
    if multiplier >= 0.3:
        assert scale * unit <= multiplier * (1 + 2e-3)  # and nearly nothing is wasted


def test_rounding_moves_a_difference_by_what_is_paid() -> None:
    """Exact sums beyond 2⁵³, cast to floats and rounded: neighbours move by their own difference and 1.5 an entry."""
    generator = np.random.default_rng(0)
    n = 1 << 30
    unit = additive._unit(10.0, n)
    total = generator.integers(-(2**61), 2**61, 20_000)
    moved = total - generator.integers(-(2**32), 2**32, total.size)
    released = [np.rint(part * 2.0**-32 / unit) for part in (total, moved)]
    change = np.abs((released[0] - released[1]) - (total - moved).astype(float) * (2.0**-32 / unit))
    assert change.max() <= 1.5
    assert change.max() > 0.9  # it does happen


@pytest.mark.parametrize("above", [True, False])
def test_bounds_are_on_their_side_at_the_quantile(above: bool) -> None:
    """Without noise a bound is beyond any value by the whole quantile: no rounding favours the wrong side."""
    noise: rng.NoiseStream = Recorder()  # type: ignore[assignment]
    for value in (0.0, 0.1, 1 / 3, 12345.678, 2.0**40 + 1e-4):
        for draw in (additive.gaussian_bound, additive.laplace_bound):
            found = draw(value, 0.7, 2.0, 3.0, noise, above=above)
            away = Fraction(found) - Fraction(value) if above else Fraction(value) - Fraction(found)
            assert away >= Fraction(0.7) * 6
            assert float(away) == pytest.approx(4.2, rel=1e-9, abs=2 * np.spacing(value))


def test_the_samplers_load_at_the_first_draw_alone() -> None:
    """OpenDP takes as long to load as a small fit takes: neither an import nor a seeded draw asks for it."""
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from fastdp_dask import LinearRegression, rng; from fastdp_dask.mechanisms import additive\n"
        "rng.NoiseSource(1).stream('a').discrete_gaussian(5, 3)\n"
        "assert 'opendp' not in sys.modules\n"
        "rng.NoiseSource().stream('a').discrete_gaussian(5, 3)\n"
        "assert 'opendp' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_noise_beyond_what_a_whole_number_holds_is_refused() -> None:
    """Neither sampler may saturate or wrap: the scale is a public number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        sources = (rng.NoiseSource(None), rng.NoiseSource(1))
    for source in sources:
        for draw in (source.stream("a").discrete_gaussian, source.stream("b").discrete_laplace):
            assert abs(int(draw(1 << 52, 1)[0])) < 1 << 60
            with pytest.raises(ArgumentError, match=r"^epsilon and delta must ask for noise below"):
                draw((1 << 52) + 1, 1)
