"""From Parquet files to a model and to predictions, without a store in between.

    python examples/parquet_to_model.py            # 2,000,000 records in 8 files
    python examples/parquet_to_model.py --quick    # 40,000 in 2

The same on the command line:

    fastdp fit PAYROLL --bounds bounds.toml --target pay --epsilon 1 --delta 1e-10 --out run1
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastdp_dask import LinearRegression
from fastdp_dask.data import open_table

BOUNDS = """
[target]
name = "pay"
lower = 0
upper = 60

[features.age]
lower = 18
upper = 80
missing = 45                      # stands in for a missing age; without this line the record would count as blank

[features.region]
categories = ["north", "south", "east", "west"]

[features.hired]
date = ["days"]                   # since 1970-01-01
date_categories = ["weekday"]
lower = 2000-01-01
upper = 2026-01-01
"""


def write(folder: Path, files: int, rows: int) -> None:
    """Payrolls with a category, a date and missing ages."""
    generator = np.random.default_rng(1)
    for k in range(files):
        age = generator.uniform(18, 80, rows)
        day = generator.integers(0, 9000, rows)
        columns = {
            "age": pa.array(age, mask=generator.random(rows) < 0.05),
            "region": np.array(["north", "south", "east", "west"], dtype=object)[generator.integers(0, 4, rows)],
            "hired": np.datetime64("2000-01-01") + day,
            "pay": 12 + 0.25 * age - day / 1000 + generator.normal(0, 2, rows),
        }
        pq.write_table(pa.table(columns), folder / f"part-{k}.parquet", row_group_size=50_000)


def main(files: int, rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "payroll").mkdir()
        write(folder / "payroll", files, rows)
        (folder / "bounds.toml").write_text(BOUNDS)
        data = open_table(folder / "payroll", bounds=folder / "bounds.toml", target="pay")
        model = LinearRegression(epsilon=1.0, delta=1e-10, **data.declaration.estimator_arguments())
        model.fit(data.X, data.y, feature_names=data.declaration.feature_names, source=data.source)
        for column, coefficient in zip(model.feature_names_in_, model.coef_, strict=True):
            print(f"{column:18} {coefficient:10.5f}")
        predicted = model.predict(data.X)  # lazy, in chunks of the files' row groups
        first = predicted[0].compute()
        print(f"{predicted.shape[0]:,} predictions in {predicted.numblocks[0]} chunks; the first {first:.2f}")


if __name__ == "__main__":
    main(*((2, 20_000) if "--quick" in sys.argv else (8, 250_000)))
