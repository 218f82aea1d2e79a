"""The audit has teeth: the honest code keeps its claims, comes near them, and each sabotage is flagged.

Every audit has a confidence of 1 − 1e-6, so that honest code would be flagged with probability at most 1e-6 per
mechanism; the seeds are fixed.  Sabotages replace functions of the package while the audit runs.
"""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import pytest

from fastdp_dask import rng
from fastdp_dask.audit import AuditResult, audit
from fastdp_dask.blocked import kernels
from fastdp_dask.mechanisms import fast_mixing
from fastdp_dask.rows.grid import GRID
from fastdp_dask.solvers import common

SMALL = 20_000  # 2,000 runs of fastmix, 1,000 fits


@pytest.fixture(autouse=True)
def _synchronous() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def audited(mechanism: str, runs: int = SMALL, **options: Any) -> AuditResult:
    (result,) = audit([mechanism], runs=runs, **{"epsilon": 2.0, "delta": 1e-5, "seed": 17, **options})
    return result


# -- honest ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "least"), [("mixing", 0.6), ("wishart", 0.5), ("gradient", 0.6)])
def test_single_releases_keep_their_claim_and_come_near(mechanism: str, least: float) -> None:
    result = audited(mechanism, 60_000)
    assert result.holds
    assert result.lower_bound > least * result.claim
    assert result.claim == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("mechanism", ["fastmix-paper", "fastmix-tight", "ihm", "fastihm-tight", "fastihm-paper"])
def test_whole_releases_keep_their_claim(mechanism: str) -> None:
    assert audited(mechanism, 10_000).holds


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "least"), [("fastmix-tight", 0.3), ("ihm", 0.2)])
def test_whole_releases_come_near(mechanism: str, least: float) -> None:
    result = audited(mechanism, 100_000)
    assert result.holds
    assert result.lower_bound > least * result.claim


def test_the_seed_decides_the_outcome() -> None:
    first, again, other = (audited("gradient", 20_000, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other


# -- sabotaged -------------------------------------------------------------------------------------------------


def test_gradient_noise_at_two_thirds(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = common.release_gradient

    def weak(name: str, gradient: np.ndarray, *rest: Any) -> np.ndarray:
        return gradient + (genuine(name, gradient, *rest) - gradient) * 2 / 3

    monkeypatch.setattr(common, "release_gradient", weak)
    assert not audited("gradient", 100_000).holds


def test_mixing_noise_at_two_thirds(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = fast_mixing.mixing
    monkeypatch.setattr(fast_mixing, "mixing", lambda Z, added, *rest: genuine(Z, added * 4 / 9, *rest))
    assert not audited("mixing", 60_000).holds


def test_exact_eigenvalue_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_mixing, "private_eigenvalue", lambda eigenvalue, *rest: eigenvalue)
    assert not audited("fastmix-paper").holds


@pytest.mark.parametrize("mechanism", ["mixing", "fastmix-paper"])
def test_factor_of_the_deviation_missing(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_mixing, "added_variance", lambda gamma, m_tilde, found: max(0.0, gamma - found))
    assert not audited(mechanism).holds


def test_clip_after_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = kernels.gradient_chunk

    def late(*args: Any, clip: float, grid: float, **options: Any) -> np.ndarray:
        total = genuine(*args, clip=1e3, grid=grid, **options)
        length = np.linalg.norm(total) / (GRID * grid)
        return (total * min(1.0, clip / length)).astype(np.int64)

    monkeypatch.setattr(kernels, "gradient_chunk", late)
    assert not audited("gradient", 60_000).holds


@pytest.mark.parametrize("mechanism", ["ihm", "fastihm-tight", "fastihm-paper"])
def test_one_noise_for_two_rounds(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = rng.NoiseSource.stream
    monkeypatch.setattr(rng.NoiseSource, "stream", lambda self, name: genuine(self, name.rstrip("0123456789")))
    assert not audited(mechanism, 12_000).holds
