"""What "auto" stands for: a function of public facts and constants, and the one on file once a run has begun."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import fit, model, small_data

from fastdp_dask.costs import choice, layout
from fastdp_dask.costs.machine import DEFAULT, Machine
from fastdp_dask.costs.passes import Outline, cost
from fastdp_dask.errors import ArgumentError
from fastdp_dask.solvers import dispatch
from fastdp_dask.solvers.base import Plan

# Products a thousand times slower than here: any sketch is cheaper than XᵀX.
SLOW_PRODUCTS = replace(DEFAULT, gram=1e-8, convert=1e-6, measured=True)


def lies(n: int, d: int, **options: Any) -> layout.Layout:
    return layout.layout(n, d, **{"workers": 1, "threads": 2, "memory_limit": 0, **options})


def auto(n: int, d: int, machine: Machine = DEFAULT, epsilon: float = 1.0, **options: Any) -> Plan:
    request = dispatch.check_request(epsilon=epsilon, delta=1.0 / n**2, **options)
    return choice.make_plan(request, n, d, lies(n, d), machine)


@pytest.mark.parametrize("n", [1 << 14, 200_000, 1 << 22])
def test_sixteen_columns_take_the_gram_route(n: int) -> None:
    made = auto(n, 16)
    assert made.solver == "ihm"
    assert len(made.why) == 2


def test_the_fastest_within_a_fifth_of_the_least_risk() -> None:
    """At a budget so small that nothing can be learnt, one pass is as good as six."""
    made = auto(20_000, 30, epsilon=1e-3)
    assert made.n_passes == 1
    for other in made.forecasts[1:]:
        assert other.seconds >= made.forecasts[0].seconds or other.risk > choice.NEAR * made.forecasts[0].risk
    least = min(forecast.risk for forecast in made.forecasts)
    assert made.forecasts[0].risk <= choice.NEAR * least


def test_a_sketch_is_taken_where_it_is_cheaper_and_its_noise_is_as_small() -> None:
    """At a budget so small that nothing can be learnt no solver is better; only the price tells them apart."""
    n, d, epsilon = 1 << 13, 40, 1e-3
    assert auto(n, d, epsilon=epsilon).k2 == 0
    slow = auto(n, d, SLOW_PRODUCTS, epsilon=epsilon)
    assert slow.k2 > 0
    request = dispatch.check_request(epsilon=epsilon, delta=1 / n**2, solver=slow.solver, k2=slow.k2)
    again = dispatch.make_plan(request, n, d)
    assert slow == again  # the plan of the solver that was picked, and nothing else


@pytest.mark.parametrize(
    ("options", "solver"),
    [({"preset": "paper"}, "fastihm"), ({"k2": 512}, "fastihm"), ({"coherence": "public"}, "fastihm"),
     ({"n_iter": 4}, "ihm"), ({"k1": 100}, "ihm")],
)  # fmt: skip
def test_an_option_narrows_the_choice_to_solvers_that_have_it(options: dict[str, Any], solver: str) -> None:
    assert auto(5000, 6, **options).solver == solver


def test_bad_sizes_are_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="k1 must"):
        auto(5000, 6, k1=2)


def test_what_does_not_fit_is_not_taken() -> None:
    """A sketch of many rows, cheap but large, and a worker that cannot hold its partial results."""
    request = dispatch.check_request(epsilon=1e-3, delta=1e-9)
    n, d = 1 << 13, 40
    free = choice.make_plan(request, n, d, lies(n, d, chunks=1024), SLOW_PRODUCTS)
    assert free.k2 > 0
    worst = free.forecasts[0].worker_bytes
    tight = choice.make_plan(request, n, d, lies(n, d, chunks=1024, memory_limit=worst - 1), SLOW_PRODUCTS)
    assert tight.forecasts[0].fits
    assert tight.forecasts[0].worker_bytes < worst


def test_a_begun_run_keeps_its_solver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other constants would choose another solver: the plan on file stands."""
    X, y = small_data(4096, 20)
    options = {"solver": "auto", "preset": "tight", "epsilon": 1e-3, "random_state": 3, "public_seed": 4}
    first = fit(model(**options, run_dir=tmp_path / "run"), X, y)
    monkeypatch.setattr("fastdp_dask.costs.cache.load", lambda: SLOW_PRODUCTS)
    other = fit(model(**options), X, y)
    assert other.plan_.solver != first.plan_.solver
    (tmp_path / "run" / "model.json").unlink()
    again = fit(model(**options, run_dir=tmp_path / "run"), X, y)
    assert again.plan_ == first.plan_
    assert (again.coef_ == first.coef_).all()
    stored = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert stored["forecasts"][0]["solver"] == stored["solver"] == first.plan_.solver


def test_no_measuring_in_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured() -> Machine:
        raise AssertionError("measured")

    monkeypatch.setattr("fastdp_dask.costs.measure.measure", measured)
    X, y = small_data(500, 3)
    found = fit(model(solver="auto", preset="tight"), X, y)
    assert "shipped with the package" in found.plan_.why[0]


def test_costs_grow_with_what_is_done() -> None:
    base = cost(Outline(64, 1, 4096, 5), lies(1 << 17, 64), DEFAULT)
    for more in (
        cost(Outline(64, 1, 8192, 5), lies(1 << 17, 64), DEFAULT),
        cost(Outline(64, 1, 4096, 6), lies(1 << 17, 64), DEFAULT),
        cost(Outline(64, 1, 4096, 5, deviation=True), lies(1 << 17, 64), DEFAULT),
        cost(Outline(64, 1, 4096, 5), lies(1 << 18, 64), DEFAULT),
        cost(Outline(64, 1, 4096, 5), lies(1 << 17, 64, threads=1), DEFAULT),
        cost(Outline(64, 1, 4096, 5), lies(1 << 17, 64), replace(DEFAULT, read=2 * DEFAULT.read)),
    ):
        assert more.seconds > base.seconds
    assert base.bytes_read == 6 * (1 << 17) * (64 * 4 + 8)
    # Two chunks of 2^16 rows: (k2 + 2) rows of int32 each, and five gradients of int64.
    assert base.bytes_moved == 2 * (4098 * 64 * 4 + 5 * 64 * 8)


def test_one_chunk_has_one_thread() -> None:
    alone = cost(Outline(64, 1, 0, 0), lies(1 << 20, 64, chunks=1 << 20, threads=8), DEFAULT)
    shared = cost(Outline(64, 1, 0, 0), lies(1 << 20, 64, chunks=1 << 16, threads=8), DEFAULT)
    assert 6 * shared.seconds < alone.seconds < 8 * shared.seconds
