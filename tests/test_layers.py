"""Which module may import which, read from the source: one way, and heavy packages in their layer only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fastdp_dask

ROOT = Path(fastdp_dask.__file__).parent
FILES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))

# A unit (module or folder directly below the package) imports itself and lower floors, never a neighbour.
FLOORS = [
    {"errors"},
    {"_validate", "compiled"},
    {"discrete"},
    {"rng", "linalg", "durable", "file_lock"},
    {"privacy", "sketch"},  # pure: arrays in, arrays out
    {"rows"},
    {"mechanisms", "releases", "ledger"},
    {"run_folder", "solvers", "blocked", "data"},
    {"costs"},
    {"run_protocol", "uncertainty"},
    {"fitted"},
    {"linear_model", "bounded_features", "fast_mix", "planning", "noise_curves"},
    {"audit", "jobs", "report"},
    {"commands"},
]
PURE = {"errors", "_validate", "compiled", "discrete", "rng", "linalg", "privacy", "sketch", "rows", "mechanisms"}

# Package -> units that may use it.
ALLOWED = {
    "dask": {"blocked", "bounded_features", "fitted", "linear_model", "data", "costs", "commands"},
    "distributed": {"blocked", "linear_model", "data", "commands"},
    "numba": {"compiled", "sketch", "rows"},
    "sklearn": {"bounded_features", "fitted", "linear_model"},
    "randomgen": {"rng"},
    "opendp": {"rng"},
    "secrets": {"rng"},
    "sqlite3": {"ledger"},
    "pandas": {"data", "commands"},
    "zarr": {"data", "commands"},
    "typer": {"commands"},
    "rich": {"blocked", "commands"},  # progress bars
    "matplotlib": {"commands", "report"},
    "pydantic": {"jobs"},
    "yaml": {"jobs"},
    "dask_jobqueue": {"commands"},
    "cryptography": {"commands"},
    "fsspec": {"data"},
}


def unit(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def floor(name: str) -> int:
    for number, names in enumerate(FLOORS):
        if name in names:
            return number
    raise AssertionError(f"give {name!r} a place in FLOORS")


def imports(path: Path) -> list[str]:
    """Dotted names of everything imported, inside functions too."""
    names = []
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names += [f"{module}.{alias.name}" for alias in node.names] if module == "fastdp_dask" else [module]
    return names


def calls(path: Path, name: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]


@pytest.mark.parametrize("path", [path for path in FILES if path.name != "__init__.py" or len(path.parts) > 1], ids=str)
def test_imports_point_down(path: Path) -> None:
    here = unit(path.parts)
    for name in imports(path):
        root, *rest = name.split(".")
        if root == "fastdp_dask":
            assert rest, f"{path}: imports the whole package"
            if rest[0] in fastdp_dask.__all__ and not (ROOT / rest[0]).is_dir():  # the public face
                assert here == "commands", f"{path}: {name}"
                continue
            there = unit(tuple(rest))
            assert there == here or floor(there) < floor(here), f"{path}: {name}"
        elif root in ALLOWED:
            assert here in ALLOWED[root], f"{path}: {root} belongs to {sorted(ALLOWED[root])}"


@pytest.mark.parametrize("path", [path for path in FILES if unit(path.parts) in PURE], ids=str)
def test_pure_floors_touch_no_file(path: Path) -> None:
    assert not {"os", "pathlib", "io", "shutil", "tempfile", "sqlite3"} & {name.split(".")[0] for name in imports(path)}
    assert not calls(path, "open")


@pytest.mark.parametrize("path", [path for path in FILES if unit(path.parts) != "commands"], ids=str)
def test_the_library_prints_nothing(path: Path) -> None:
    assert not calls(path, "print")


def test_randomness_has_one_door() -> None:
    for path in FILES:
        if unit(path.parts) == "rng":
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Attribute)
                and node.value.attr == "random"
            ):
                assert node.attr == "Generator", f"{path}:{node.lineno}: np.random.{node.attr}"
        assert "random" not in {name.split(".")[0] for name in imports(path)}, path


def test_the_checks_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows").mkdir()
    bad = tmp_path / "rows" / "bad.py"
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    for source in (
        "import dask.array",
        "from fastdp_dask.solvers import base",
        "from fastdp_dask import linear_model",
    ):
        bad.write_text(f"def f():\n    {source}\n")
        with pytest.raises(AssertionError):
            test_imports_point_down(Path("rows/bad.py"))
    bad.write_text("print(open('x'))")
    for check in (test_the_library_prints_nothing, test_pure_floors_touch_no_file):
        with pytest.raises(AssertionError):
            check(Path("rows/bad.py"))


def test_files_stay_small_and_typed() -> None:
    assert (ROOT / "py.typed").exists()
    assert {str(path): count for path in FILES if (count := len((ROOT / path).read_text().splitlines())) > 300} == {}
