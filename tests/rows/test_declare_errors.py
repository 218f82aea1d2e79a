"""Every malformed declaration is a BoundsError that names the argument and the next step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fastdp_dask.errors import ArgumentError, BoundsError
from fastdp_dask.rows.scaling import declare

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"bounds_X": None}, "exactly one of bounds_X and data_norm must be given, got neither"),
        ({"data_norm": 1.0}, "exactly one of bounds_X and data_norm must be given, got both"),
        ({"bounds_X": (1, 1)}, "bounds_X: lower must be below upper"),
        ({"bounds_X": (2, 1)}, "bounds_X: lower must be below upper"),
        ({"bounds_X": ([0, 0, 5], [1, 1, 1])}, "bounds_X: lower must be below upper.*column 2"),
        ({"bounds_X": (0, INF)}, "bounds_X: upper must be finite.*got .*inf"),
        ({"bounds_X": (NAN, 1)}, "bounds_X: lower must be finite.*got .*nan"),
        ({"bounds_X": ([0, 0], [1, 1])}, r"bounds_X: lower must be a number or 3 numbers, got shape \(2,\)"),
        ({"bounds_X": ([[0]], 1)}, "bounds_X: lower must be a number or 3 numbers"),
        ({"bounds_X": (0, 1, 2)}, "bounds_X must be a pair"),
        ({"bounds_X": "01"}, "bounds_X must be a pair"),
        ({"bounds_X": 5}, "bounds_X must be a pair"),
        ({"bounds_X": ("a", "b")}, "bounds_X: lower must be a number"),
        ({"bounds_X": (None, 1)}, "bounds_X: lower must be"),
        ({"bounds_X": (1j, 1)}, "bounds_X: lower must be a number"),
        ({"bounds_X": (0, 1e200)}, "bounds_X: upper must be finite and at most"),
        ({"bounds_y": None}, "bounds_y must be given"),
        ({"bounds_y": (1, 0)}, "bounds_y: lower must be below upper"),
        ({"bounds_y": (0, 5e-324)}, "bounds_y: lower must be below upper"),
        ({"bounds_y": ([0, 0], [1, 1])}, "bounds_y: lower must be a number"),
        ({"bounds_y": (0, NAN)}, "bounds_y: upper must be finite"),
        ({"groups": "ab"}, "groups must be a list of lists"),
        ({"groups": 3}, "groups must be a list of lists"),
        ({"groups": [0, 1]}, "groups: group 0 must be a non-empty list"),
        ({"groups": [[]]}, "groups: group 0 must be a non-empty list"),
        ({"groups": [[0, 3]]}, "groups: columns must lie in 0 … 2, got 3"),
        ({"groups": [[-1]]}, "groups: columns must lie in 0 … 2, got -1"),
        ({"groups": [[0, 1], [1]]}, "groups must not repeat a column, got column 1 twice"),
        ({"groups": [[0.5]]}, "groups: a column of group 0 must be an index, got float"),
        ({"groups": [[True]]}, "groups: a column of group 0 must be an index, got bool"),
        ({"groups": [["a"]]}, "groups: a column of group 0 must be an index, got str"),
    ],
)
def test_malformed_bounds_and_groups(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(BoundsError, match=f"^{named}") as caught:
        declare(3, **{"bounds_X": (0, 1), "bounds_y": (0, 1), **arguments})
    assert str(caught.value).rstrip(".").count(". ") >= 1 or "twice" in named  # a second sentence: what to do


@pytest.mark.parametrize("bad", [0, -1.0, NAN, INF, "1", True, 1e200, 1e-200, np.array([1.0, 2.0])])
def test_malformed_norms(bad: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^data_norm must .* got .*\. \w"):
        declare(3, data_norm=bad, bounds_y=(0, 1))


def test_groups_need_bounds() -> None:
    with pytest.raises(BoundsError, match="groups need bounds_X, got data_norm"):
        declare(3, data_norm=1.0, groups=[[0]], bounds_y=(0, 1))
