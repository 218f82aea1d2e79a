"""The public streams: a function of seed, name and index.  The private ones: secret, named, drawn once."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastdp_dask import PrivacyLeakWarning, rng
from fastdp_dask.errors import ArgumentError

FALSE_ALARM = 1e-6  # of each statistical test below, were its seed drawn anew


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**40), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_words_and_bits_do_not_depend_on_how_they_are_cut(key: int, first: int, sizes: list[int]) -> None:
    edges = first + np.concatenate([[0], np.cumsum(sizes)])
    for draw in (rng.counter_words, rng.sign_bits):
        whole = draw(key, first, sum(sizes))
        assert len(whole) == sum(sizes)
        assert np.array_equal(whole, np.concatenate([draw(key, int(a), int(b - a)) for a, b in pairwise(edges)]))


def test_words_are_those_of_the_published_generator() -> None:
    assert np.array_equal(rng.counter_words(5, 0, 12), np.random.Philox(key=5).random_raw(12))


def test_signs_are_fair_and_uncorrelated() -> None:
    bits = rng.sign_bits(rng.derive_key(1, "test"), 0, 1_000_000).astype(np.int64)
    signs = 1 - 2 * bits
    limit = stats.norm.isf(FALSE_ALARM / 2 / 5) * 1000  # five sums of about a million fair signs
    for lag in (1, 2, 63, 64):
        assert abs(int((signs[lag:] * signs[:-lag]).sum())) < limit
    assert abs(int(signs.sum())) < limit


def test_names_give_unrelated_streams() -> None:
    keys = {
        rng.derive_key(seed, *path) for seed in (0, 1) for path in [(), ("a",), ("b",), ("a", 1), ("a", "1"), ("a1",)]
    }
    assert len(keys) == 12
    assert len({rng.derive_key(0, "chunk", index) for index in range(100_000)}) == 100_000


@given(st.integers(0, 2**64), st.integers(0, 10), st.data())
def test_sampled_rows_are_distinct_sorted_and_in_range(key: int, log_size: int, data: st.DataObject) -> None:
    size = 1 << log_size
    count = data.draw(st.sampled_from([0, 1, size]) | st.integers(0, size))
    rows = rng.distinct_indices(key, size, count)
    assert rows.dtype == np.int64
    assert len(rows) == count
    assert (np.diff(rows) > 0).all()
    assert count == 0 or (rows[0] >= 0 and rows[-1] < size)


@pytest.mark.parametrize("count", [2, 6])
def test_every_subset_of_rows_is_equally_likely(count: int) -> None:
    # Direct draw (2 of 8) and draw of the complement (6 of 8): 28 subsets, 140 expected in each.
    subsets = dict.fromkeys(combinations(range(8), count), 0)
    for seed in range(28 * 140):
        subsets[tuple(rng.distinct_indices(rng.derive_key(seed, "rows"), 8, count).tolist())] += 1
    assert stats.chisquare(list(subsets.values())).pvalue > FALSE_ALARM


def test_secret_noise_never_repeats_and_says_nothing() -> None:
    source = rng.NoiseSource()
    assert not source.reproducible
    draws = [source.stream("a").standard_normal(4) for _ in range(3)] + [
        rng.NoiseSource().stream("a").standard_normal(4)
    ]
    assert len({draw.tobytes() for draw in draws}) == 4
    assert rng.fresh_seed() != rng.fresh_seed()


def test_seeded_noise_warns_and_depends_on_seed_and_name_alone() -> None:
    with pytest.warns(PrivacyLeakWarning, match="random_state makes the private noise reproducible"):
        source = rng.NoiseSource(3)
    with pytest.warns(PrivacyLeakWarning):
        again = rng.NoiseSource(np.int64(3))
    with pytest.warns(PrivacyLeakWarning):
        other = rng.NoiseSource(4)
    assert source.reproducible
    source.stream("skipped").standard_normal(100)
    reference = source.stream("a").standard_normal(8)
    assert np.array_equal(reference, again.stream("a").standard_normal(8))
    assert not np.array_equal(reference, source.stream("b").standard_normal(8))
    assert not np.array_equal(reference, other.stream("a").standard_normal(8))


def test_private_streams_do_not_derive_from_the_public_seed() -> None:
    with pytest.warns(PrivacyLeakWarning):
        noise = rng.NoiseSource(3)
    public = np.random.Generator(np.random.Philox(key=rng.derive_key(3, "noise", "a")))
    assert not np.array_equal(noise.stream("a").standard_normal(8), public.standard_normal(8))


def test_a_generator_advances_by_one_number() -> None:
    generator, twin = np.random.default_rng(5), np.random.default_rng(5)
    with pytest.warns(PrivacyLeakWarning):
        first = rng.NoiseSource(generator)
    with pytest.warns(PrivacyLeakWarning):
        second = rng.NoiseSource(generator)
    twin.integers(2**63, size=2)
    assert generator.random() == twin.random()
    assert not np.array_equal(first.stream("a").random(4), second.stream("a").random(4))


@pytest.mark.parametrize("bad", ["x", 1.5, True, -1, 2**128, np.random.RandomState(0)])
def test_bad_random_state_is_named(bad: object) -> None:
    with pytest.raises(ArgumentError, match=r"^random_state must be .* got .*\. Leave it out"):
        rng.NoiseSource(bad)


@pytest.mark.parametrize("bad", ["x", 1.5, True, -1, 2**128, None])
def test_bad_seed_is_named(bad: object) -> None:
    with pytest.raises(ArgumentError, match=r"^public_seed must be a whole number .* got .*\. Leave it out"):
        rng.check_seed("public_seed", bad)
