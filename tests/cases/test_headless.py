"""A batch node: no terminal, no bokeh."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from commands.command_cases import ENVIRONMENT, make_store

WITHOUT_BOKEH = (
    "import sys; sys.modules['bokeh'] = None\n"
    "if __name__ == '__main__':\n"
    "    from fastdp_dask.commands.app import main; sys.exit(main(sys.argv[1:]))\n"
)


@pytest.mark.cluster
def test_a_fit_with_workers_needs_no_bokeh_and_tells_its_passes_in_plain_lines(tmp_path: Path) -> None:
    """Worker processes without a dashboard: progress is lines on standard error, the same as with threads."""
    store, script = make_store(tmp_path / "store", n_rows=512, chunk_rows=128), tmp_path / "run.py"
    script.write_text(WITHOUT_BOKEH)
    arguments = ["fit", store, "--epsilon=4", "--delta=1e-6", "--solver=ihm", "--n-iter=2"]
    told = []
    for more in ([f"--out={tmp_path / 'a'}", "--workers=1"], [f"--out={tmp_path / 'b'}"]):
        done = subprocess.run(
            [sys.executable, script, *map(str, [*arguments, *more])], capture_output=True, text=True, timeout=240,
            env=ENVIRONMENT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stderr
        lines = [line for line in done.stderr.splitlines() if ": pass " in line and "done" in line]
        told.append([line.split(" in ")[0] for line in lines])
    assert told[0] == told[1] != []
