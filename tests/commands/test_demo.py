"""The demo on a small part of made-up flights: table, picture, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from fastdp_dask.commands import demo
from fastdp_dask.commands.app import main
from fastdp_dask.commands.comparison import FITS
from fastdp_dask.data import FLIGHTS_DECLARATION, write_store


def some_flights(path: Path, n_rows: int, seed: int) -> Path:
    """A store with the columns of the flights: arrival delay is about departure delay − 5; some blank rows."""
    random = np.random.default_rng(seed)
    X = np.zeros((n_rows, FLIGHTS_DECLARATION.n_features))
    X[:, 0] = random.uniform(-30, 180, n_rows)
    X[:, 1] = random.uniform(100, 4900, n_rows)
    X[:, 2] = random.integers(5, 24, n_rows)
    for group in FLIGHTS_DECLARATION.groups:
        X[np.arange(n_rows), random.choice(list(group), n_rows)] = 1
    y = X[:, 0] - 5 + random.normal(0, 10, n_rows)
    X[::50], y[::50] = np.nan, np.nan
    return write_store(path, [(X, y)], FLIGHTS_DECLARATION, n_rows, chunk_rows=8192)


@pytest.mark.slow
@pytest.mark.cluster
def test_demo_compares_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = some_flights(tmp_path / "train", 40_000, 1), some_flights(tmp_path / "test", 5_000, 2)
    picture = tmp_path / "picture.png"
    results = demo.compare(train, test, tmp_path, picture, epsilon=4.0)
    plain, *private = results
    assert [result.label for result in private] == [fit.label for fit in FITS]
    # The noise has standard deviation 10; 40,000 rows determine 42 coefficients to far better than 2 %.
    assert plain.rmse == pytest.approx(10, rel=0.02)
    assert plain.coef[0] == pytest.approx(1, abs=0.01)
    gram = private[-1]
    assert gram.rmse < 20  # predicting the mean gives 61; the excess has been below 1 in every run
    for result in private:
        assert result.plan is not None
        assert (result.plan.epsilon, result.plan.delta) == (4.0, 1 / 40_000**2)
        assert result.passes == result.plan.n_passes
        assert 50 * 2**20 < result.peak < 2**30  # a Python process, within the limit of a worker
        assert (tmp_path / f"{result.plan.solver}-{result.plan.preset}" / "model.json").exists()
    out = capsys.readouterr().out
    for result in results:
        assert any(result.label in line and f"{result.rmse:.2f}" in line for line in out.splitlines())
    assert "4,900 complete ones held out" in out

    image = imread(picture)[..., :3]
    assert image.shape[0] > 600
    assert image.shape[1] > 1000
    for color in ("6b7280", "d97706", "0f766e", "4338ca", "1f4e79", "8fbfe8"):  # bars of fits and of budgets
        wanted = np.array([int(color[k : k + 2], 16) for k in (0, 2, 4)]) / 255
        assert (np.abs(image - wanted).max(axis=2) < 0.01).sum() > 500, color


def test_demo_keeps_nothing_in_a_folder_that_holds_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["demo", "--keep", str(tmp_path)]) == 1
    assert "--keep must be a new or an empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
