"""What the fuzz tests share: how many examples, values of every kind, and a value that must never be shown."""

from __future__ import annotations

import io
import logging
import os
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from fastdp_dask.errors import FastDPError, PrivacyLeakWarning

CANARY = 0.7351904628133
CANARY_TEXT = "Zq9Canary7351"
_SHOWN = ("7351904", "Zq9Canary")

_CI = os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev") == "ci"


def examples(count: int) -> settings:
    """`count` examples in continuous integration, a fortieth of them elsewhere."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
    return settings(max_examples=count if _CI else max(5, count // 40), suppress_health_check=checks)


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory if there is such a place: what a power cut leaves is no matter here, and a sync costs time."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)


ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2, 7, 10**30, 0.0, -0.5, 0.5, 1.0, 1e-300, 1e300, float("nan"), float("inf"), "", "x", "1",
    [], [1], (1, 2), {}, b"x", object,
)  # fmt: skip


def odd() -> st.SearchStrategy[Any]:
    """Anything that somebody may hand in for an argument."""
    return st.sampled_from(ODD)


class Told:
    """All that reached a person: output, warnings, log records, the message and the traceback of an error."""

    def __init__(self) -> None:
        self.error: FastDPError | None = None
        self.text = ""


@contextmanager
def listening() -> Iterator[Told]:
    """Catch the package's own errors alone, and check that nothing which was said shows the data."""
    told, out, err, log = Told(), io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(out), redirect_stderr(err):
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ResourceWarning)  # of sockets that earlier tests left to the collector
            try:
                yield told
            except FastDPError as error:
                told.error = error
    finally:
        logging.getLogger().removeHandler(handler)
    parts = [out.getvalue(), err.getvalue(), log.getvalue(), *(str(w.message) for w in warned)]
    if told.error is not None:
        parts.append("".join(traceback.format_exception(told.error)))
        assert str(told.error).strip(), type(told.error)
    told.text = "\n".join(parts)
    for shown in _SHOWN:
        assert shown not in told.text
    for w in warned:  # on purpose, about arguments and chunks; no arithmetic of anybody's values
        assert issubclass(w.category, UserWarning), w.category
        assert issubclass(w.category, PrivacyLeakWarning) or "chunk" in str(w.message), w.category
