"""A batch node: no terminal, no bokeh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands.command_cases import ENVIRONMENT, make_store

from fastdp_dask.commands.app import main

WITHOUT_BOKEH = (
    "import sys; sys.modules['bokeh'] = None\n"
    "if __name__ == '__main__':\n"
    "    from fastdp_dask.commands.app import main; sys.exit(main(sys.argv[1:]))\n"
)


@pytest.mark.cluster
def test_a_fit_with_workers_needs_no_bokeh_and_tells_its_passes_in_plain_lines(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Worker processes without a dashboard: progress is lines on standard error, the same as with threads."""
    store, script = make_store(tmp_path / "store", n_rows=512, chunk_rows=128), tmp_path / "run.py"
    script.write_text(WITHOUT_BOKEH)
    arguments = ["fit", str(store), "--epsilon=4", "--delta=1e-6", "--solver=ihm", "--n-iter=2"]
    with_workers = subprocess.run(
        [sys.executable, script, *arguments, f"--out={tmp_path / 'a'}", "--workers=1"], capture_output=True, text=True,
        timeout=240, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert with_workers.returncode == 0, with_workers.stderr
    assert main([*arguments, f"--out={tmp_path / 'b'}"]) == 0  # on threads there is nothing for bokeh to draw
    told = []
    for said in (with_workers.stderr, capfd.readouterr().err):
        assert "\x1b" not in said
        lines = [line for line in said.splitlines() if ": pass " in line and "done" in line]
        told.append([line.split(" in ")[0] for line in lines])
    assert told[0] == told[1] != []
