"""Steps by direction: a function of released numbers with the symmetries of the problem, and finite whatever comes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.mechanisms.wishart import wishart
from fastdp_dask.solvers.steps import AdaptiveSteps, damping, stein_eigenvalues

SPECTRA = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=12).map(sorted)


@given(SPECTRA, st.integers(0, 200))
def test_stein_eigenvalues_are_positive_ascending_and_clustered(values: list[float], more: int) -> None:
    eigenvalues = np.array(values)
    found, sizes = stein_eigenvalues(eigenvalues, len(values) + more)
    assert found.shape == sizes.shape == eigenvalues.shape
    assert (found > 0).all()
    assert (np.diff(found) >= 0).all()
    # Members of a cluster share their value.
    assert len(np.unique(found)) <= sum(1 / sizes) + 1e-9


def test_stein_eigenvalues_are_nearer_to_the_truth() -> None:
    """Squared logarithmic error over 200 draws against the sample eigenvalues': a flat spectrum gains tenfold, one that
    falls steeply, whose eigenvalues do not meet, loses a little."""
    generator = np.random.default_rng(0)
    for truth, factor in ((np.ones(16), 0.15), (np.geomspace(1, 2, 16), 0.6), (np.geomspace(1e-3, 1, 16), 1.3)):
        plain, pulled = 0.0, 0.0
        for _ in range(200):
            values = np.linalg.eigvalsh(wishart(64, np.diag(truth), generator) / 64)
            plain += float(np.sum(np.log(values / truth) ** 2))
            pulled += float(np.sum(np.log(stein_eigenvalues(values, 64)[0] / truth) ** 2))
        assert pulled < factor * plain


def test_eigenvalues_of_very_many_rows_stay_as_they_are() -> None:
    values = np.geomspace(1, 100, 5)
    assert stein_eigenvalues(values, 10**9)[0] == pytest.approx(values, rel=1e-6)


def steps(hessian: np.ndarray, **options: float) -> AdaptiveSteps:
    return AdaptiveSteps(hessian, **{"degrees": 200, "added": 2.0, "noise": 0.5, **options})  # type: ignore[arg-type]


def test_a_rotation_of_the_columns_rotates_the_steps() -> None:
    generator = np.random.default_rng(1)
    hessian = wishart(200, np.diag([5.0, 20.0, 80.0, 300.0]), generator) / 200
    rotation = np.linalg.qr(generator.standard_normal((4, 4)))[0]
    one, other = steps(hessian), steps(rotation @ hessian @ rotation.T)
    for _ in range(5):
        gradient = 30 * generator.standard_normal(4)
        np.testing.assert_allclose(other.step(rotation @ gradient), rotation @ one.step(gradient), rtol=1e-8)


def test_units_of_theta_do_not_matter() -> None:
    """Gradients, noise and targets times s give steps times s."""
    generator = np.random.default_rng(2)
    hessian = wishart(200, np.diag([5.0, 20.0, 80.0]), generator) / 200
    one, other = steps(hessian, noise=0.5), steps(hessian, noise=0.5 * 64)
    for _ in range(5):
        gradient = 30 * generator.standard_normal(3)
        np.testing.assert_allclose(other.step(64 * gradient), 64 * one.step(gradient), rtol=1e-9)


def test_an_exact_hessian_without_noise_gives_newton_steps() -> None:
    hessian = np.diag([10.0, 20.0, 40.0])
    exact = steps(hessian, degrees=10**9, added=0.0, noise=1e-9)
    gradient = np.array([1.0, -2.0, 3.0])
    assert exact.step(gradient) == pytest.approx(gradient / np.diag(hessian), rel=1e-3)


def test_pure_noise_is_averaged_away() -> None:
    """At the solution only noise comes: the gains fall like 1/t, so that θ settles."""
    generator = np.random.default_rng(3)
    found = steps(np.diag([100.0, 200.0]), degrees=10**6, added=0.0, noise=5.0)
    lengths = [float(np.linalg.norm(found.step(5 * generator.standard_normal(2)))) for _ in range(60)]
    assert np.mean(lengths[40:]) < 0.15 * np.mean(lengths[:4])


@given(
    st.sampled_from([0.0, 1e-300, 1.0, 1e80]),
    st.lists(st.sampled_from([0.0, -1.0, 1e-300, 1e100, -1e100]), min_size=3, max_size=3),
    st.sampled_from([0.0, 1.0, 1e60]),
    st.sampled_from([1e-12, 1.0, 1e20]),
)
def test_steps_are_always_finite_and_silent(scale: float, gradient: list[float], added: float, noise: float) -> None:
    found = steps(scale * np.diag([1.0, 0.0, 2.0]), degrees=10, added=added, noise=noise)
    for _ in range(4):
        assert np.isfinite(found.step(np.array(gradient))).all()


def test_damping_lies_between_zero_and_one_and_tends_to_one() -> None:
    for d in (1, 5, 300):
        values = [damping(degrees, d) for degrees in range(d + 4, d + 400)]
        assert 0 < min(values) < max(values) < 1
        assert np.all(np.diff(values) > 0)
        assert damping(10**9, d) == pytest.approx(1.0, abs=1e-5)
