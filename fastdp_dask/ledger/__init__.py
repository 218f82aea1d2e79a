"""The budget of a data set: charged before every release, in a file that only grows."""

from fastdp_dask.ledger.amounts import Amount
from fastdp_dask.ledger.budget import Ledger
from fastdp_dask.ledger.composition import composed_epsilon
from fastdp_dask.ledger.records import Charge

__all__ = ["Amount", "Charge", "Ledger", "composed_epsilon"]
