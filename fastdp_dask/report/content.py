"""What a report says, as plain data: see `schema.json` beside this file."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from fastdp_dask.errors import StoreError
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.report import person
from fastdp_dask.run_folder import RunFolder
from fastdp_dask.solvers.common import root
from fastdp_dask.uncertainty.intervals import Intervals
from fastdp_dask.uncertainty.summary import notes_of, rows_of

SCHEMA = "fastdp-report/2"
LEVEL = 0.95

NEIGHBOURS = (
    "Two data sets of the same number of records are neighbours if one of them has one record blanked: that record "
    "then contributes nothing to any sum. Exchanging one record for another is two such steps."
)
THREATS = (
    "Protected: every single record, against anyone who sees the coefficients and all else in this report, whatever "
    "else they know, with any computing power, now and later.",
    "Trusted: the curator. Workers, their memory and their files hold raw records, and the run folder holds releases "
    "that are not in this report.",
    "Not protected: what is public (number of records, names of columns, declared bounds and categories), and what is "
    "true of people in general: a model that says that hours raise pay says so about everyone.",
    "A person with several records is protected as that many records: the losses add up.",
    "Another release from the same records adds its own loss. A ledger keeps the total within a budget.",
)


def gather(run_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """The report of a finished run, ready for JSON.

    Raises
    ------
    StoreError
        If the folder holds no finished fit, or a damaged file.
    """
    folder = RunFolder(run_dir) if os.path.isdir(run_dir) else None
    plan, model = (None, None) if folder is None else (folder.plan(), folder.model())
    if folder is None or plan is None or model is None:
        raise StoreError(
            f"run_dir must be the run folder of a finished fit, got {run_dir} without one. Finish the fit first: the "
            "same command continues it."
        )
    forecasts = plan.get("forecasts") or []
    spent = model["privacy_spent"]
    return {
        "schema": SCHEMA,
        "guarantee": {
            "epsilon": plan["epsilon"],
            "delta": plan["delta"],
            "epsilon_spent": spent["epsilon"],
            "delta_spent": spent["delta"],
            "seeded": bool(plan["reproducible"]),
            "neighbouring_relation": NEIGHBOURS,
            "threat_model": list(THREATS),
        },
        "data": _data(plan, model),
        "plan": {
            **{name: plan[name] for name in ("solver", "preset", "n_iter", "k1", "k2", "n_passes", "gamma")},
            "noise_multiplier": plan["noise_multiplier"],
            "reasons": [*plan["reasons"], *plan.get("why", ())],
        },
        "budget": plan["budget"],
        "coefficients": _coefficients(model, plan["scaling"]["fit_intercept"]),
        "intervals": _interval_notes(model),
        "signal": _signal(plan, folder.released()),
        "one_person": person.of_plan(plan),
        "predicted": _predicted(forecasts[0]) if forecasts else None,
        "run": {"run_id": plan["run_id"], "public_seed": str(plan["public_seed"])},
        "versions": model.get("versions", {}),
    }


def _names(model: dict[str, Any]) -> list[str]:
    given = model["feature_names"]
    width = len(model["coef"][0]) if _several(model) else len(model["coef"])
    return [f"x{j}" for j in range(width)] if given is None else [str(name) for name in given]


def _several(model: dict[str, Any]) -> bool:
    return bool(model["coef"]) and isinstance(model["coef"][0], list)


def _data(plan: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    scaling = plan["scaling"]
    columns = [
        {"name": name, "lower": lower, "upper": upper, "group": None if group < 0 else group}
        for name, lower, upper, group in zip(
            _names(model), scaling["lower"], scaling["upper"], scaling["group"], strict=True
        )
    ]
    return {
        "n_samples": plan["n_samples"],
        "n_features": scaling["n_features"],
        "fit_intercept": scaling["fit_intercept"],
        "data_norm": scaling["data_norm"],
        "bounds_y": scaling["bounds_y"],
        "columns": columns,
    }


def _coefficients(model: dict[str, Any], intercept: bool) -> list[dict[str, Any]]:
    if _several(model):
        parts = []
        for number, (coef, constant) in enumerate(zip(model["coef"], model["intercept"], strict=True)):
            one = {**model, "coef": coef, "intercept": constant, "intervals": None}
            parts += [{**row, "name": f"target {number}: {row['name']}"} for row in _coefficients(one, intercept)]
        return parts
    kept = model.get("intervals")
    found = None if kept is None else Intervals.from_dict(kept)
    names, coef = _names(model), list(model["coef"])
    grouped = list(found.grouped) if found else [False] * len(names)
    if intercept:
        names, coef, grouped = [*names, "(intercept)"], [*coef, model["intercept"]], [*grouped, False]
    rows = rows_of(names, found, coef, LEVEL)
    return [
        {
            "name": row.name, "coef": row.coef, "estimate": row.estimate,
            "stderr": row.stderr, "lower": row.lower, "upper": row.upper, "privacy_share": row.privacy_share,
            "grouped": grouped[k],
        }
        for k, row in enumerate(rows)
    ]  # fmt: skip


def _interval_notes(model: dict[str, Any]) -> dict[str, Any]:
    kept = model.get("intervals")
    found = None if kept is None else Intervals.from_dict(kept)
    reason = model.get("no_intervals", "this model was kept without them")
    return {"level": LEVEL, "target": found.target if found else None, "notes": list(notes_of(found, reason))}


def _signal(plan: dict[str, Any], releases: ReleaseLog) -> list[dict[str, Any]]:
    """Root mean square of the entries of each released vector, beside the noise on each entry; scaled units."""
    found, spread = [], root(plan["n_targets"])  # the sensitivity of several targets at once
    for name in releases.names:
        if name.startswith("gradient_"):
            noise = plan["noise_multiplier"] * plan["clip"] * spread
        elif name == "moment" and plan.get("moment_noise"):
            noise = plan["moment_noise"] * spread
        else:
            continue
        value = releases.stored(name)
        found.append({"release": name, "rms": math.sqrt(float(np.mean(value**2))), "noise": noise})
    return found


def _predicted(forecast: dict[str, Any]) -> dict[str, Any]:
    return {
        "seconds": float(f"{forecast['seconds']:.1g}"),
        **{name: forecast[name] for name in ("worker_bytes", "driver_bytes", "task_bytes", "bytes_read")},
    }
