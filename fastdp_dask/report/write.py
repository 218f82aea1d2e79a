"""Writing a report into its run folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fastdp_dask.durable import sync_folder, write_json
from fastdp_dask.errors import StoreError
from fastdp_dask.report import content, page


def write(run_dir: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write `report.html` and `report.json` (mode 0600) and return their paths.

    Raises
    ------
    StoreError
        If the folder holds no finished fit, or cannot be written.
    """
    report: dict[str, Any] = content.gather(run_dir)
    made, told = Path(run_dir) / "report.html", Path(run_dir) / "report.json"
    try:
        _write_text(made, page.html(report))
        write_json(told, report)
    except OSError as error:
        raise StoreError(
            f"{run_dir} cannot be written ({error.strerror}). Free space or change the permissions, then run fastdp "
            "report."
        ) from None
    return made, told


def _write_text(path: Path, text: str) -> None:
    """A crash leaves the old file or the new one, never a part."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)
    sync_folder(path.parent)
