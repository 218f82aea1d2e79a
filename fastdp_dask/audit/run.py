"""`audit`: run mechanisms on neighbouring data sets and compare what was found with what is claimed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fastdp_dask import _validate, rng
from fastdp_dask.audit.bounds import CONFIDENCE, lower_bound
from fastdp_dask.audit.mechanism import Mechanism, noise_for
from fastdp_dask.audit.replay import without_pools
from fastdp_dask.audit.single import SINGLE
from fastdp_dask.audit.whole import WHOLE

MECHANISMS: dict[str, Mechanism] = {mechanism.name: mechanism for mechanism in (*SINGLE, *WHOLE)}
_LEAST_RUNS = 200


@dataclass(frozen=True)
class AuditResult:
    """One mechanism's audit.

    Attributes
    ----------
    mechanism, covers : str
    claim, delta : float
        (ε, δ) as claimed.
    lower_bound : float
        ε that the outcomes refute anything below, at the claimed δ: the larger of the next two.
    direct, curve : float
        The bounds from log((p − δ)/q) and along the Rényi curve.
    confidence : float
        Joint, for this mechanism.
    runs : int
        On each data set of each pair.
    """

    mechanism: str
    covers: str
    claim: float
    delta: float
    lower_bound: float
    direct: float
    curve: float
    confidence: float
    runs: int

    @property
    def holds(self) -> bool:
        """Whether the bound stays within the claim."""
        return self.lower_bound <= self.claim

    def to_dict(self) -> dict[str, Any]:
        """All fields and the verdict, ready for JSON."""
        return {**asdict(self), "holds": self.holds}


def audit(
    mechanisms: Sequence[str] | None = None,
    *,
    runs: int = 100_000,
    epsilon: float = 2.0,
    delta: float = 1e-5,
    seed: int | None = None,
) -> Iterator[AuditResult]:
    r"""Lower confidence bounds on ε of the code as it runs, one mechanism after the other.

    Each mechanism is calibrated to (epsilon, delta) as in a real fit and run many times on two data sets that differ
    in one record of norm 1.  An event of probability p on one and q on the other shows that

        ε ≥ log((p − δ)/q)

    or that its Rényi curve is too low; p and q are Clopper–Pearson limits.  A correct mechanism exceeds its claim with
    probability at most 1e-6.  A bound below the claim proves nothing: other data may do worse.

    Parameters
    ----------
    mechanisms : sequence of str, optional
        Names from `MECHANISMS`; all by default.
    runs : int
        Runs on each data set of the single releases; `fastmix` makes a tenth and a fit a twentieth of it.  At least
        200 are made.
    epsilon, delta : float
    seed : int, optional
        Makes the noise, and so the outcome, reproducible.

    Yields
    ------
    AuditResult

    Raises
    ------
    ArgumentError
        A name or a number is out of its range; raised before anything runs.

    Notes
    -----
    Neighbours have one record replaced by zeros, in both orders.  No user data is involved.  The curve bound follows
    from data processing for Rényi divergences (van Erven & Harremoës, 2014); limits on independent runs from Clopper
    & Pearson (1934).
    """
    names = list(MECHANISMS) if mechanisms is None else list(mechanisms)
    for name in names:
        _validate.choice("mechanism", name, tuple(MECHANISMS))
    runs = _validate.count("runs", runs)
    epsilon, delta = _validate.epsilon(epsilon), _validate.delta(delta)
    if seed is not None:
        seed = rng.check_seed("seed", seed)
    return (_one(MECHANISMS[name], runs, epsilon, delta, seed) for name in names)


def _one(mechanism: Mechanism, runs: int, epsilon: float, delta: float, seed: int | None) -> AuditResult:
    made = max(_LEAST_RUNS, int(runs * mechanism.share))
    with without_pools():
        cases = mechanism.build(epsilon, delta)
        outcomes = []
        for number, (claim, sample) in enumerate(cases):
            here, there = (sample(side, made, noise_for(seed, mechanism.name, number, side)) for side in (0, 1))
            outcomes.append((claim, (here, there)))
        found = lower_bound(outcomes)
    return AuditResult(
        mechanism=mechanism.name,
        covers=mechanism.covers,
        claim=max(claim.epsilon for claim, _ in cases),
        delta=delta,
        lower_bound=found.epsilon,
        direct=found.direct,
        curve=found.curve,
        confidence=CONFIDENCE,
        runs=made,
    )
