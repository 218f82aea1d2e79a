"""What a model's guarantee says, in words for whoever has to answer for it, from the model's own run folder.

    python examples/explain_guarantee.py [RUN_FOLDER] [--quick]

Without a folder, a small model is fitted first.  Everything printed follows from `plan.json` and `model.json`.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

from fastdp_dask import LinearRegression


def fit_one(folder: Path, n: int) -> Path:
    generator = np.random.default_rng(1)
    X = generator.uniform(-1, 1, (n, 2))
    model = LinearRegression(epsilon=1.0, delta=1e-9, bounds_X=(-1, 1), bounds_y=(-2, 2), run_dir=folder / "run")
    model.fit(X, X @ [1.0, -0.5] + generator.normal(0, 0.1, n), feature_names=["age", "dose"], source="trial 1")
    return folder / "run"


def posterior(prior: float, epsilon: float) -> float:
    """The most that any belief about one person can rise to, delta aside: odds grow by e^epsilon at most."""
    odds = prior / (1 - prior) * math.exp(epsilon)
    return odds / (1 + odds)


def explain(run: Path) -> None:
    model, plan = json.loads((run / "model.json").read_text()), json.loads((run / "plan.json").read_text())
    epsilon, delta = model["privacy_spent"]["epsilon"], model["privacy_spent"]["delta"]
    scaling, names = plan["scaling"], model["feature_names"] or [f"column {j}" for j in range(len(model["coef"]))]
    print(f"""\
What was published
  {len(names)} coefficients and an intercept, computed once, with noise, from {plan["n_samples"]:,} people's records.

What anyone may learn about one of them from it
  Take the records with one person's data counted as blank, everything else unchanged. Whatever came out could have
  come out from those, too, with a probability that is at most {math.exp(epsilon):.2f} times smaller or larger
  (epsilon = {epsilon:g}), but for a chance of {delta:g} (delta). So:""")
    for prior in (0.01, 0.1, 0.5):
        print(f"    who holds something about a person for {prior:.0%} likely may come to hold it for "
              f"{posterior(prior, epsilon):.1%} likely, no more")
    print(f"""\
  This holds whatever else is known, also about everyone else, and for all time.

What is public, and not protected
  that there are {plan["n_samples"]:,} records; the names of the columns;
  the bounds that were declared:""")
    for name, lower, upper in zip(names, scaling["lower"], scaling["upper"], strict=True):
        print(f"    {name}: {lower:g} to {upper:g}")
    print("""\
  and what is true of people in general: a model that says that a dose helps, helps to guess for anyone.

What the numbers rest on""")
    for line in plan["budget"]:
        print(f"    {line['purpose']}: epsilon {line['epsilon']:.3g}, delta {line['delta']:.3g}")
    seeded = not model["private_against_seed_holders"]
    secret = "NOT secret: whoever knows the seed can undo it" if seeded else "secret: drawn from the operating system"
    print(f"""\
  Each is a known mechanism, and its parameters stand in plan.json; `fastdp audit` attacks them.
  The noise is {secret}.
  One record is one person. If a person has several, the guarantee is that of one of them.""")


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if not word.startswith("--")]
    if given:
        explain(Path(given[0]))
    else:
        with tempfile.TemporaryDirectory() as name:
            explain(fit_one(Path(name), 20_000 if "--quick" in sys.argv else 200_000))
