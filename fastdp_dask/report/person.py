"""How often a guess whether one person's record is in a release can be right.

A guesser who sees a draw from P or from Q, each with probability 1/2, is right with probability at most
1/2 + TV(P, Q)/2, and TV is the privacy curve δ(ε) at ε = 0.  Of one release with one record blanked, or not:

* sketch, k rows, noise level γ: `privacy.mixing_delta(0, k, γ, 0)`;
* Gaussian noise of σ sensitivities on a number or a vector: bell curves 1/σ apart, TV = erf(1/(σ sqrt(8)));
* Laplace noise of b sensitivities on a number: TV = 1 − exp(−1/(2b)).

Of one number out of a release, or of anything made from it, a guess is right no more often.  Of all releases together,
(ε, δ) gives TV ≤ (e^ε − 1 + 2δ)/(e^ε + 1).  Source: Kairouz, Oh & Viswanath (2017), "The composition theorem for
differential privacy".
"""

from __future__ import annotations

import math
from typing import Any

from scipy.special import erf, expit, ndtri

from fastdp_dask.privacy import mixing_delta

_DIGITS = 6
_FARTHEST = 16.0  # curves that far apart do not overlap in a float
_NAMES = {
    "moment_noise": "Xᵀy",
    "gram_noise": "XᵀX",
    "noise_multiplier": "gradient",
    "residual_noise": "sum of squared residuals",
    "deviation_noise": "deviation of the sketch",
    "eigenvalue_noise": "smallest eigenvalue",
}

CHANGES = {
    "mixing": "{:.3g} of the variance of a row",
    "gaussian": "{:.3g} standard deviations",
    "laplace": "{:.3g} of the scale of the noise",
}
"""What `change` is, by `kind`, for people."""


def percent(guess: float) -> str:
    """In per cent, rounded up to two places; a smaller number than 1 is not called 100 %."""
    rounded = math.ceil(guess * 1e4 - 1e-6) / 100
    return "almost 100 %" if guess < 1 and rounded >= 100 else f"{rounded:.2f} %"


def of_plan(plan: dict[str, Any]) -> dict[str, Any]:
    """Each kind of release of a plan and the guess it allows, what the worst of them is like, and the bound of all.

    `shift` is the distance, in standard deviations, of two bell curves that are as hard to tell apart as the release
    that allows most.
    """
    releases = _releases(plan)
    largest = max((line["guess"] for line in releases), default=0.5)
    shift = min(float(f"{2.0 * float(ndtri(largest)):.6g}"), _FARTHEST)
    return {"releases": releases, "guess": largest, "shift": shift, "guess_all": all_together(plan)}


def all_together(plan: dict[str, Any]) -> float:
    """(e^ε + δ)/(e^ε + 1): no guesser who sees every release is right more often."""
    away = float(expit(-plan["epsilon"]))  # 1/(e^ε + 1)
    return _up(1.0 - away + plan["delta"] * away)


def _releases(plan: dict[str, Any]) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in plan["events"]:
        uses = event.get("count", 1)
        if "delta" in event or not uses:
            continue
        if "gamma" in event:
            # One Wishart matrix holds all its rows; the presets of the papers draw one for each round.
            rows = plan.get("degrees") or plan["k1"]
            change, uses = 1.0 / event["gamma"], max(event["rows"] // rows, 1)
            name, kind, distance = f"sketch of {rows:,} rows", "mixing", mixing_delta(0.0, rows, event["gamma"], 0.0)
        elif "noise_multiplier" in event:
            change = 1.0 / event["noise_multiplier"]
            name, kind, distance = _name(plan, event["noise_multiplier"]), "gaussian", float(erf(change / math.sqrt(8)))
        else:
            change = 1.0 / event["scale_over_sensitivity"]
            name, kind, distance = "estimate with Laplace noise", "laplace", -math.expm1(-change / 2)
        line = found.setdefault(
            (name, kind, change),
            {"release": name, "count": 0, "kind": kind, "change": change, "guess": _up(0.5 + 0.5 * distance)},
        )
        line["count"] += uses
    return list(found.values())


def _name(plan: dict[str, Any], noise: float) -> str:
    """What the plan puts this noise on; several names where it puts the same on several."""
    known = [key for key in _NAMES if plan.get(key) == noise]
    if "moment_noise" in known:
        known.remove("noise_multiplier")  # Xᵀy is its only gradient
    return " or ".join(_NAMES[key] for key in known) or "estimate"


def _up(guess: float) -> float:
    """Rounded up: no less than the bound, and the same digits wherever it is computed."""
    return min(1.0, math.ceil(guess * 10**_DIGITS) / 10**_DIGITS)
