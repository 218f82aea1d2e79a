"""Every message that the package raises on purpose, read from its source: argument, expected, received, next step."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastdp_dask
from fastdp_dask import errors

ROOT = Path(fastdp_dask.__file__).parent
KINDS = {
    name for name, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.FastDPError) and kind is not errors.FastDPError
} | {"FastDPError"}  # fmt: skip

# How a message says what it wants, and what it found instead.
EXPECTED = re.compile(r"\b(must|[Ee]xpected|needs?|is needed|cannot|refuses|has no|lacks)\b")
RECEIVED = re.compile(
    r"\b(got|holds?|which|taken|satisfies|fails|lacks|has no|unknown entry|cannot be read)\b|"
    r"\b(is|are) (not|used|declared|needed|also|None|in)\b"
)
# Of a file or another program: what is wrong with it says both.
STATE = re.compile(
    r"\b(does not exist|is incomplete|lacks?|has (no|malformed)|is not|are not|taken over|in use|could not|cannot|"
    r"differ|refuses|names a|exists|expected|chunks|needs|is needed|no answer|lost|line|unknown|has)\b"
)
OF_STATE = {"StoreError", "LedgerError", "FastDPError", "BudgetError", "JobError", "ClusterLostError"}


def text(node: ast.expr, constants: dict[str, str]) -> str | None:
    """A message with its gaps as {…}; None if it is passed on from elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else constants.get(gap(part), "{…}")
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text(node.left, constants), text(node.right, constants)
        return None if left is None or right is None else left + right
    return None


def gap(part: ast.expr) -> str:
    inner = part.value if isinstance(part, ast.FormattedValue) else part
    return inner.id if isinstance(inner, ast.Name) else ""


def messages(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, kind and text of every error that is made with a text of its own."""
    nodes = list(ast.walk(ast.parse(source)))
    constants = {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS and node.args:
            found = text(node.args[0], constants)
            if found is not None:
                yield node.lineno, node.func.id, found


def complaints(message: str, kind: str = "ArgumentError") -> list[str]:
    """What the form asks for and the message lacks."""
    lacking = []
    told = message.startswith("{…}: {…}") or (kind in OF_STATE and STATE.search(message))
    if not re.match(r"[-\w{'\"]", message) or len(message.split()) < 6:
        lacking.append("the argument, in a sentence")
    if not told and not EXPECTED.search(message):
        lacking.append("what was expected")
    if not told and not RECEIVED.search(message):
        lacking.append("what came")
    # A sentence of its own, in the imperative, or a gap that brings it.
    if not re.search(r"[.:?] (([A-Z]\w*|fastdp|pip)\b.*|\{…\}.*)$", message):
        lacking.append("the next step")
    return lacking


ALL = [
    (path.relative_to(ROOT), *found)
    for path in sorted(ROOT.rglob("*.py"))
    for found in messages(path.read_text())
]


def test_there_are_messages_to_look_at() -> None:
    assert len(ALL) > 150
    kinds = {kind for _, _, kind, _ in ALL}
    assert kinds >= {"ArgumentError", "BoundsError", "DataShapeError", "StoreError", "LedgerError", "BudgetError"}


@pytest.mark.parametrize("found", ALL, ids=lambda found: f"{found[0]}:{found[1]}")
def test_a_message_has_the_form(found: tuple[Path, int, str, str]) -> None:
    path, line, kind, message = found
    assert complaints(message, kind) == [], f"{path}:{line}: {message}"


@pytest.mark.parametrize(
    ("message", "lacking"),
    [
        ("epsilon must be a number > 0, got {…}. Choose one between 0.1 and 10.", []),
        ("Bad value.", ["the argument, in a sentence", "what was expected", "what came", "the next step"]),
        ("epsilon must be a number > 0, got {…}", ["the next step"]),
        ("epsilon {…} of no use here at all. Choose another.", ["what was expected", "what came"]),
    ],
)
def test_the_form_can_be_missed(message: str, lacking: list[str]) -> None:
    assert complaints(message) == lacking
