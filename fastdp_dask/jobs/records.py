"""What a job's folder remembers: submissions, runs of the driver, passes.  One JSON line each; all of it public."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fastdp_dask.durable import append_line
from fastdp_dask.errors import StoreError
from fastdp_dask.jobs.shell import Files
from fastdp_dask.run_folder import refuse_foreign


class JobFolder:
    """The folder `job/` in a run folder, mode 0700.

    Parameters
    ----------
    run_dir : path-like
    """

    def __init__(self, run_dir: str | os.PathLike[str]) -> None:
        self.files = Files(str(run_dir))
        self.path = Path(self.files.folder)

    def make(self) -> JobFolder:
        """Create the folders of a job.

        Raises
        ------
        ArgumentError
            If the run folder would be one that holds other files.
        StoreError
            If they cannot be written.
        """
        refuse_foreign(self.path.parent)
        try:
            for folder in (self.path.parent, self.path, Path(self.files.logs)):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                folder.chmod(0o700)
        except OSError as error:
            raise StoreError(
                f"run_dir must be a folder that can be written, got {self.path.parent} ({error.strerror}). Choose "
                "another."
            ) from None
        return self

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Write a file of this job anew, so that nobody reads half of it."""
        new = Path(path + ".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
        os.chmod(new, mode)
        os.replace(new, path)

    def note(self, event: str, **facts: Any) -> None:
        """Append one line to the journal."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        path = self.path / "journal.jsonl"
        torn = path.exists() and not path.read_bytes().endswith(b"\n")  # by a crash
        line = json.dumps({"event": event, "at": moment, **facts}).encode() + b"\n"
        append_line(path, b"\n" + line if torn else line)

    def journal(self) -> list[dict[str, Any]]:
        """All lines in order; one that a crash cut short is left out."""
        path = self.path / "journal.jsonl"
        if not path.exists():
            return []
        found = []
        for line in path.read_bytes().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and "event" in entry:
                found.append(entry)
        return found

    @contextmanager
    def told(self, name: str, number: int, n_rows: int, n_chunks: int) -> Iterator[None]:
        """A `PassProgress` that writes the passes down."""
        with suppress(OSError):  # a line about a pass is not worth a pass
            self.note("pass", number=number, name=name, rows=n_rows, chunks=n_chunks)
        yield
