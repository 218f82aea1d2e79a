"""Any table and any declaration through `fastdp ingest`, and any job file: a result, or words of the package's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_cases import CANARY, CANARY_TEXT, examples, listening, odd, scratch
from hypothesis import given
from hypothesis import strategies as st

from fastdp_dask.commands.app import main
from fastdp_dask.data import open_store
from fastdp_dask.jobs.reading import parse_job
from fastdp_dask.jobs.render import rendered

NAMES = ["a", "b", "c", "", "a", "δ", "a=1", '"']
CELLS = ["1", "0.5", "-1e3", "", "nan", "inf", "1e999", "x", "é", '"', '"1"', "1;2", "2024-01-01", "\x00", " 1 ",
         repr(CANARY), CANARY_TEXT]  # fmt: skip


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    """A header and rows; now and then ragged, empty, or no text at all."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=40))
    width = draw(st.integers(1, 4))
    header = draw(st.permutations(NAMES))[:width] if draw(st.booleans()) else ["a", "b", "c", "d"][:width]
    rows = draw(st.lists(st.lists(st.sampled_from(CELLS), min_size=width, max_size=width), max_size=6))
    if rows and draw(st.integers(0, 5)) == 0:
        rows[-1] = [*rows[-1], CANARY_TEXT]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(",".join(row) for row in [header, *rows]).encode()


def feature() -> st.SearchStrategy[Any]:
    """What a bounds file may say of one feature."""
    sound = st.sampled_from([{"lower": 0, "upper": 2}, {"lower": -1.5, "upper": 1e3}, {"categories": ["1", "x"]}])
    return (
        sound
        | sound
        | st.dictionaries(st.sampled_from(["lower", "upper", "categories", "missing"]), odd_json())
        | odd_json()
    )


def odd_json() -> st.SearchStrategy[Any]:
    return odd().filter(lambda value: not isinstance(value, bytes | type))


@examples(300)
@given(
    csv_files(),
    st.dictionaries(st.sampled_from(["a", "b", "c", "δ"]), feature(), min_size=1, max_size=3),
    st.fixed_dictionaries({"name": st.just("b"), "lower": st.just(0), "upper": st.just(1)}) | feature(),
    st.sampled_from(["b", "b", "b", "z", ""]),
    st.sampled_from(["4", "4", "1", "3", "0", "1048576"]),
)
def test_any_table(table: bytes, features: Any, declared: Any, wanted: str, chunk_rows: str) -> None:
    with scratch() as folder:
        source, bounds, dest = (Path(folder) / name for name in ("t.csv", "bounds.json", "store"))
        source.write_bytes(table)
        bounds.write_text(json.dumps({"target": declared, "features": features}))
        with listening() as told:
            code = main(
                [
                    "ingest",
                    str(source),
                    str(dest),
                    "--target",
                    wanted,
                    "--bounds",
                    str(bounds),
                    f"--chunk-rows={chunk_rows}",
                ]
            )
        assert told.error is None  # a command turns every error into a code and a line
        assert code in (0, 1), told.text
        assert "unexpected" not in told.text, told.text
        if code == 0:
            store = open_store(dest)
            X, y = np.asarray(store.X), np.asarray(store.y)
            assert X.shape == (len(y), store.declaration.n_features)
        else:
            assert not dest.exists()
            assert told.text.count("fastdp: error: ") == 1


FIELDS = ["data", "epsilon", "delta", "run_dir", "ledger", "solver", "preset", "slurm", "pbs", "kubernetes", "workers",
          "driver", "tls", "insecure", "seeds", "n_iter", "unknown"]  # fmt: skip
SECTION = st.dictionaries(
    st.sampled_from(["count", "memory", "cores", "walltime", "queue", "account", "image", "claim", "image_name"]), odd()
)


@examples(400)
@given(
    st.dictionaries(st.sampled_from(FIELDS), odd() | SECTION, max_size=4),
    st.sampled_from(["slurm", "pbs", "kubernetes"]),
)
def test_any_job_file(changes: dict[str, Any], kind: str) -> None:
    sound = {
        "data": "/data/s.zarr", "epsilon": 1.0, "delta": 1e-10, "run_dir": "/checkpoint/run", "insecure": True,
        "slurm": {}, "pbs": {}, "kubernetes": {"image": "registry.example/fastdp:1", "claim": "fastdp"},
    }  # fmt: skip
    with listening() as told:
        job = parse_job({**sound, **changes}, "JOB.toml")
        if getattr(job, kind) is not None:
            assert rendered(job, kind, "/opt/python").strip()
    if told.error is not None:
        assert "JOB.toml" in str(told.error) or ": expected" in str(told.error)
