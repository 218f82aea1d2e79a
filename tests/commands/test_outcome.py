"""Exit codes, and that no text of an unknown exception or of arithmetic gets out."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from command_cases import PAPER, make_store

from fastdp_dask import LinearRegression
from fastdp_dask.commands import outcome
from fastdp_dask.commands.app import main
from fastdp_dask.errors import BudgetError, PrivacyLeakWarning, StoreError


def code_of(raises: Callable[[], None]) -> int:
    """The exit code of a command that does what `raises` does."""
    try:
        outcome.reported(raises)()
    except typer.Exit as end:
        return int(end.exit_code)
    return 0


def fail(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreError("store x is missing. Write it."), 1),
        (BudgetError("the ledger refuses. Stop."), 3),
        (outcome.Stopped("stopped on request"), 75),
        (ValueError("age 61.25"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_codes(error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(fail(error)) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("debug", ["0", "1"])
def test_text_of_an_unknown_exception_is_withheld(
    debug: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDP_DEBUG", debug)
    assert code_of(fail(ValueError("age 61.25"))) == 1
    text = capsys.readouterr().err
    assert "61.25" not in text
    assert "Traceback" not in text
    assert "unexpected ValueError" in text
    assert ("test_outcome.py" in text) == (debug == "1")


def test_the_system_s_own_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code_of(fail(OSError(errno.ENOSPC, "while writing 61.25")))
    text = capsys.readouterr().err
    assert "No space left on device" in text
    assert "61.25" not in text


def test_warnings_are_one_line_each_and_arithmetic_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        for _ in range(2):
            warnings.warn("not private\nagainst whoever knows", PrivacyLeakWarning, stacklevel=1)
        warnings.warn("overflow in 61.25", RuntimeWarning, stacklevel=1)

    assert code_of(command) == 0
    assert capsys.readouterr().err == "fastdp: warning: not private against whoever knows\n"


def test_a_refused_budget_is_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise BudgetError("ledger must have epsilon 5 left, got 1. Stop here.")

    monkeypatch.setattr(LinearRegression, "fit", refuse)
    assert main(["fit", str(make_store(tmp_path / "s")), *PAPER, "--out", str(tmp_path / "run")]) == 3
    assert capsys.readouterr().err == "fastdp: error: ledger must have epsilon 5 left, got 1. Stop here.\n"
