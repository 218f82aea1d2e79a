"""Differentially private linear regression for data larger than memory, on Dask."""

from fastdp_dask import privacy
from fastdp_dask.errors import BudgetError, FastDPError, PrivacyLeakWarning
from fastdp_dask.fast_mix import FastMixRelease, fastmix
from fastdp_dask.ledger import Ledger
from fastdp_dask.linear_model import LinearRegression
from fastdp_dask.planning import plan
from fastdp_dask.sketch.fwht import fwht
from fastdp_dask.sketch.srht import SRHT

__all__ = [
    "SRHT",
    "BudgetError",
    "FastDPError",
    "FastMixRelease",
    "Ledger",
    "LinearRegression",
    "PrivacyLeakWarning",
    "fastmix",
    "fwht",
    "plan",
    "privacy",
]
