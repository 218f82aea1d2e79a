"""What each part of the tight preset is worth: every item switched off in turn, on synthetic data or a CSV file.

    python examples/ablation.py                     # n = 131,072, d = 32; some minutes
    python examples/ablation.py --quick             # seconds
    python examples/ablation.py --csv houses.csv    # target: last numeric column

Excess empirical risk = mean squared error minus that of least squares on the same rows, of scaled numbers (rows of
norm ≤ 1, targets in [−1, 1]); median over seeded runs.  delta = 1/n².  The bounds of a CSV file are its own minima and
maxima, taken as if they were public: a convenience of this comparison, not of a real release.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import dask.array as da
import numpy as np
import scipy

from fastdp_dask import PrivacyLeakWarning, rng
from fastdp_dask.blocked.passes import BlockedRows
from fastdp_dask.errors import CalibrationError
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rows.grid import GRID
from fastdp_dask.rows.scaling import Scaling, declare
from fastdp_dask.solvers import dispatch, fast_ihm_paper, pooled_plan
from fastdp_dask.solvers.base import Plan
from fastdp_dask.solvers.pooled_plan import Switches

EPSILONS = (0.3, 1.0, 3.0, 10.0)
_ROWS_IN_A_CHUNK = 32768
_ALL_ON = Switches()


@dataclass(frozen=True)
class DataSet:
    """Raw data with its declaration, and the least-squares solution of the scaled problem."""

    name: str
    X: np.ndarray
    y: np.ndarray
    scaling: Scaling
    gram: np.ndarray
    moment: np.ndarray
    best: np.ndarray

    @property
    def n(self) -> int:
        """Rows."""
        return self.X.shape[0]

    def rows(self) -> BlockedRows:
        """The data as the solvers see it."""
        chunks = (min(self.n, _ROWS_IN_A_CHUNK), self.X.shape[1])
        return BlockedRows(da.from_array(self.X, chunks=chunks), da.from_array(self.y, chunks=chunks[0]), self.scaling)

    def excess(self, theta: np.ndarray) -> float:
        """Mean squared error of θ beyond that of least squares: (θ − θ*)ᵀ XᵀX (θ − θ*) / n."""
        away = theta - self.best
        return float(away @ self.gram @ away) / self.n


def data_set(name: str, X: np.ndarray, y: np.ndarray, scaling: Scaling) -> DataSet:
    """Scale once to know the least-squares solution on the same grid."""
    grid, target = scaling.rows(np.ascontiguousarray(X), np.ascontiguousarray(y))
    scaled = grid / GRID
    gram, moment = scaled.T @ scaled, scaled.T @ target
    return DataSet(name, X, y, scaling, gram, moment, np.linalg.lstsq(scaled, target, rcond=None)[0])


def sphere(n: int, d: int, seed: int = 0) -> DataSet:
    """Rows uniform on the unit sphere; y = Xθ + N(0, 0.1), θ ~ N(0, I/d); variances."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, d))
    return _linear("sphere", X / np.linalg.norm(X, axis=1, keepdims=True), generator)


def correlated(n: int, d: int, seed: int = 0) -> DataSet:
    """Rows N(0, 2 · 0.99^|i−j|); the rest as in `sphere`."""
    generator = np.random.default_rng(seed)
    covariance = 2 * 0.99 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return _linear("correlated", generator.standard_normal((n, d)) @ np.linalg.cholesky(covariance).T, generator)


def _linear(name: str, X: np.ndarray, generator: np.random.Generator) -> DataSet:
    n, d = X.shape
    y = X @ (generator.standard_normal(d) / np.sqrt(d)) + generator.normal(0, np.sqrt(0.1), n)
    X = X / np.linalg.norm(X, axis=1).max()
    return data_set(name, X, y / np.abs(y).max(), declare(d, data_norm=1.0, bounds_y=(-1, 1), fit_intercept=False))


def from_csv(path: Path) -> DataSet:
    """The numeric columns of a CSV file, the last of them the target; rows with a missing value are left out."""
    with path.open(newline="") as stream:
        header, *lines = list(csv.reader(stream))
    numeric = [i for i in range(len(header)) if all(_is_number(line[i]) or line[i] == "" for line in lines)]
    values = np.array([[float(line[i]) if line[i] else np.nan for i in numeric] for line in lines])
    values = values[np.isfinite(values).all(axis=1)]
    X, y = np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1])
    bounds = (X.min(axis=0), X.max(axis=0))
    return data_set(path.stem, X, y, declare(X.shape[1], bounds_X=bounds, bounds_y=(float(y.min()), float(y.max()))))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_NOTE = (
    "Steps by direction need one Hessian and no pull, so they are off as well where the sketch is not shared, the draw "
    "is not pooled or the pull is kept."
)

MakePlan = Callable[[int, int, float, float], Plan]


def variants() -> dict[str, MakePlan]:
    """Name → plan for (n, d, epsilon, delta): everything on, each switch off, each route, Gram, the paper."""

    def tight(solver: str = "fastihm", coherence: str = "auto", switches: Switches = _ALL_ON) -> MakePlan:
        return lambda n, d, epsilon, delta: pooled_plan.make_plan(
            n, d, solver=solver, epsilon=epsilon, delta=delta, coherence=coherence, switches=switches
        )

    found = {"fastihm, everything on": tight()}
    for field in fields(Switches):
        found[f"fastihm, {field.name} off"] = tight(switches=replace(_ALL_ON, **{field.name: False}))
    for route in ("public", "free", "leverage", "private"):
        found[f"fastihm, coherence={route}"] = tight(coherence=route)
    found["ihm (Gram, no SRHT), everything on"] = tight("ihm")
    found["ihm, adaptive_steps off"] = tight("ihm", switches=Switches(adaptive_steps=False))
    found["fastihm, paper preset"] = lambda n, d, epsilon, delta: fast_ihm_paper.make_plan(
        n, d, epsilon=epsilon, delta=delta
    )
    return found


def run(data: DataSet, plan: Plan, seed: int) -> float:
    """Excess risk of one seeded fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        noise = rng.NoiseSource(seed)
    found = dispatch.solve(data.rows(), plan, public_seed=seed, noise=noise, releases=ReleaseLog())
    return data.excess(found.theta)


def measure(data: DataSet, make: MakePlan, epsilon: float, runs: int) -> float | None:
    """Median excess risk of `runs` fits; None where the plan does not exist at these sizes."""
    try:
        plan = make(data.n, data.gram.shape[0], epsilon, 1.0 / data.n**2)
    except CalibrationError:
        return None
    return float(np.median([run(data, plan, seed) for seed in range(runs)]))


Table = dict[tuple[str, str, float], float | None]


def measure_all(sets: Sequence[DataSet], epsilons: Sequence[float], runs: int) -> Table:
    """Excess risk by (set, variant, epsilon), with a line on stderr for each variant."""
    table: Table = {}
    for data in sets:
        for name, make in variants().items():
            for epsilon in epsilons:
                table[data.name, name, epsilon] = measure(data, make, epsilon, runs)
            print(data.name, name, *(_cell(table[data.name, name, e]) for e in epsilons), file=sys.stderr, flush=True)
    return table


def _cell(value: float | None) -> str:
    return "not available" if value is None else f"{value:.1e}"


def write(table: Table, facts: dict[str, object], out: Path) -> None:
    """`ablation.csv`, `ablation.md` and `ablation.png` into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "ablation.csv").open("w", newline="") as stream:
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(("set", "variant", "epsilon", "median_excess_risk"))
        lines.writerows((*key, "" if value is None else f"{value:.6e}") for key, value in table.items())
    names = list(dict.fromkeys(name for name, _, _ in table))
    epsilons = list(dict.fromkeys(epsilon for _, _, epsilon in table))
    text = [
        "# Ablation of the tight preset",
        "",
        "Median excess empirical risk, scaled numbers; less is better.",
        _NOTE,
        "",
    ]
    for name in names:
        text += [f"## {name}", "", "| variant | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " |"]
        text += ["|---|" + "---|" * len(epsilons)]
        for variant in dict.fromkeys(variant for _, variant, _ in table):
            text.append(f"| {variant} | " + " | ".join(_cell(table[name, variant, e]) for e in epsilons) + " |")
        text.append("")
    text += ["Measured with: " + json.dumps(facts), ""]
    (out / "ablation.md").write_text("\n".join(text))
    _draw(table, names, epsilons, out / "ablation.png")


def _draw(table: Table, names: list[str], epsilons: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = list(dict.fromkeys(variant for _, variant, _ in table))
    height = 0.26 * len(labels) + 1.6
    figure, axes = pyplot.subplots(1, len(names), figsize=(6.2 * len(names) + 1.5, height), sharey=True, squeeze=False)
    colours = pyplot.get_cmap("viridis")(np.linspace(0.0, 0.85, len(epsilons)))
    for axis, name in zip(axes[0], names, strict=True):
        for colour, epsilon in zip(colours, epsilons, strict=True):
            risks = [table[name, label, epsilon] for label in labels]
            at = [(risk, i) for i, risk in enumerate(risks) if risk is not None]
            axis.plot([risk for risk, _ in at], [i for _, i in at], "o", color=colour, label=f"ε = {epsilon:g}")
            axis.axvline(risks[0], color=colour, linewidth=0.8, alpha=0.5)  # everything on
        axis.set(xscale="log", title=name, xlabel="median excess empirical risk")
        axis.grid(axis="y", alpha=0.3)
    axes[0][0].set_yticks(range(len(labels)), labels)
    axes[0][0].invert_yaxis()
    handles, texts = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="lower left", fontsize="small")  # beside the points, not over them
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="n = 1,024, d = 4, 2 epsilons, 1 run")
    parser.add_argument("--csv", type=Path, action="append", default=[], help="a CSV file; may be repeated")
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    n, d, epsilons, runs = (1024, 4, (1.0, 10.0), 1) if options.quick else (131072, 32, EPSILONS, options.runs)
    sets = [from_csv(path) for path in options.csv] or [sphere(n, d), correlated(n, d)]
    start = time.perf_counter()
    table = measure_all(sets, epsilons, runs)
    facts = {
        "sizes": {data.name: [data.n, int(data.gram.shape[0])] for data in sets},
        "delta": "1/n^2",
        "runs": runs,
        "seeds": f"0 to {runs - 1} for noise and sketch; data sets from seed 0",
        "seconds": round(time.perf_counter() - start),
        "machine": f"{platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
    write(table, facts, options.out)


if __name__ == "__main__":
    main()
