"""Differentially private linear regression for data larger than memory, on Dask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastdp_dask import privacy
    from fastdp_dask.bounded_features import BoundedFeatures
    from fastdp_dask.errors import BudgetError, FastDPError, PrivacyLeakWarning
    from fastdp_dask.fast_mix import FastMixRelease, fastmix
    from fastdp_dask.ledger import Ledger
    from fastdp_dask.linear_model import LinearRegression
    from fastdp_dask.planning import plan
    from fastdp_dask.sketch.fwht import fwht
    from fastdp_dask.sketch.srht import SRHT

__all__ = [
    "SRHT",
    "BoundedFeatures",
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

# Loaded at first use: scikit-learn takes a second to import and tens of megabytes, which workers never need.
_HOMES = {
    "SRHT": "sketch.srht",
    "BoundedFeatures": "bounded_features",
    "BudgetError": "errors",
    "FastDPError": "errors",
    "FastMixRelease": "fast_mix",
    "Ledger": "ledger",
    "LinearRegression": "linear_model",
    "PrivacyLeakWarning": "errors",
    "fastmix": "fast_mix",
    "fwht": "sketch.fwht",
    "plan": "planning",
}


def __getattr__(name: str) -> Any:
    if name == "privacy":
        return import_module("fastdp_dask.privacy")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"fastdp_dask.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
