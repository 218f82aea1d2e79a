"""Reading tables as a stream: files into column arrays, one bounded batch of rows at a time; here CSV.

Every cell is read by a rule that looks at this cell alone.  Types inferred per column or per chunk would let
one record change how its neighbours are parsed, and the privacy proof counts a change of one record only.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fastdp_dask.data.dates import moments, parse
from fastdp_dask.data.remote import File, compression, opened
from fastdp_dask.errors import ArgumentError, DataShapeError, StoreError

UNDECLARED, MISSING = -1, -2  # codes of a category cell that has no indicator

# Measured on CSV of 31 columns: peak memory grows by 40 to 50 bytes per cell of a batch, and 2^21 cells
# are no faster.
_CELLS_PER_BATCH = 2**18
_COMPRESSION = {".gz", ".zip", ".bz2", ".xz"}
_KINDS = {
    ".csv": "csv", ".txt": "csv", **dict.fromkeys(_COMPRESSION, "csv"), ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".h5": "hdf5", ".hdf5": "hdf5", ".zarr": "zarr",
}  # fmt: skip
_IN_FOLDERS = {"parquet", "arrow"}

Array = np.ndarray[Any, Any]
Batch = dict[str, Array]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Columns:
    """Which columns of the source are wanted, and how each is read; public."""

    numeric: tuple[str, ...]
    categorical: Mapping[str, Sequence[str]]
    dates: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.numeric, *self.categorical, *self.dates)

    @property
    def batch_rows(self) -> int:
        return min(65536, max(256, _CELLS_PER_BATCH // len(self.names)))


def find_files(source: str | Path) -> tuple[list[Path], str]:
    """Return the files that `source` (file, folder or glob) stands for, sorted, and their kind.

    The kind is "csv", "parquet", "arrow", "hdf5" or "zarr"; a Zarr group is a folder that counts as a file.
    """
    path = Path(source)
    if path.exists() and (path.is_file() or _is_zarr(path)):
        files = [path]
    elif path.is_dir():
        inside = (file for suffix, kind in _KINDS.items() if kind in _IN_FOLDERS for file in path.rglob(f"*{suffix}"))
        files = [file for file in inside if file.name[0] not in "._"]
    else:
        files = [Path(name) for name in glob.glob(str(source), recursive=True)]
    files = sorted(file for file in files if file.is_file() or _is_zarr(file))
    if not files:
        raise ArgumentError(
            f"source must be a CSV, Parquet, Arrow or HDF5 file, a Zarr group, a folder of Parquet or Arrow files, or "
            f"a glob, got {source}, which matches no file. Check the path."
        )
    kinds = sorted({kind_of(file) for file in files})
    if len(kinds) > 1:
        raise ArgumentError(
            f"source must be files of one kind, got {source}, which mixes {' and '.join(kinds)}. Ingest one kind at a "
            "time."
        )
    return files, kinds[0]


def _is_zarr(path: Path) -> bool:
    return path.is_dir() and ((path / "zarr.json").is_file() or (path / ".zgroup").is_file())


def kind_of(file: File) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    last = suffixes[-1] if suffixes else ""
    if last in _KINDS:
        return _KINDS[last]
    if isinstance(file, Path) and _is_zarr(file):
        return "zarr"
    raise ArgumentError(
        f"source must end in .csv, .csv.gz, .csv.zip, .parquet, .arrow, .feather, .h5 or .zarr, got the suffix "
        f"{last!r} of {file}. Rename or convert it."
    )


def match_category(cell: Any, labels: Mapping[str, int]) -> int:
    """Return the code of one category cell: the label's position, `UNDECLARED` or `MISSING`.

    The text must equal a label, or, written as a whole number (``3.0``, ``03``), a label such as ``3``.
    """
    if cell is None or cell == "" or cell != cell:
        return MISSING
    text = str(cell)
    if text in labels:
        return labels[text]
    try:
        number = float(text)
    except ValueError:
        return UNDECLARED
    return labels.get(str(int(number)), UNDECLARED) if number.is_integer() else UNDECLARED


def read_csv(files: Sequence[File], columns: Columns, skip: int = 0) -> Iterator[Batch]:
    """Yield batches of CSV files with a header line; the headers are checked before the first is read.

    The first `skip` rows are read, as quoted line ends must be, but not converted.

    A numeric cell is a decimal number, or true/false; anything else is NaN.  Fields beyond the header are
    ignored and fields that a line lacks are empty.
    """
    positions = [_csv_positions(file, columns.names) for file in files]
    return _csv_batches(files, positions, columns, skip)


def _csv_batches(
    files: Sequence[File], positions: Sequence[Mapping[str, int]], columns: Columns, skip: int
) -> Iterator[Batch]:
    import pandas as pd

    for file, position in zip(files, positions, strict=True):
        names = sorted(position, key=position.__getitem__)
        usecols = sorted(position.values())

        def frames(file: File = file, usecols: Sequence[int] = usecols) -> Iterator[Any]:
            size = columns.batch_rows
            with pd.read_csv(opened(file), header=0, usecols=usecols, chunksize=size, **_options(file)) as reader:
                yield from reader

        for frame in quietly(file, frames):
            if skip >= len(frame):
                skip -= len(frame)
                continue
            frame, skip = frame.iloc[skip:].copy() if skip else frame, 0
            frame.columns = names
            for name in columns.numeric:
                frame[name] = _csv_numbers(frame[name])
            yield frame_batch(frame, columns)


def frame_batch(frame: Any, columns: Columns) -> Batch:
    """Return the batch of a pandas DataFrame whose numeric columns are numbers."""
    import pandas as pd

    batch: Batch = {name: frame[name].to_numpy(dtype=np.float64) for name in columns.numeric}
    for name, labels in columns.categorical.items():
        codes, cells = pd.factorize(frame[name])
        batch[name] = category_codes(codes, cells, labels)
    for name in columns.dates:
        if frame[name].dtype.kind == "M":
            batch[name] = moments(frame[name].to_numpy())
        else:
            codes, cells = pd.factorize(frame[name])
            batch[name] = date_cells(codes, cells)
    return batch


# Undecodable bytes become cells that match nothing; `usecols` makes the parser ignore surplus fields.
_CSV_OPTIONS: dict[str, Any] = {
    "dtype": str,
    "na_filter": False,
    "index_col": False,
    "skip_blank_lines": False,  # a record whose only cell is missing is a blank line, and counts
    "encoding": "utf-8",
    "encoding_errors": "replace",
}


def _options(file: File) -> dict[str, Any]:
    return {**_CSV_OPTIONS, "compression": compression(file)}


def _csv_positions(file: File, names: Sequence[str]) -> dict[str, int]:
    import pandas as pd

    def read(place: File) -> Any:
        return pd.read_csv(opened(place), header=None, nrows=1, **_options(place))

    (head,) = quietly(file, partial(read_once, read, file))
    return positions_of(file, head.iloc[0].tolist(), names)


def _csv_numbers(cells: Any) -> Array:
    import pandas as pd

    # Columns of whole numbers alone go through int64 and may round otherwise: an empty last cell rules that out.
    texts = np.empty(len(cells) + 1, dtype=object)
    texts[:-1], texts[-1] = cells, ""
    numbers = np.array(pd.to_numeric(texts, errors="coerce")[:-1], dtype=np.float64)
    odd = np.flatnonzero(np.isnan(numbers))
    if odd.size:
        words = cells.iloc[odd].str.strip().str.lower()
        numbers[odd] = np.where(words == "true", 1.0, np.where(words == "false", 0.0, np.nan))
    return numbers


def category_codes(codes: Array, cells: Iterable[Any], labels: Sequence[str]) -> Array:
    """Translate codes of the distinct cells of a batch (-1: null) into codes of the declared labels."""
    position = {label: k for k, label in enumerate(labels)}
    known = [match_category(cell, position) for cell in cells]
    return np.array([*known, MISSING])[codes]


def date_cells(codes: Array, cells: Sequence[Any]) -> Array:
    """Translate codes of the distinct cells of a batch (-1: null) into dates (m,), datetime64[us]."""
    return np.append(parse(cells), np.datetime64("NaT", "us"))[codes]


def positions_of(file: File, found: Sequence[str], wanted: Sequence[str]) -> dict[str, int]:
    """Return where the wanted columns are.

    The names that were found are not listed: in a file without a header they are the first record.
    """
    for name in wanted:
        if (times := list(found).count(name)) != 1:
            problem = "has no column" if times == 0 else f"has {times} columns named"
            raise DataShapeError(
                f"{file}: the header {problem} {name!r} (got {len(found)} columns): expected exactly one. "
                "Check the name and that the first line is a header."
            )
    return {name: list(found).index(name) for name in wanted}


def read_once(read: Callable[..., Item], file: File, **options: Any) -> Iterator[Item]:
    yield read(file, **options)


def quietly(file: File, start: Callable[[], Iterable[Item]]) -> Iterator[Item]:
    """Iterate; a parser's error is replaced, outside its handler, by one that cannot quote a record."""
    failure = ""
    iterator: Iterator[Item] | None = None
    while not failure:
        try:
            iterator = iter(start()) if iterator is None else iterator
            item = next(iterator)
        except StopIteration:
            return
        except MemoryError:
            raise
        except Exception as error:
            failure = type(error).__name__
        else:
            yield item
    raise StoreError(
        f"{file} cannot be read ({failure}): expected an intact CSV (one file per archive, quotes closed) or "
        "Parquet file. Check it with another program, or copy it again."
    )
