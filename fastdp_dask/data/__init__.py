"""Data on disk: what is declared about it, the Zarr store, ingestion of tables, the demo's flight records."""

from fastdp_dask.data.bounds import Declaration
from fastdp_dask.data.bounds_file import read_declaration
from fastdp_dask.data.flights import FLIGHTS_DECLARATION, load_flights, write_flights
from fastdp_dask.data.ingest import IngestReport, ingest
from fastdp_dask.data.store import Store, open_store
from fastdp_dask.data.table import is_table, open_table
from fastdp_dask.data.write import write_store

__all__ = [
    "FLIGHTS_DECLARATION",
    "Declaration",
    "IngestReport",
    "Store",
    "ingest",
    "is_table",
    "load_flights",
    "open_store",
    "open_table",
    "read_declaration",
    "write_flights",
    "write_store",
]
