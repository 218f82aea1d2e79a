"""Empirical privacy audit: lower bounds on ε from many runs of the real code on neighbouring data sets."""

from fastdp_dask.audit.run import MECHANISMS, AuditResult, audit

__all__ = ["MECHANISMS", "AuditResult", "audit"]
