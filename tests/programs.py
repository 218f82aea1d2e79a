"""What a test needs from the machine it runs on: there, or skipped; and with FASTDP_SITE=required, there or failed."""

from __future__ import annotations

import importlib.metadata
import os
import shutil

import pytest


def needs(*programs: str) -> None:
    """Skip the test that calls this when a program is not installed; fail it where everything must be."""
    search = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"  # where daemons are
    missing = [program for program in programs if shutil.which(program, path=search) is None]
    if missing:
        absent(missing)


def needs_distribution(*names: str) -> None:
    """The same for Python packages, which need not be importable."""
    missing = []
    for name in names:
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        absent(missing)


def absent(missing: list[str]) -> None:
    reason = f"not installed: {', '.join(missing)}"
    if os.environ.get("FASTDP_SITE") == "required":
        pytest.fail(reason)
    pytest.skip(reason)
