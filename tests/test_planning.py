"""`plan` is the plan of `fit`, from public facts; with the rows of a chunk it tells what a pass moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import fit, model, small_data

from fastdp_dask import plan
from fastdp_dask.errors import ArgumentError


@pytest.mark.parametrize("options", [{}, {"solver": "fastihm"}, {"solver": "fastihm", "preset": "paper"}])
def test_the_plan_is_that_of_the_fit(options: dict[str, str]) -> None:
    X, y = small_data(1000, 4)
    settings = {"solver": "auto", "preset": "tight", **options}
    fitted = fit(model(epsilon=1.0, delta=1e-8, **settings), X, y)
    made = plan(1000, 4, epsilon=1.0, delta=1e-8, dtype=X.dtype, chunk_rows=(1000,), compare=False, **settings)
    assert replace(made, reasons=made.reasons[:-1]) == fitted.plan_
    assert made.forecasts == fitted.plan_.forecasts
    assert made.why == fitted.plan_.why


def test_chunks_change_the_words_only() -> None:
    made = plan(1_000_000, 40, epsilon=1, delta=1e-12, solver="fastihm", k2=65536, compare=False)
    told = plan(1_000_000, 40, epsilon=1, delta=1e-12, solver="fastihm", k2=65536, chunk_rows=65536, compare=False)
    assert told.reasons[:-1] == made.reasons
    assert told.reasons[-1].startswith("16 chunks of at most 65,536 rows: a task of the first pass hands on 20.5 MiB")
    assert told.describe().splitlines()[: len(made.budget) + 3] == made.describe().splitlines()[: len(made.budget) + 3]
    assert (told.gamma, told.events) == (made.gamma, made.events)
    with pytest.raises(ArgumentError, match="chunk_rows must be a whole number >= 1"):
        plan(1000, 4, epsilon=1, delta=1e-8, chunk_rows=0)
