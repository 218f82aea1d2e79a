"""`fastdp fit`: a store becomes a private model in a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer

from fastdp_dask import LinearRegression
from fastdp_dask.blocked.progress import PassProgress, PassReport
from fastdp_dask.commands import encryption, observing, storage, tables
from fastdp_dask.commands.stopping import Stoppable
from fastdp_dask.commands.workers import WAIT_SECONDS, connected, local_workers
from fastdp_dask.data import Declaration, Store, is_table, open_store, open_table, read_declaration
from fastdp_dask.data.location import located
from fastdp_dask.durable import local_path
from fastdp_dask.errors import ArgumentError, BoundsError
from fastdp_dask.report.write import write


def fit(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Store written by fastdp ingest, or its URL; Parquet with --bounds.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy budget, > 0.")],
    delta: Annotated[float, typer.Option(help="0 < delta < 1, well below 1/n; for example 1/n^2.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run folder: plan, releases, model.json.")],
    solver: Annotated[
        str, typer.Option(help="auto, fastihm, ihm, adassp, linear_mixing or fast_linear_mixing.")
    ] = "auto",
    preset: Annotated[str, typer.Option(help="tight: least noise; paper: to the letter of the papers.")] = "tight",
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A running Dask scheduler, tls://host:8786 or its .json file; without it this machine's threads.",
        ),
    ] = None,
    tls_ca_file: encryption.CaFile = None,
    tls_cert: encryption.CertFile = None,
    tls_key: encryption.KeyFile = None,
    insecure: encryption.Insecure = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Start N worker processes on this machine instead.")
    ] = None,
    worker_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Longest wait for a scheduler, and without any worker.")
    ] = WAIT_SECONDS,
    ledger: Annotated[Path | None, typer.Option(metavar="FILE", help="Budget, charged before a release.")] = None,
    n_iter: Annotated[int | None, typer.Option(help="Rounds T.")] = None,
    k1: Annotated[int | None, typer.Option(help="Rows of a Gaussian sketch.")] = None,
    k2: Annotated[int | None, typer.Option(help="Rows of the Hadamard sketch.")] = None,
    public_seed: Annotated[int | None, typer.Option(help="Fixes the sketch. For tests: it warns.")] = None,
    random_state: Annotated[int | None, typer.Option(help="Fixes the noise. For tests: not private.")] = None,
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Intervals for the population: 1 % of the gradients' budget, a pass.")
    ] = False,
    allow_missing_chunks: Annotated[
        bool, typer.Option("--allow-missing-chunks", help="Take absent chunks as blank records.")
    ] = False,
    storage_option: storage.StorageOptions = None,
    bounds: Annotated[
        Path | None, typer.Option(help="Declared bounds: of Parquet files, or instead of the store's own.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Column that becomes y, of Parquet files.")] = None,
    persist: Annotated[
        bool | None, typer.Option("--persist/--no-persist", help="Hold the data in memory; default: where they fit.")
    ] = None,
    verbose: observing.Verbose = False,
    performance_report: observing.PerformanceReport = None,
) -> None:
    """Fit a private linear regression on a store, or on Parquet files as they lie.

    Bounds and groups are those declared in the store, or in --bounds. On SIGTERM or SIGUSR1, at any time, the fit
    keeps what it has released and exits with 75; the same command then continues it, with the same budget.
    """
    out, options = local_path("--out", out), storage.options(storage_option)
    store = located("DATA", data, options).local
    if store is not None and out.resolve().is_relative_to(store):
        raise ArgumentError(
            f"--out must be a folder outside of DATA, got {out}: ingesting anew would remove it, with releases that "
            "were paid for. Choose another folder."
        )
    if scheduler is not None and workers is not None:
        raise ArgumentError("--workers must stand alone, got --scheduler too. A scheduler has its own workers.")
    observing.check_report(performance_report, scheduler is not None or workers is not None)
    stopped = f"stopped on request; what was paid and released is kept in {out}. Run the same command again."
    computing: AbstractContextManager[Any] = (
        connected(
            scheduler, wait=worker_timeout, ca_file=tls_ca_file, cert=tls_cert, key=tls_key, insecure=insecure
        )
        if workers is None
        else local_workers(workers, wait=worker_timeout)
    )
    with observing.told(verbose), Stoppable(PassReport(), stopped) as progress:
        fit_store(
            data, out, progress, computing, allow_missing_chunks=allow_missing_chunks, storage_options=options,
            bounds=bounds, target=target, performance_report=performance_report,
            epsilon=epsilon, delta=delta, solver=solver, preset=preset, n_iter=n_iter, k1=k1, k2=k2,
            public_seed=public_seed, random_state=random_state, ledger=ledger, uncertainty=uncertainty,
            persist="auto" if persist is None else persist,
        )  # fmt: skip


def fit_store(
    data: str | Path,
    out: Path,
    progress: PassProgress,
    workers: AbstractContextManager[Any],
    *,
    bounds: str | Path | None = None,
    target: str | None = None,
    allow_missing_chunks: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    performance_report: Path | None = None,
    **options: Any,
) -> None:
    """Open a data set, fit it into the run folder `out` within the context `workers`, and show the result.

    Parameters
    ----------
    data, out
        The store, a path or a URL, or Parquet files; and the run folder.
    storage_options : mapping, optional
        Of `open_store`.
    progress : PassProgress
    workers : context manager
        Entered once the store is known to be whole: what makes a `distributed.Client` the active one.
    bounds : path, optional
        Declared bounds and categories, of Parquet files, or instead of the store's own; public like those.
    target : str, optional
        Of Parquet files; must be the store's.
    performance_report : path, optional
        Where to write Dask's report.
    **options
        Of `LinearRegression`.
    """
    if is_table(data):
        store = _table(data, bounds, target)
        declaration = store.declaration
    else:
        store = open_store(data, allow_missing_chunks=allow_missing_chunks, storage_options=storage_options)
        declaration = _declared(store.declaration, bounds, target)
    model = LinearRegression(run_dir=out, **options, **declaration.estimator_arguments())
    names = declaration.feature_names
    with workers, observing.reported(performance_report):
        model.fit(store.X, store.y, feature_names=names, source=store.source, progress=progress)
    plan, (spent, failing) = model.plan_, model.privacy_spent_
    console = tables.console()
    tables.show_coefficients(console, model, declaration.target)
    tables.show_budget(console, [(f"{plan.solver}, {plan.preset}", plan)])
    print(f"Spent: epsilon = {spent:g}, delta = {failing:.3g}, for {plan.n_samples:,} records.")
    page, _ = write(out)
    print(f"Model: {out / 'model.json'}")
    print(f"Report: {page}")


def _table(data: str | Path, bounds: str | Path | None, target: str | None) -> Store:
    if bounds is None or target is None:
        lacking = "--bounds" if bounds is None else "--target"
        raise ArgumentError(
            f"{lacking} must be given for Parquet files, which declare nothing, got none for {data}. Add it, or ingest "
            "the files into a store first."
        )
    return open_table(data, bounds=bounds, target=target)


def _declared(stored: Declaration, bounds: str | Path | None, target: str | None) -> Declaration:
    """The declaration of a store, with the bounds of another file if there is one; columns and their order stay."""
    if target is not None and target != stored.target:
        raise ArgumentError(f"target must be the store's, {stored.target!r}, got {target!r}. Correct it or drop it.")
    if bounds is None:
        return stored
    declared = read_declaration(bounds, target=stored.target, features=stored.sources)
    if (declared.feature_names, declared.missing) != (stored.feature_names, stored.missing):
        raise BoundsError(
            f"bounds must declare the categories, dates and rules for missing values that the store was written with, "
            f"got others in {bounds}. Write the store again (fastdp ingest) to change them."
        )
    return declared
