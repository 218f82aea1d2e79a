"""`fastdp fit --scheduler`: the same model as on threads, and bounded waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_cases import PAPER, SEEDS, make_store
from distributed import LocalCluster

from fastdp_dask.commands.app import main
from fastdp_dask.commands.workers import connected
from fastdp_dask.errors import FastDPError


@pytest.mark.cluster
def test_the_same_model_as_on_threads(two_workers: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path / "store")
    models = []
    for name, more in (("threads", []), ("cluster", ["--scheduler", two_workers.scheduler_address])):
        assert main(["fit", str(store), *PAPER, *SEEDS, "--out", str(tmp_path / name), *more]) == 0
        models.append(json.loads((tmp_path / name / "model.json").read_text()))
    assert models[0] == models[1]
    assert "pass 4 (gradient): done" in capsys.readouterr().err


def test_no_scheduler_at_the_address() -> None:
    with pytest.raises(FastDPError, match="no answer within 1 s"), connected("tcp://127.0.0.1:9", timeout=1):
        pytest.fail("connected to nothing")


@pytest.mark.cluster
def test_a_scheduler_without_workers() -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        pytest.raises(FastDPError, match="no worker after 1 s"),
        connected(cluster.scheduler_address, timeout=1),
    ):
        pytest.fail("went on without workers")
