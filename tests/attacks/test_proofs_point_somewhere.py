"""Every function and test that the proofs and the threat model name exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import fastdp_dask

PACKAGE = Path(fastdp_dask.__file__).parent
TESTS = Path(__file__).parent.parent
TEXT = (PACKAGE / "PROOFS.md").read_text()
THREATS = (PACKAGE / "THREAT_MODEL.md").read_text()
NAMES = sorted(set(re.findall(r"`([\w./]+)`", TEXT)))
FILES = sorted(set(re.findall(r"`([\w./]+)`", TEXT + THREATS)))


@pytest.mark.parametrize("path", [name for name in FILES if "/" in name or name.endswith(".py")])
def test_a_named_file_exists(path: str) -> None:
    assert (TESTS / path).exists() or (PACKAGE / path).exists()


@pytest.mark.parametrize("name", [n for n in NAMES if "/" not in n and "." in n and not n.endswith(".py")])
def test_a_named_function_exists(name: str) -> None:
    first, *attributes = name.split(".")
    if first == "pooled_plan" or first == "pooled_choice":
        first = f"solvers.{first}"
    found = importlib.import_module(f"fastdp_dask.{first}")
    for attribute in attributes:
        found = (
            getattr(found, attribute)
            if hasattr(found, attribute)
            else importlib.import_module(f"{found.__name__}.{attribute}")
        )
    assert found is not None


def test_the_threat_model_names_its_tests() -> None:
    assert len([name for name in FILES if name.endswith(".py") and f"`{name}`" in THREATS]) >= 12


def test_every_attack_is_named() -> None:
    for path in (TESTS / "attacks").glob("test_*_attacks.py"):
        assert f"attacks/{path.name}" in TEXT
