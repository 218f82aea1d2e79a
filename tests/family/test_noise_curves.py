"""Noise curves against the accountant that they invert, and against each other; the figures' quick modes."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest
from naive import coherence, deviation
from strategies import real_matrix

from fastdp_dask import SRHT, noise_curves, privacy
from fastdp_dask.privacy import MixingEvent

EPSILONS, DELTA, K1 = (0.1, 1.0, 10.0), 1e-9, 200
FIGURES = Path(__file__).parents[2] / "examples" / "paper"


def test_curves_are_calibrated() -> None:
    for epsilon, noise in zip(EPSILONS, noise_curves.gaussian_mixing(EPSILONS, DELTA, K1), strict=True):
        assert 0.9999 * epsilon < privacy.epsilon_of([MixingEvent(K1, noise)], DELTA) <= epsilon
    m = 2.5
    for preset in ("tight", "paper"):
        noises = noise_curves.fast_mixing(EPSILONS, DELTA, K1, m, preset=preset)
        for epsilon, noise in zip(EPSILONS, noises, strict=True):
            spent = privacy.epsilon_of([MixingEvent(K1, noise / (1 + 2 * m), preset)], DELTA)
            assert 0.9999 * epsilon < spent <= epsilon * (1 + 1e-9)


def test_any_sketch_is_enough_at_every_deviation() -> None:
    """N ≤ 1/β + 2/sqrt(β) = 1/γ at the curve's β."""
    beta = noise_curves.any_sketch(EPSILONS, DELTA, K1)
    gamma = noise_curves.gaussian_mixing(EPSILONS, DELTA, K1)
    assert 1 / beta + 2 / np.sqrt(beta) == pytest.approx(1 / gamma, rel=1e-9)


def test_the_level_of_the_paper_for_any_sketch_is_a_little_smaller() -> None:
    """2/sqrt(β') − 1/β' = 1/γ at β' = (γ + sqrt(γ² − γ))²; the two levels differ by 1 + 2/sqrt(β) to first order."""
    beta = noise_curves.any_sketch(EPSILONS, DELTA, K1)
    gamma = noise_curves.gaussian_mixing(EPSILONS, DELTA, K1)
    paper = (gamma + np.sqrt(gamma**2 - gamma)) ** 2
    assert 2 / np.sqrt(paper) - 1 / paper == pytest.approx(1 / gamma, rel=1e-9)
    assert beta / paper == pytest.approx(1 + 2 / np.sqrt(beta), abs=4 / beta.min())


def test_nuclear_norm_of_the_change_is_at_most_the_level_of_any_sketch() -> None:
    """E = v xᵀ + x vᵀ − x xᵀ whitened: 2 ‖a‖ ‖b − a/2‖, for random a and b and for opposed ones."""
    generator = np.random.default_rng(3)
    beta = 50.0
    for opposed in (False, True):
        a = generator.standard_normal(4)
        a /= np.linalg.norm(a) * np.sqrt(beta)
        b = -a * np.sqrt(beta) if opposed else generator.standard_normal(4)
        b /= np.linalg.norm(b)
        change = np.outer(a, b) + np.outer(b, a) - np.outer(a, a)
        norm = np.abs(np.linalg.eigvalsh(change)).sum()
        assert norm == pytest.approx(2 * np.linalg.norm(a) * np.linalg.norm(b - a / 2), rel=1e-12)
        most = 2 / np.sqrt(beta) + 1 / beta
        assert norm == pytest.approx(most, rel=1e-12) if opposed else norm < most


def test_the_earlier_level_is_enough_for_gaussian_rows() -> None:
    """By the exact account far more than enough: that is what the later analyses gained."""
    for epsilon, noise in zip(EPSILONS, noise_curves.upadhyay(EPSILONS, DELTA, K1), strict=True):
        assert privacy.epsilon_of([MixingEvent(K1, noise)], DELTA) < epsilon / 10


def test_order_of_the_curves() -> None:
    gauss = noise_curves.gaussian_mixing(EPSILONS, DELTA, K1)
    tight = noise_curves.fast_mixing(EPSILONS, DELTA, K1, 1.0)
    paper = noise_curves.fast_mixing(EPSILONS, DELTA, K1, 1.0, preset="paper")
    earlier = noise_curves.upadhyay(EPSILONS, DELTA, K1)
    assert (gauss < tight).all()
    assert (tight < paper).all()
    assert (10 * paper < earlier).all()
    assert tight == pytest.approx(3 * gauss, rel=1e-15)
    for curve in (gauss, tight, paper, earlier, noise_curves.any_sketch(EPSILONS, DELTA, K1)):
        assert (np.diff(curve) < 0).all()
    assert earlier[1] == pytest.approx(16 * K1 * np.log(2 / DELTA) * np.log(16 * K1 / DELTA) ** 2, rel=1e-12)


def test_coherence_and_deviation_from_their_definitions() -> None:
    X = real_matrix(100, 3, 5) / 2
    found = noise_curves.deviation_curve(X, [16, 128], [1, 2])
    flat = noise_curves.coherence_curve(128, [16, 128], [1, 2])
    for i, seed in enumerate((1, 2)):
        assert found[i, 0] == pytest.approx(deviation(SRHT(100, 16, seed=seed), X), rel=1e-9)
        assert flat[i, 0] == pytest.approx(coherence(SRHT(128, 16, seed=seed)), rel=1e-12)
    assert found[:, 1] == pytest.approx(0.0, abs=1e-12)  # k2 = N
    assert (flat[:, 1] == 0).all()


@pytest.mark.parametrize("name", ["figure1", "figure3", "figure3_flights", "appendix_f", "appendix_i"])
def test_quick_figures(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FIGURES)
    importlib.import_module(name).main(["--quick", "--out", str(tmp_path)])
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / f"{name}.csv").read_text().splitlines()
    assert lines[0].startswith("# {")
    header, *rows = list(csv.reader(lines[1:]))
    assert rows
    for row in rows:
        assert len(row) == len(header)
        numbers = [float(cell) for column, cell in zip(header, row, strict=True) if column != "method"]
        assert np.isfinite(numbers).all()
