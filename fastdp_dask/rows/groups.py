"""Whether a group of indicators holds a column for every label of its category."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CompleteGroup(list[int]):
    """Columns of one category, one for each of its labels: every record is taken to have 1 in exactly one of them.

    To scaling and to the fit it is a group like any other.  Intervals use it: the columns add up to the intercept's,
    so the data tell their coefficients up to a constant alone, and these are read from the mean of the group.  A plain
    list may leave a baseline label out; then every coefficient is told, and is read as it stands.
    """


def complete_of(groups: Sequence[Any] | None) -> tuple[bool, ...]:
    """Of each group as passed to an estimator, whether it is declared complete."""
    return () if groups is None else tuple(isinstance(group, CompleteGroup) for group in groups)
