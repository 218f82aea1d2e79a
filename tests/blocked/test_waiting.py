"""Waiting for a cluster: a look at the clock must not be taken for a task's failure, nor the reverse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dask
import distributed
import numpy as np
import pytest

from fastdp_dask.blocked import waiting


def computed(monkeypatch: pytest.MonkeyPatch, waits: list[bool], result: Any) -> np.ndarray:
    """`computed` of a future whose waits end in time or not, in this order, and which is done all along."""

    def wait(future: Any, timeout: float) -> None:
        if not waits.pop(0):
            raise TimeoutError

    def answer() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    future = SimpleNamespace(done=lambda: True, result=answer)
    client = SimpleNamespace(
        asynchronous=False, scheduler=SimpleNamespace(address="tls://x:1", ncores=None), compute=lambda lazy: future,
        sync=lambda ask, **how: {"w": 1},
    )  # fmt: skip
    monkeypatch.setattr(waiting, "_active_client", lambda: client)
    monkeypatch.setattr(distributed, "wait", wait)
    with dask.config.set({"fastdp.worker-timeout": 60}):
        return waiting.computed(None)


def test_a_pass_that_ends_just_after_a_look_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert computed(monkeypatch, [False, False, True], 7.0) == 7.0


def test_a_task_s_own_time_out_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError, match="of the task"):
        computed(monkeypatch, [False, True], TimeoutError("of the task"))
