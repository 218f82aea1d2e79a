"""`fastdp predict`: a model and a store become a file of predictions, a chunk of rows at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import zarr

from fastdp_dask import LinearRegression
from fastdp_dask.blocked.progress import silent
from fastdp_dask.commands import storage
from fastdp_dask.commands.stopping import Stoppable
from fastdp_dask.data import open_store
from fastdp_dask.durable import local_path
from fastdp_dask.errors import ArgumentError, DataShapeError, FastDPError, StoreError


def predict(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="Run folder of a finished fit.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Store with the same features, or its URL.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="New file: .npy, .csv or .zarr.")],
    allow_missing_chunks: Annotated[
        bool, typer.Option("--allow-missing-chunks", help="Predict NaN for absent chunks.")
    ] = False,
    storage_option: storage.StorageOptions = None,
) -> None:
    """Predict the target for every row of a store.

    The model is private; its predictions are functions of the rows given here, so protect them like those.
    One line for each row of the store, in its order; a row with a missing feature gets nan.
    """
    out = local_path("--out", out)
    options = storage.options(storage_option)
    write = _writers().get(out.suffix.lower())
    if write is None:
        raise ArgumentError(f"--out must end in .npy, .csv or .zarr, got {out.name}. Choose one of them.")
    if out.exists():
        raise ArgumentError(f"--out must be a new file, got {out}, which exists. Choose another name or remove it.")
    model = LinearRegression.from_run(run)
    if model.coef_.ndim > 1 and out.suffix.lower() == ".csv":
        raise ArgumentError(
            f"--out must end in .npy or .zarr for a model of several targets, got {out.name}. Choose one of them."
        )
    partial = out.with_name(f".{out.name}.part")
    with Stoppable(silent, f"stopped on request; nothing of {out} is left. Run the same command again."):
        store = open_store(data, allow_missing_chunks=allow_missing_chunks, storage_options=options)
        _check_names(getattr(model, "feature_names_in_", None), store.declaration.feature_names)
        predicted = model.predict(store.X)
        try:
            with _named(out):
                _remove(partial)
                write(predicted, partial, store.declaration.target)
                os.replace(partial, out)
        finally:
            with suppress(OSError):  # on a read-only mount even the removal of nothing fails
                _remove(partial)
    print(f"{out}: {store.n_rows:,} predictions of {store.declaration.target}")


@contextmanager
def _named(out: Path) -> Iterator[None]:
    """An error of the disk that is written to says which file it was."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FastDPError):
            raise
        kind = os.strerror(error.errno) if error.errno is not None else type(error).__name__
    else:
        return
    raise StoreError(
        f"--out {out} cannot be written ({kind}): nothing of it is left. Free space, change the permissions or choose "
        "another place, then run again."
    )


def _check_names(fitted: Any, given: Any) -> None:
    """Refuse a store whose columns are others, or in another order; names are public."""
    if fitted is None or len(fitted) != len(given):
        return  # the estimator itself compares the numbers of columns
    for j, (expected, got) in enumerate(zip(fitted, given, strict=True)):
        if expected != got:
            raise DataShapeError(
                f"DATA must have the features of the fit in their order: expected {expected!r} as column "
                f"{j}, got {got!r}. Ingest it with the same --features."
            )


def _writers() -> dict[str, Callable[[Any, Path, str], None]]:
    return {".npy": _write_npy, ".csv": _write_csv, ".zarr": _write_zarr}


def _private(path: Path) -> None:
    """Create the file for its owner alone: predictions are functions of the rows."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def _write_npy(predicted: Any, path: Path, target: str) -> None:
    _private(path)
    with path.open("wb") as stream:  # not mapped into memory: there a full disk is a bus error
        header = {"descr": "<f8", "fortran_order": False, "shape": predicted.shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for block in _blocks(predicted):
            stream.write(block.astype("<f8").tobytes())


def _write_csv(predicted: Any, path: Path, target: str) -> None:
    quoted = target.replace('"', '""')
    _private(path)
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(f'"{quoted}"\n')
        for block in _blocks(predicted):
            stream.writelines(f"{value!r}\n" for value in block.tolist())


def _write_zarr(predicted: Any, path: Path, target: str) -> None:
    # In this thread alone: after an error no task is left that could write into the folder while it is removed.
    array = zarr.create_array(str(path), shape=predicted.shape, chunks=predicted.chunksize, dtype=predicted.dtype)
    first = 0
    for block in _blocks(predicted):
        array[first : first + len(block)] = block
        first += len(block)


def _blocks(predicted: Any) -> Iterator[np.ndarray]:
    for k in range(predicted.numblocks[0]):
        yield predicted.blocks[k].compute()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
