"""The likelihood of a sketch and its gradients: its algebra against dense matrices, and the error that it states."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fastdp_dask.solvers.steps import AdaptiveSteps
from fastdp_dask.uncertainty import likelihood
from fastdp_dask.uncertainty.likelihood import Released, sketch_error


def _released(generator: np.random.Generator, p: int, T: int) -> Released:
    values = np.sort(generator.uniform(1.0, 30.0, p))
    return Released(
        values, np.maximum(values - 3.0, 0.0), 0.02, generator.uniform(1.0, 2.0, T), generator.standard_normal((T, p)),
        10.0 * generator.standard_normal((T, p)), 2.0,
    )  # fmt: skip


def _dense(of: Released, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """d and C, entry by entry: Cov(E_ik, E_jl) = w_i w_k / K where {i, k} = {j, l}, twice that on the diagonal."""
    T, p = of.path.shape
    v = np.outer(of.count, theta) - of.path
    pairs = [(i, j) for i in range(p) for j in range(i, p)]
    effect = np.zeros((T, p, len(pairs)))  # of each entry of E on −E v_t
    for k, (i, j) in enumerate(pairs):
        size = math.sqrt(of.inverse * of.values[i] * of.values[j] * (2.0 if i == j else 1.0))
        effect[:, i, k] += size * v[:, j]
        if i != j:
            effect[:, j, k] += size * v[:, i]
    flat = effect.reshape(T * p, -1)
    return (of.gradients - v * of.gram).ravel(), flat @ flat.T + of.noise**2 * np.eye(T * p)


@pytest.mark.parametrize(("p", "T"), [(1, 1), (1, 4), (5, 1), (5, 4), (2, 6)])
def test_the_fast_algebra_is_that_of_dense_matrices(p: int, T: int) -> None:
    """Q, its gradient and JᵀC⁻¹J, to rounding; the gradient against central differences, to their h² of 1e-8."""
    generator = np.random.default_rng(p * 10 + T)
    of, theta = _released(generator, p, T), generator.standard_normal(p)
    d, C = _dense(of, theta)
    half, slope = likelihood.half_square(of, theta)
    assert half == pytest.approx(float(d @ np.linalg.solve(C, d)) / 2, rel=1e-9)
    differences = [
        (likelihood.half_square(of, theta + h)[0] - likelihood.half_square(of, theta - h)[0]) / 2e-4
        for h in 1e-4 * np.eye(p)
    ]
    np.testing.assert_allclose(slope, differences, rtol=1e-5, atol=1e-6 * np.abs(slope).max())
    G, information = likelihood.gram_and_information(of, theta)
    np.testing.assert_allclose(G, G.T)
    J = np.kron(of.count[:, None], G)
    np.testing.assert_allclose(information, J.T @ np.linalg.solve(C, J), rtol=1e-7, atol=1e-7 * information.max())


def _fits(runs: int, T: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors, standard errors, and those of gradients alone, with G known; G's least eigenvalue is two errors of W/K.

    Releases of the solver's own steps: later iterates depend on W.
    """
    generator = np.random.default_rng(11)
    p, K, added, noise = 6, 192, 876.0, 6.2
    turn, _ = np.linalg.qr(generator.standard_normal((p, p)))
    G = (turn * np.array([236.0, 295.0, 432.0, 780.0, 2037.0, 7445.0])) @ turn.T
    theta = 0.3 * generator.standard_normal(p)
    root = np.linalg.cholesky(G + added * np.eye(p))
    away, stated = [], []
    for _ in range(runs):
        rows = generator.standard_normal((K, p)) @ root.T
        hessian = rows.T @ rows / K
        steps, iterates, gradients = AdaptiveSteps(hessian, K, added, noise), [np.zeros(p)], []
        for _ in range(T):
            gradients.append(G @ (theta - iterates[-1]) + noise * generator.standard_normal(p))
            iterates.append(iterates[-1] + steps.step(gradients[-1]))
        found = sketch_error(hessian, K, added, 0.0, np.array(iterates), np.array(gradients), noise)
        away.append(np.abs(found.estimate - theta))
        stated.append(np.sqrt(np.diag(found.privacy)))
    inverse = np.linalg.inv(G)
    return np.array(away), np.array(stated), noise * np.sqrt(np.diag(inverse @ inverse) / T)


def test_it_covers_where_the_sketch_hardly_tells_single_coefficients() -> None:
    """300 fits of 6 coefficients.

    Over 3,000 fits 0.945 cover, with a deviation of 0.124 from fit to fit, so 0.0072 here: five of them are 0.036,
    beyond which a normal mean lies with probability 6e-7.  Errors that leave out the sketch's (0.80 cover) and errors
    twice as wide (0.998) are found out.
    """
    away, stated, gradients_alone = _fits(300, 6)
    covered = float(np.mean(away <= 1.959964 * stated))
    assert 0.909 < covered < 0.981
    assert float(np.mean(away <= 1.959964 * gradients_alone)) < 0.909
    assert float(np.mean(away <= 2 * 1.959964 * stated)) > 0.981


def test_gradients_tell_the_curvature_along_the_path() -> None:
    """Six rounds tell far more than six times the first gradient: W/K alone leaves a part of each coefficient open."""
    _, once, _ = _fits(20, 1)
    _, often, _ = _fits(20, 6)
    assert np.median(often) < np.median(once) / 6


def test_many_gradients_are_averaged_with_their_neighbours() -> None:
    away, stated, _ = _fits(20, 25)
    assert float(np.mean(away <= 4 * stated)) > 0.98
    generator = np.random.default_rng(0)
    of, _ = likelihood.sketch_released(
        np.diag([3.0, 4.0]), 50, 1.0, 0.0, generator.standard_normal((26, 2)), np.ones((25, 2)), 1.0
    )
    assert len(of.count) <= 8
    assert float(np.sum(of.count**2)) == pytest.approx(25.0)
    np.testing.assert_allclose(np.sum(of.count**2 * np.linalg.norm(of.gradients / of.count[:, None], axis=1) ** 2), 50)
