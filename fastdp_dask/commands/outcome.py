"""How a command ends: exit codes, one line for an error, one line for a warning, and never a data value.

A message of the package's own errors speaks of public facts only.  Any other exception may quote what it
choked on, so that only its type is shown.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from fastdp_dask.commands import stopping
from fastdp_dask.commands.stopping import CHECKPOINTED, INTERRUPTED, Stopped
from fastdp_dask.errors import BudgetError, ClusterLostError, FastDPError

DONE = 0
ERROR = 1
USAGE = 2
BUDGET = 3  # refused by the ledger: never retry

_NEXT_STEPS = {
    "KilledWorker": "A worker died again and again, most often for lack of memory: give workers more, or "
    "write the store with a smaller --chunk-rows.",
    "MemoryError": "Give the process more memory, or write the store with a smaller --chunk-rows.",
    "ModuleNotFoundError": "A package is missing: pip install 'fastdp-dask[demo]' brings all of them.",
}
_OTHERWISE = (
    "Its text is withheld, as it may quote data. Set FASTDP_DEBUG=1 to see where it arose; "
    "a fit continues where it stopped when run again with the same --out."
)


def say(text: str) -> None:
    """One line on standard error."""
    print(f"fastdp: {_one_line(text)}", file=sys.stderr, flush=True)


def say_error(message: str, next_step: str = "") -> None:
    """One line `fastdp: error: …` on standard error."""
    say(f"error: {message} {next_step}")


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """The command with its exceptions turned into exit codes and lines on standard error."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        with _plain_warnings():
            code = _outcome(command, *args, **kwargs)
        if code != DONE:
            raise typer.Exit(code)

    return run


def _outcome(command: Callable[..., None], *args: Any, **kwargs: Any) -> int:
    try:
        command(*args, **kwargs)
    except (typer.Exit, typer.BadParameter):
        raise
    except Stopped as stopped:
        stopping.told()
        say(str(stopped))
        return CHECKPOINTED
    except KeyboardInterrupt:
        stopping.told()
        say("interrupted. Releases made so far are kept: run the same command again to continue.")
        return INTERRUPTED
    except BudgetError as error:
        say_error(str(error))
        return BUDGET
    except FastDPError as error:
        _show_place(error)
        say_error(str(error))
        return CHECKPOINTED if isinstance(error, ClusterLostError) else ERROR
    except Exception as error:
        _show_place(error)
        say_error(f"unexpected {_kind(error)}.", _NEXT_STEPS.get(type(error).__name__, _OTHERWISE))
        return ERROR
    return DONE


def _kind(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name} ({os.strerror(error.errno)})"  # the system's own words for a number
    return name


def _show_place(error: Exception) -> None:
    """With FASTDP_DEBUG=1: files, lines and functions, without the messages and values of a traceback."""
    if os.environ.get("FASTDP_DEBUG") != "1":
        return
    for frame in traceback.extract_tb(error.__traceback__):
        say(f"debug: {frame.filename}:{frame.lineno} in {frame.name}")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show a `UserWarning` (and so a `PrivacyLeakWarning`) as one line, once, and drop every other kind.

    Whether arithmetic warns can depend on the data, so that kind stays unsaid.
    """
    said: set[str] = set()

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        text = f"warning: {message}"
        if text not in said:
            said.add(text)
            say(text)

    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def _one_line(text: str) -> str:
    return " ".join(text.split())
