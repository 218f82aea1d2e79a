"""Any data and any arguments: a fit succeeds or says why in the package's own words, and money follows releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from fuzz_cases import CANARY, CANARY_TEXT, examples, listening, odd, scratch
from hypothesis import given
from hypothesis import strategies as st
from strategies import numbers

from fastdp_dask import Ledger, LinearRegression

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "epsilon": st.sampled_from([1.0, 5, 100.0]) | odd(),
    "delta": st.sampled_from([1e-5, 1e-9]) | odd(),
    "bounds_X": st.sampled_from([(-1, 1), ([-1, 0], [1, 1])]) | odd(),
    "data_norm": st.sampled_from([1.0, 3]) | odd(),
    "bounds_y": st.sampled_from([(-1, 1), (0, 1e9)]) | odd(),
    "groups": st.sampled_from([[[0, 1]], [[0], [1]], [[0, 0]], [[5]]]) | odd(),
    "fit_intercept": st.booleans() | odd(),
    "solver": st.sampled_from(["ihm", "fastihm", "adassp", "linear_mixing", "fast_linear_mixing"]) | odd(),
    "preset": st.sampled_from(["tight", "paper"]) | odd(),
    "n_iter": st.sampled_from([1, 3]) | odd(),
    "k1": st.sampled_from([8, 64]) | odd(),
    "k2": st.sampled_from([1, 2, 4, 8, 16]) | odd(),
    "coherence": st.sampled_from(["public", "leverage", "free", "private"]) | odd(),
    "public_seed": st.sampled_from([3]) | odd(),
    "random_state": st.sampled_from([5]) | odd(),
}
SOUND: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-6, "bounds_X": (-1, 1), "bounds_y": (-1, 1)}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Sound arguments but for a few; often all of them sound, so that fits happen."""
    changed = draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=2, unique=True))
    solver = {} if "solver" in changed else {"solver": draw(st.sampled_from(["ihm", "fastihm", "adassp"]))}
    options = {**SOUND, **solver, **{name: draw(OPTIONS[name]) for name in changed}}
    if "data_norm" in changed and "bounds_X" not in changed:
        options["bounds_X"] = None
    return options


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, Any]:
    """X and y of any kind, with the canary in a cell of each where there is one."""
    n, d = draw(st.sampled_from([0, 1, 2, 3, 9, 17])), draw(st.sampled_from([0, 1, 2, 5]))
    cells = draw(st.lists(numbers(), min_size=4, max_size=12))
    X = np.resize(np.array([*cells, CANARY]), (n, d))
    y = np.resize(np.array([CANARY, *cells]), draw(st.sampled_from([n, n, n, n, n + 1])))
    dtype = draw(st.sampled_from(["f8", "f8", "f4", "f2", "i4", "u1", "?", "O", "U20", "c16"]))
    with np.errstate(all="ignore"):
        if dtype in ("i4", "u1"):
            X = np.nan_to_num(X, nan=0, posinf=3, neginf=-3).clip(0, 200)
        X = X.astype(dtype)
    if dtype == "O" and X.size:
        X[0, 0] = CANARY_TEXT
    kind = draw(st.sampled_from(["numpy", "numpy", "dask", "dask", "pandas", "lazy frame", "list"]))
    if kind == "dask" and n and d:
        return da.from_array(X, chunks=(draw(st.integers(1, n)), draw(st.integers(1, d)))), da.from_array(y)
    if kind == "pandas":
        return pd.DataFrame(X, columns=[f"c{j}" for j in range(d)]), pd.Series(y)
    if kind == "lazy frame" and n and d and dtype != "c16":
        return dd.from_pandas(pd.DataFrame(X, columns=[f"c{j}" for j in range(d)]), npartitions=2), pd.Series(y)
    return (X.tolist(), y.tolist()) if kind == "list" else (X, y)


@examples(800)
@given(requests(), tables())
def test_any_fit(options: dict[str, Any], table: tuple[Any, Any]) -> None:
    with scratch() as folder, dask.config.set(scheduler="synchronous"):
        run, ledger = Path(folder) / "run", Ledger.create(Path(folder) / "budget", epsilon=1e4, delta=0.9)
        with listening() as told:
            model = LinearRegression(**options, ledger=ledger, run_dir=run).fit(*table)
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.intercept_)
            assert CANARY not in model.coef_
        charges = ledger.charges()
        if told.error is not None:
            assert not charges  # all that can be wrong with a request is wrong before it is paid
            assert not (run / "releases.jsonl").exists()
            return
        assert len(charges) == 1
        lines = [json.loads(line) for line in (run / "releases.jsonl").read_text().splitlines()]
        assert {name["name"] for line in lines for name in line["releases"]} >= set(model.release_) - {"ridge"}
        assert ledger.verify() == 1
        # Ten digits: of a million digits of noise, seven would be found by chance in one run of ten.
        assert str(CANARY)[2:12] not in (run / "plan.json").read_text() + (run / "model.json").read_text()
