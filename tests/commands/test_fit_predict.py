"""`fastdp ingest`, `fit` and `predict` from a table to a file of predictions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from command_cases import PAPER, SEEDS, make_store, records, without_times

from fastdp_dask import LinearRegression
from fastdp_dask.commands.app import main
from fastdp_dask.data import open_store
from fastdp_dask.errors import PrivacyLeakWarning

BOUNDS = """
[target]
name = "wage"
lower = 0
upper = 50
[features.age]
lower = 0
upper = 100
[features.height]
lower = 0
upper = 2.5
[features.kind]
categories = ["a", "b"]
"""


def model_of(run: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((run / "model.json").read_text())
    return document


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store and the run folder of a fit on it."""
    folder = tmp_path_factory.mktemp("fitted")
    store = make_store(folder / "store")
    assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(folder / "run")]) == 0
    return store, folder / "run"


def test_fit_is_the_estimator_s_fit(fitted: tuple[Path, Path]) -> None:
    path, run = fitted
    store = open_store(path)
    with pytest.warns(PrivacyLeakWarning):
        model = LinearRegression(
            epsilon=5, delta=1e-6, solver="fastihm", preset="paper", public_seed=11, random_state=12,
            **store.declaration.estimator_arguments(),
        ).fit(store.X, store.y)  # fmt: skip
    document = model_of(run)
    assert document["coef"] == model.coef_.tolist()
    assert document["intercept"] == model.intercept_
    assert document["feature_names"] == ["age", "height", "kind=a", "kind=b"]


def test_fit_prints_coefficients_and_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    document = model_of(tmp_path / "run")
    for name, value in zip(document["feature_names"], document["coef"], strict=True):  # type: ignore[call-overload]
        assert any(name in line and f"{value:.6g}" in line for line in captured.out.splitlines())
    assert "clipped gradients" in captured.out
    assert "Spent: epsilon = 5, delta = 1e-06, for 4,096 records." in captured.out
    warned = [line for line in captured.err.splitlines() if "warning" in line]
    assert len(warned) == 2  # one line for each seed
    assert all(line.startswith("fastdp: warning: ") for line in warned)


def test_what_is_said_is_the_same_for_a_blanked_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for blank in (None, 77):
        store = make_store(tmp_path / "store", blank=blank)
        assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(tmp_path / "run")]) == 0
        said.append(without_times(capsys.readouterr().err))
        coef = model_of(tmp_path / "run")["coef"]
        shutil.rmtree(store)
        shutil.rmtree(tmp_path / "run")
        said.append(repr(coef))
    assert said[0] == said[2]
    assert said[1] != said[3]  # the record does take part
    lines = said[0].splitlines()
    assert "fastdp: pass 3 (gradient): 4,096 rows in 4 chunks" in lines
    assert "fastdp: pass 4 (gradient): done in # s, # rows/s" in lines


def test_same_command_twice_spends_nothing_more(fitted: tuple[Path, Path]) -> None:
    store, run = fitted
    releases, model = (run / "releases.jsonl").read_bytes(), model_of(run)
    assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(run)]) == 0
    assert (run / "releases.jsonl").read_bytes() == releases
    assert model_of(run) == model


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".zarr"])
def test_predict_writes_every_prediction(fitted: tuple[Path, Path], suffix: str, tmp_path: Path) -> None:
    store, run = fitted
    out = tmp_path / f"predicted{suffix}"
    assert main(["predict", str(run), str(store), "--out", str(out)]) == 0
    if suffix == ".npy":
        predicted = np.load(out)
    elif suffix == ".csv":
        header, *lines = out.read_text().splitlines()
        assert header == '"wage"'
        predicted = np.array([float(line) for line in lines])
    else:
        predicted = np.asarray(zarr.open_array(str(out), mode="r")[:])
    X, _ = records(4096)
    document = model_of(run)
    expected = X.astype(np.float32).astype(float) @ np.array(document["coef"]) + document["intercept"]
    # Two sums of four products, in an order that BLAS may choose: a few ulp of the largest term, about 40.
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-12)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]  # no part is left


@pytest.mark.parametrize(("out", "expected"), [("p.txt", ".npy, .csv or .zarr"), ("there.npy", "which exists")])
def test_predict_refuses_a_target_file(
    fitted: tuple[Path, Path], out: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, run = fitted
    (tmp_path / "there.npy").write_bytes(b"mine")
    assert main(["predict", str(run), str(store), "--out", str(tmp_path / out)]) == 1
    assert expected in capsys.readouterr().err
    assert (tmp_path / "there.npy").read_bytes() == b"mine"


def test_predict_refuses_other_columns_and_an_unfinished_run(
    fitted: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, run = fitted
    other = shutil.copytree(store, tmp_path / "other")
    group = zarr.open_group(str(other), mode="r+")
    group.attrs["feature_names"] = ["height", "age", "kind=a", "kind=b"]
    assert main(["predict", str(run), str(other), "--out", str(tmp_path / "p.npy")]) == 1
    assert "expected 'age' as column 0, got 'height'" in capsys.readouterr().err
    assert main(["predict", str(tmp_path / "none"), str(store), "--out", str(tmp_path / "p.npy")]) == 1
    assert "no model.json" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_ingest_then_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = records(2000)
    rows = [f"{a!r},{h!r},{'a' if k else 'b'},{w!r}" for (a, h, k, _), w in zip(X.tolist(), y.tolist(), strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["age,height,kind,wage", *rows]))
    (tmp_path / "bounds.toml").write_text(BOUNDS)
    store, run = tmp_path / "store", tmp_path / "run"
    arguments = ["ingest", str(tmp_path / "people.csv"), str(store), "--target", "wage"]
    arguments += ["--bounds", str(tmp_path / "bounds.toml"), "--features", "age, kind", "--chunk-rows", "512"]
    assert main(arguments) == 0
    assert f"{store}: 2,000 rows x 3 features in 4 chunks" in capsys.readouterr().out
    assert main(arguments) == 1  # it exists
    assert main([*arguments, "--overwrite"]) == 0
    assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(run)]) == 0
    assert model_of(run)["feature_names"] == ["age", "kind=a", "kind=b"]


def test_missing_chunks_are_refused_unless_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    (store / "X" / "c" / "1" / "0").unlink()
    arguments = ["fit", str(store), *PAPER, *SEEDS, "--out", str(tmp_path / "run")]
    assert main(arguments) == 1
    assert "3 of 4 chunks" in capsys.readouterr().err
    assert main([*arguments, "--allow-missing-chunks"]) == 0


def test_a_run_folder_inside_the_store_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(store / "run")]) == 1
    assert "--out must be a folder outside of DATA" in capsys.readouterr().err
    assert not (store / "run").exists()
