"""Every error and warning that the package raises on purpose.

The messages follow one form: the argument, what was expected, what came, the next step.  They never hold a
data value, and whether one is raised depends on public facts only (shapes, dtypes, declared bounds, budgets).
"""

from __future__ import annotations


class FastDPError(Exception):
    """Base of all errors raised by fastdp_dask."""


class ArgumentError(FastDPError, ValueError):
    """An argument is outside its range, or two arguments contradict each other."""


class NoIntervalsError(ArgumentError, AttributeError):
    """A model of this solver has no standard errors: the attribute is not there."""


class BoundsError(ArgumentError):
    """Declared bounds or groups are missing, malformed or do not fit the number of features."""


class BoundsTypeError(BoundsError, TypeError):
    """A bound is given as text."""


class DataShapeError(ArgumentError):
    """The shapes of X and y do not fit together or are not two- and one-dimensional."""


class DataTypeError(ArgumentError, TypeError):
    """A column is not numeric (object, string, complex, datetime), or X is not dense."""


class CalibrationError(ArgumentError):
    """No noise level satisfies the requested (epsilon, delta)."""


class StoreError(FastDPError, OSError):
    """A data store on disk is missing, incomplete or of another layout."""


class LedgerError(FastDPError, OSError):
    """A ledger is missing, damaged, locked or of another layout: nothing was charged, nothing may be released."""


class MemoryLimitError(FastDPError, MemoryError):
    """The projected memory of a pass is larger than the stated limit."""


class ClusterLostError(FastDPError, ConnectionError):
    """In the middle of a pass the scheduler, or every worker, was gone for too long. Exit code 75: run again."""


class BudgetError(ArgumentError):
    """A ledger refuses a charge. Exit code 3: never retry."""


class PrivacyLeakWarning(UserWarning):
    """The result is reproducible, hence not private against whoever knows the seed."""


class LargeDeltaWarning(PrivacyLeakWarning):
    """delta is 1/n_samples or more: publishing one whole record in the clear would be allowed."""
