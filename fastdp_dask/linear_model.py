"""`LinearRegression`: where declared bounds, blocked rows, a solver and the run folder meet."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin

from fastdp_dask import _validate, rng, run_protocol
from fastdp_dask.blocked import columns, holding
from fastdp_dask.blocked.progress import PassProgress, silent
from fastdp_dask.blocked.several_targets import blocked_rows
from fastdp_dask.blocked.source import as_blocks, count_features, count_targets
from fastdp_dask.costs import cache, choice, layout
from fastdp_dask.errors import PrivacyLeakWarning, StoreError
from fastdp_dask.fitted import FittedLinear
from fastdp_dask.ledger import Ledger
from fastdp_dask.rows.groups import complete_of
from fastdp_dask.rows.targets import declare_each, facts_of, user_units
from fastdp_dask.run_folder import RunFolder
from fastdp_dask.solvers import dispatch
from fastdp_dask.uncertainty import residual
from fastdp_dask.uncertainty.intervals import intervals

_logger = logging.getLogger(__name__)
_UNNAMED = (
    "run_dir %s holds a fit that was begun before; it goes on, or hands out its model, without comparing X and y with "
    "the data of then. Name the data with fit(..., source=...), or take a new folder for new data."
)


class LinearRegression(FittedLinear, RegressorMixin, BaseEstimator):
    r"""Differentially private least squares on data larger than memory.

    Finds θ close to  argmin_θ Σ_i (y_i − x_iᵀθ)²  over scaled records, so that the coefficients are
    (epsilon, delta)-differentially private: for any two data sets of n rows that differ in one record being
    blank, in either direction, every output event has probabilities within a factor e^epsilon, up to delta.  A blank
    record is one that counts as the zero row after scaling, without even an intercept, as a record with a missing
    value does; exchanging one record for another is two such steps.

    Public: n, d, column names, dtypes, chunk sizes, every argument below.  Private: all values in X and y.

    Parameters
    ----------
    epsilon : float
        > 0 and finite.
    delta : float
        0 < delta < 1; well below 1/n.
    bounds_X : (lower, upper), optional
        Scalars or vectors of n_features numbers from public knowledge, in the units of X.  Values beyond them are
        clipped.
    data_norm : float, optional
        Instead of `bounds_X`: bound on the Euclidean norm of a row; longer rows are scaled down.
    groups : list of lists of int, optional
        Columns of one category each: 0/1 indicators of which at most one is non-zero in a row.  Declaring them
        shrinks the public row bound, hence the noise.
    bounds_y : (lower, upper)
        Two numbers from public knowledge, in the units of y; two vectors for several targets.
    fit_intercept : bool, default True
    solver : {"auto", "fastihm", "ihm", "adassp", "linear_mixing", "fast_linear_mixing"}
        See `fastdp_dask.plan` for what each would do.
    preset : {"tight", "paper"}
        "paper": noise, rounds and budget split to the letter of the papers.  "tight": the same guarantee from
        sharper bounds, with far less noise.
    n_iter, k1, k2 : int, optional
        Rounds T, rows of a Gaussian sketch and of the SRHT; chosen from public facts if left out.
    coherence : {"auto", "public", "leverage", "free", "private"}
        How the deviation of the sketch is bounded (preset "tight").
    public_seed : int, optional
        Seed of the public sketch.  None: fresh for each fit.  A given one is for tests and warns.
    random_state : None, int or numpy.random.Generator
        None: secure noise from the operating system.  Anything else makes the noise reproducible and warns.
    ledger : path or Ledger, optional
        Budget of the data set, charged (epsilon, delta) before the first release (`Ledger.create` makes one).
    run_dir : path, optional
        Folder for plan, releases and model; an interrupted fit continues there and never draws twice.  Values are
        never compared with those of the first call, for a refusal would tell of one record that changed: `source`
        of `fit` names the data, and other data need another folder.
    uncertainty : bool, default False
        Release the sum of squared residuals too, in one more pass, for a hundredth of the gradients' budget: intervals
        then cover the population.  Without it they cover least squares on these records: privacy noise alone.
    persist : {"auto", True, False}, default "auto"
        Hold the data in memory from the first pass to the end of the fit, so that later passes need no disk.  "auto":
        where they fit with room to spare, into the workers' memory limits or this machine's free memory.  The result
        is the same to the last bit.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,), or (n_targets, n_features) for several targets
        In units of y per unit of X.
    intercept_ : float, or ndarray of shape (n_targets,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If X had string column names.
    n_iter_ : int
    plan_ : Plan
        What was done, from public facts only.
    release_ : dict
        Every number released beside the coefficients, by name.
    privacy_spent_ : tuple (epsilon, delta)
    stderr_ : ndarray of shape (n_features + intercept,)
        Standard errors of `estimate_`, not of `coef_`: of solvers "ihm" and "fastihm" (preset "tight") and "adassp".
    n_passes_ : int
        Passes over X that this fit made.

    Notes
    -----
    A record with a non-finite entry counts as the zero record, silently: saying so would reveal it.  `score` looks
    at the data it is given exactly; it is not part of the guarantee.

    On an active `distributed.Client` rows travel between scheduler and workers as its connection is: give that client
    ``security=`` for TLS (`fastdp certificates` writes the files), as anybody who can connect can read rows and run
    code.  The configuration ``fastdp.worker-timeout`` (seconds) ends a pass that has lost every worker for so long with
    `ClusterLostError`; unset, it waits as Dask does.

    Source: FM, Algorithm 2 and Theorem 2; IHM, Algorithm 1.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        bounds_X: Any = None,
        data_norm: float | None = None,
        groups: Any = None,
        bounds_y: Any = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        preset: str = "tight",
        n_iter: int | None = None,
        k1: int | None = None,
        k2: int | None = None,
        coherence: str = "auto",
        public_seed: int | None = None,
        random_state: Any = None,
        ledger: Any = None,
        run_dir: str | os.PathLike[str] | None = None,
        persist: bool | str = "auto",
        uncertainty: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds_X = bounds_X
        self.data_norm = data_norm
        self.groups = groups
        self.bounds_y = bounds_y
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.preset = preset
        self.n_iter = n_iter
        self.k1 = k1
        self.k2 = k2
        self.coherence = coherence
        self.public_seed = public_seed
        self.random_state = random_state
        self.ledger = ledger
        self.run_dir = run_dir
        self.persist = persist
        self.uncertainty = uncertainty

    def fit(
        self,
        X: Any,
        y: Any,
        *refused: Any,
        feature_names: Sequence[str] | None = None,
        source: str | None = None,
        progress: PassProgress = silent,
        **also_refused: Any,
    ) -> LinearRegression:
        """Fit on X (n_samples, n_features) and y (n_samples,) or (n_samples, n_targets): arrays or DataFrames.

        Dask or NumPy arrays, Dask or pandas DataFrames.  Several targets are one release: XᵀX or its sketch is paid for
        once, and a gradient is an n_features × n_targets matrix whose noise is sqrt(n_targets) times that of one, for
        the same (epsilon, delta) in all.  A record that lacks one of its targets is blank for all of them.

        Runs on the active `distributed.Client` if there is one, else on threads.  `feature_names` names the columns
        of an array that has no names of its own; `source` names the data in public terms (a place, a date, the
        `source` of a store), so that a run folder is not continued with other data; `progress` is told of each pass
        (`fastdp_dask.blocked.progress`).

        With a ledger, a budget that is too small is refused before anything is read, and (epsilon, delta) is charged
        once all data could be read, in a pass or two, and before anything is drawn.  With a run folder, a fit that
        was interrupted continues: it pays once and draws each release once.  A finished one hands out its model without
        a pass or a charge.

        There is no `sample_weight`: a weight would multiply one person's influence beyond the declared bounds.

        Raises
        ------
        ArgumentError, BoundsError, DataShapeError, DataTypeError
            Before anything is read or spent, from public facts only.
        BudgetError
            If the ledger refuses: nothing is spent.
        LedgerError, StoreError
            If the ledger or the run folder is missing, damaged, in use or cannot be written.
        """
        columns.refuse_weights(refused, also_refused)
        columns.required(y)
        request = dispatch.check_request(
            epsilon=self.epsilon, delta=self.delta, solver=self.solver, preset=self.preset,
            n_iter=self.n_iter, k1=self.k1, k2=self.k2, coherence=self.coherence, intervals=self.uncertainty,
        )  # fmt: skip
        _validate.boolean("fit_intercept", self.fit_intercept)
        if self.public_seed is not None:
            rng.check_seed("public_seed", self.public_seed)
        n_targets = count_targets(y)
        dispatch.check_targets(request, n_targets)
        scalings = declare_each(
            count_features(X), n_targets, bounds_X=self.bounds_X, data_norm=self.data_norm, groups=self.groups,
            bounds_y=self.bounds_y, fit_intercept=self.fit_intercept,
        )  # fmt: skip
        scaling = scalings[0]
        persist = holding.checked(self.persist)
        noise = rng.NoiseSource(self.random_state)
        if self.public_seed is not None:
            warnings.warn(
                "public_seed fixes the sketch: its bounds need a sketch drawn after the data was collected. "
                "Leave it out for any real release.",
                PrivacyLeakWarning,
                stacklevel=2,
            )
        ledger = None if self.ledger is None else Ledger.at(self.ledger)
        run_protocol.refuse_early(ledger, self.run_dir, request.epsilon, request.delta)
        features, target, names = as_blocks(X, y)
        if feature_names is not None:
            names = columns.checked(feature_names, scaling.n_features)
        assert target is not None
        columns.check_targets(target, n_targets)
        _validate.warn_of_large_delta(request.delta, features.shape[0])
        lies = layout.layout(*features.shape, chunks=features.chunks[0], itemsize=features.dtype.itemsize)
        kept = run_protocol.begun_plan(self.run_dir)
        plan = choice.make_plan(request, features.shape[0], scaling.n_columns, lies, cache.load(), kept=kept)
        plan = dispatch.for_targets(plan, request, n_targets)
        if self.uncertainty:
            plan = residual.with_residual(plan)
        facts = {
            "scaling": facts_of(scalings), "feature_names": names, "source": source,
        }  # fmt: skip
        _logger.info("%s", plan.describe())
        with run_protocol.begun(
            self.run_dir, ledger, plan, facts, public_seed=self.public_seed, noise=noise
        ) as run, blocked_rows(
            features, target, scalings, progress, persist=persist, expected_passes=plan.n_passes
        ) as rows:  # fmt: skip
            if run.continued and source is None:
                _logger.warning(_UNNAMED, self.run_dir)
            if run.model is None:
                solution = dispatch.solve(
                    rows, plan, public_seed=run.public_seed, noise=noise, releases=run.releases
                )
                coef, intercept = user_units(scalings, solution.theta)
                spent = (solution.epsilon, solution.delta)
                self._set(coef, intercept, dict(solution.released), spent, names, plan.n_iter)
                if plan.residual_noise:
                    residual.release_residual(rows, solution.theta, plan, noise, run.releases)
                self.intervals_ = intervals(plan, run.releases, solution.iterates, scaling, complete_of(self.groups))
                self.no_intervals_ = residual.why_not(plan)
                reproducible = noise.reproducible or self.public_seed is not None
                run.finish(self._document(solver=plan.solver, preset=plan.preset, reproducible=reproducible))
            else:
                self._restore(run.model)
            self.plan_ = plan
            self.n_passes_ = rows.n_passes
        return self

    @classmethod
    def from_run(cls, run_dir: str | os.PathLike[str]) -> LinearRegression:
        """The fitted model of a run folder: coefficients, names, what was released and spent.

        Raises
        ------
        StoreError
            If the folder holds no finished model, or a damaged one.
        """
        document = RunFolder(run_dir).model() if os.path.isdir(run_dir) else None
        if document is None:
            raise StoreError(
                f"run_dir must be the run folder of a finished fit, got no model.json in {run_dir}. Finish the fit "
                "first: the same call or command continues it."
            )
        spent = document["privacy_spent"]
        fitted = cls(
            epsilon=spent["epsilon"], delta=spent["delta"], solver=document["solver"], preset=document["preset"]
        )
        fitted._restore(document)
        return fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True
        tags.input_tags.allow_nan = True
        tags.target_tags.multi_output = True
        return tags
