"""`fastdp plan` shows what `fastdp fit` will do, and depends on public facts alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_cases import make_store

from fastdp_dask import plan
from fastdp_dask.commands.app import main
from fastdp_dask.solvers.dispatch import SOLVERS

BUDGET = ["--epsilon", "1", "--delta", "1e-8"]


def test_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    assert main(["plan", str(store), *BUDGET]) == 0
    shown = capsys.readouterr().out
    made = plan(4096, 4, epsilon=1, delta=1e-8, chunk_rows=(1024,) * 4)
    assert made.describe() in shown
    for words in ("4,096 rows in 4 chunks", "read in each pass", "budget: ", "no value was read", "Predicted for each"):
        assert words in shown


@pytest.mark.parametrize(
    "options", [[], ["--solver", "fastihm", "--k2", "256"], ["--solver", "fastihm", "--preset", "paper"]]
)
def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    store = make_store(tmp_path / "store")
    assert main(["plan", str(store), *BUDGET, *options, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["n_samples"], shown["n_columns"]) == (4096, 5)
    assert shown["bytes"]["read in each pass"] == 4096 * 5 * 4
    assert shown["noise_multiplier"] > 0
    assert {forecast["solver"] for forecast in shown["forecasts"]} == set(SOLVERS) - {"auto"}
    assert shown["forecasts"][0]["bytes_read"] == shown["n_passes"] * 4096 * (4 * 4 + 8)


def test_the_same_for_other_values_of_the_same_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []
    for name, blank in (("a", None), ("b", 17)):
        assert main(["plan", str(make_store(tmp_path / name, blank=blank)), *BUDGET]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_a_bad_epsilon_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    assert main(["plan", str(store), "--epsilon", "-1", "--delta", "1e-8"]) == 1
    assert "epsilon must be a finite number > 0" in capsys.readouterr().err


def test_measuring_keeps_what_it_finds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastdp_dask.costs.measure._PATIENCE", 0.01)
    monkeypatch.setenv("FASTDP_CACHE_DIR", str(tmp_path / "cache"))
    store = make_store(tmp_path / "store")
    assert main(["plan", str(store), *BUDGET]) == 0
    assert "constants shipped with the package" in capsys.readouterr().out
    assert not (tmp_path / "cache").exists()
    assert main(["plan", str(store), *BUDGET, "--measure"]) == 0
    shown = capsys.readouterr()
    assert f"kept in {tmp_path / 'cache' / 'machine.json'}" in shown.err
    assert "constants measured on this machine" in shown.out
