"""Where `fastdp` begins: handlers of signals first, then everything that takes a second to import."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fastdp_dask.commands import stopping

_STOPPABLE = ("fit", "ingest", "predict", "run-job")  # commands that may be asked to stop, and then run again


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `fastdp` with `arguments` (None: those of the process) and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    stoppable = next((word for word in given if not word.startswith("-")), "") in _STOPPABLE
    if stoppable:
        stopping.from_the_start()
    from fastdp_dask.commands.app import main as run

    code = run(given)
    if stoppable:
        stopping.over()
    return code


if __name__ == "__main__":
    sys.exit(main())
