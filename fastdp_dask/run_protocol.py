"""The order in which a fit writes down, pays and releases, so that it can be killed between any two steps.

1. lock the run folder; 2. `plan.json` with a run id; 3. see that the ledger can pay; 4. what the first release takes:
one pass over the data, or two; 5. charge the ledger under the run id; 6. draw, append to `releases.jsonl`, fsync, use;
then for each further release its pass and step 6; at last `model.json`.

All of the data is read before anything is paid, so a damaged chunk, or a cluster that is lost in the first pass, costs
nothing.  A restart finds the run id, so step 5 pays once; it replays the releases, so each is drawn once as far as
anyone can see; with `model.json` there it does nothing at all.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import traceback
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from fastdp_dask.durable import local_path
from fastdp_dask.errors import BudgetError, LedgerError, StoreError
from fastdp_dask.ledger import Ledger
from fastdp_dask.privacy import Event
from fastdp_dask.releases import ReleaseLog
from fastdp_dask.rng import NoiseSource, fresh_seed
from fastdp_dask.run_folder import RunFolder, refuse_foreign
from fastdp_dask.solvers.base import Plan

# Of a plan: what depends on the machine and its load of workers, and binds nobody.
_PREDICTED = ("forecasts", "why", "outlook")


@dataclass(frozen=True)
class Run:
    """A fit that is written down, and pays before its first release.

    Attributes
    ----------
    run_id : str
        What the ledger knows it by.
    public_seed : int
        Of the sketch.
    releases : ReleaseLog
    model : dict or None
        The model, if an earlier run has finished it: nothing may be released any more.
    continued : bool
        Whether an earlier run began it.
    """

    run_id: str
    public_seed: int
    releases: ReleaseLog
    model: dict[str, Any] | None = None
    folder: RunFolder | None = None
    continued: bool = False

    def finish(self, model: dict[str, Any]) -> None:
        """Write the finished model down."""
        if self.folder is not None:
            self.folder.finish({**model, "versions": _versions()})


_TOLD = ("fastdp-dask", "numpy", "scipy", "dask", "distributed", "numba", "zarr")


@functools.cache
def _versions() -> dict[str, str]:
    """Of Python and the packages that a result depends on: public.  Looked up once, as that reads many files."""
    found = {"python": platform.python_version()}
    for name in _TOLD:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def refuse_early(ledger: Ledger | None, run_dir: Any, epsilon: float, delta: float) -> None:
    """Refuse what cannot be paid, or kept, before even the rows are counted; a begun run may have paid already."""
    if run_dir is not None:
        run_dir = local_path("run_dir", run_dir)
        refuse_foreign(run_dir)
    if ledger is None or (run_dir is not None and os.path.exists(os.path.join(run_dir, "plan.json"))):
        return
    ledger.require(epsilon, delta)


@contextlib.contextmanager
def begun(
    run_dir: str | os.PathLike[str] | None,
    ledger: Ledger | None,
    plan: Plan,
    facts: dict[str, Any],
    *,
    public_seed: int | None,
    noise: NoiseSource,
) -> Iterator[Run]:
    """Write the plan down and see that it can be paid, or find both done; `Run.releases` pays before its first draw.

    Parameters
    ----------
    run_dir : path-like, optional
        None: a new run that leaves nothing but its charge.
    ledger : Ledger, optional
    plan : Plan
    facts : dict
        What else must be equal for a restart to be the same run: bounds, names, the place of the data. Public.
    public_seed : int, optional
        None: fresh, or that of the run to be continued.
    noise : NoiseSource

    Raises
    ------
    ArgumentError
        If the folder holds another plan, or is no run's.
    BudgetError
        If the ledger refuses: now, or before the first draw where others have spent the rest in between.  Of a new run
        nothing is left then.
    LedgerError, StoreError
        If a file is damaged, cannot be written or is in use.
    """
    run_id = uuid.uuid4().hex
    seed = fresh_seed() if public_seed is None else int(public_seed)
    if run_dir is None:
        with _frames_cleared():
            yield Run(run_id, seed, ReleaseLog(pay=functools.partial(_pay, ledger, plan, run_id)))
        return
    folder = RunFolder(run_dir)
    document = {
        **plan.to_dict(), **facts, "public_seed": seed, "run_id": run_id, **_noise_facts(noise, public_seed),
        "ledger": None if ledger is None else ledger.ledger_id,
    }  # fmt: skip
    drawn = ("run_id", *_PREDICTED) if public_seed is not None else ("run_id", "public_seed", *_PREDICTED)
    with folder.locked(), _frames_cleared():
        stored = folder.begin(document, drawn)
        run_id, seed, model = str(stored["run_id"]), int(stored["public_seed"]), folder.model()
        pay = functools.partial(_pay, ledger, plan, run_id)
        releases = folder.releases(pay)
        try:
            if model is None and releases.names:
                pay()  # as it did before the first of them: once
            elif model is None and ledger is not None and not ledger.has_paid(run_id):
                ledger.require(plan.epsilon, plan.delta)
            yield Run(run_id, seed, releases, model, folder, stored is not document)
        except BudgetError:
            if ledger is None or not ledger.has_paid(run_id):
                folder.abandon()
            raise


@contextlib.contextmanager
def _frames_cleared() -> Iterator[None]:
    """A refusal keeps no local variables: those of a pass are sums without noise, which some tools would print."""
    try:
        yield
    except (BudgetError, LedgerError) as error:
        traceback.clear_frames(error.__traceback__)
        raise


def begun_plan(run_dir: str | os.PathLike[str] | None) -> dict[str, Any] | None:
    """The plan on file, so that a restart follows its choice of solver; None where there is none to follow.

    Not under the lock, and no check: `begun` compares the whole plan, and says what is damaged.
    """
    if not isinstance(run_dir, str | os.PathLike):
        return None
    with contextlib.suppress(StoreError):
        if os.path.exists(os.path.join(run_dir, "plan.json")):
            return RunFolder(run_dir).plan()
    return None


def events_of(plan: Plan) -> tuple[Event, ...]:
    """What a plan pays for, as data."""
    return plan.events


def _pay(ledger: Ledger | None, plan: Plan, run_id: str) -> None:
    if ledger is not None:
        ledger.charge(
            plan.epsilon, plan.delta, mechanism=f"{plan.solver}, {plan.preset}", events=events_of(plan), run_id=run_id
        )


def _noise_facts(noise: NoiseSource, public_seed: int | None) -> dict[str, Any]:
    """A folder begun with secure randomness must not go on with a seeded one, nor with another seed.

    The mark is a draw from a stream of its own: it tells two seeds apart without being one.
    """
    return {
        "reproducible": noise.reproducible or public_seed is not None,
        "noise_mark": int(noise.stream("run folder").integers(2**63)) if noise.reproducible else None,
    }
