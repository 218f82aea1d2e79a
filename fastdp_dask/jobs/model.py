"""What a job file may say.  Everything in it is public: names, places, sizes, the budget."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field, field_validator, model_validator

from fastdp_dask.jobs.fields import (
    Count,
    Directive,
    Duration,
    Inside,
    Line,
    Memory,
    Name,
    Number,
    Place,
    Setting,
    Variable,
    Word,
)

GIBIBYTE = 2**30


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Workers(_Section):
    """Where the passes over the data are computed.

    Attributes
    ----------
    count : int
        Jobs (Slurm, PBS), tasks (one allocation) or pods of workers; 0: the threads of the driver's own job.
    cores, memory, processes
        Of each: cores >= 1, bytes, and how many worker processes share them.
    scratch : path, optional
        A local disk for what does not fit into memory; holds raw data while the job runs.
    wait, lost : seconds
        How long the first worker may take to join, and how long there may be none afterwards.
    """

    count: Annotated[int, Field(strict=True, ge=0)] = 2
    cores: Count = 1
    memory: Memory = ByteSize(4 * GIBIBYTE)
    processes: Count = 1
    scratch: Place | None = None
    wait: Duration = 1800
    lost: Duration = 600


class Driver(_Section):
    """The process that draws the noise: cores and bytes of memory of its own job."""

    cores: Count = 1
    memory: Memory = ByteSize(4 * GIBIBYTE)


class Tls(_Section):
    """PEM files that driver and workers authenticate with; paths only, never their content."""

    ca_file: Place
    cert: Place
    key: Place


class Seeds(_Section):
    """For tests alone: a result that its seeds can be known from is not private, and says so."""

    public_seed: Annotated[int, Field(strict=True, ge=0)]
    random_state: Annotated[int, Field(strict=True, ge=0)]


class _Queue(_Section):
    account: Word | None = None
    interface: Word | None = None
    directives: tuple[Directive, ...] = ()
    skip_directives: tuple[Directive, ...] = ()
    environment: tuple[Variable, ...] = ()
    prologue: tuple[Line, ...] = ()


class Slurm(_Queue):
    """A Slurm cluster.

    Attributes
    ----------
    partition, account, interface : str, optional
        The interface is the network device that workers reach the driver through, such as "ib0".
    directives : list of str
        Further `#SBATCH` options, of the driver and of every worker.
    skip_directives : list of str
        Options that the site refuses, such as "--mem".
    environment : list of str
        Names of variables handed on from the shell that submits; all others stay behind.
    prologue : list of str
        Shell lines before the driver and before every worker, such as "module load python".
    one_allocation : bool
        True: scheduler, driver and workers share one job instead of each worker being a job of its own.
    """

    partition: Word | None = None
    one_allocation: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _one_kind_of_memory(self) -> Slurm:
        given = {line.split("=")[0].split()[0] for line in self.directives}
        kinds = given & {"--mem", "--mem-per-cpu", "--mem-per-gpu"}
        if len(kinds) > 1:
            raise ValueError("directives: one of --mem, --mem-per-cpu and --mem-per-gpu; Slurm takes no two of them")
        return self


class Pbs(_Queue):
    """A PBS cluster; attributes as for Slurm."""

    queue: Word | None = None


class Kubernetes(_Section):
    """A Kubernetes cluster, for workers with the Dask operator.

    Attributes
    ----------
    image : str
        Holds fastdp-dask (see cluster/kubernetes/Containerfile).
    claim, mount : str
        The persistent volume claim that keeps the run folder, and where it is mounted.
    claim_size : bytes, optional
        Makes the claim as well.
    secret : str, optional
        Of type TLS with ca.crt, tls.crt and tls.key, mounted where `[tls]` points to.
    credentials : str, optional
        A secret whose entries become environment variables, for storage that asks for them.
    schedule : str, optional
        A cron expression: a CronJob that repeats the job instead of one Job.
    retries : int
        How many failures other than a full budget are tried again.
    """

    image: Line
    claim: Name
    mount: Inside = "/checkpoint"
    claim_size: Memory | None = None
    namespace: Name | None = None
    secret: Name | None = None
    credentials: Name | None = None
    service_account: Name | None = None
    schedule: Line | None = None
    retries: Annotated[int, Field(strict=True, ge=0)] = 3


class Job(_Section):
    """A fit, and the means it is computed with.

    Attributes
    ----------
    data : path or URL
        Store written by fastdp ingest.
    target : str, optional
        Checked against the store's.
    bounds : path, optional
        Declared bounds and categories instead of the store's own.
    epsilon, delta, solver, preset, n_iter, k1, k2, persist, ledger, uncertainty, allow_missing_chunks
        As of fastdp fit.
    storage : table, optional
        What the storage of a URL needs beside it, such as endpoint_url; no credentials.
    run_dir : path
        Run folder on a file system that driver and workers share; holds plan, releases, model, scripts and logs.
    walltime, notice : seconds
        Time limit of a job, and how long before its end the fit stops and asks to be run again.
    max_restarts : int
        After how many restarts a job is left as it is.
    tls : Tls, optional
        Without it the workers that a driver submits get keys of that run alone.
    insecure : bool
        True: take plain connections to a scheduler that the driver does not start, on a network that is private.
    """

    name: Name = "fastdp"
    data: Place
    target: Line | None = None
    bounds: Place | None = None
    epsilon: Annotated[Number, Field(gt=0)]
    delta: Annotated[Number, Field(gt=0, lt=1)]
    solver: Literal["auto", "fastihm", "ihm", "adassp", "linear_mixing", "fast_linear_mixing"] = "auto"
    preset: Literal["tight", "paper"] = "tight"
    n_iter: Count | None = None
    k1: Count | None = None
    k2: Count | None = None
    persist: Annotated[bool, Field(strict=True)] | None = None
    uncertainty: Annotated[bool, Field(strict=True)] = False
    allow_missing_chunks: Annotated[bool, Field(strict=True)] = False
    storage: dict[Variable, Setting] = Field(default_factory=dict)
    ledger: Place | None = None
    run_dir: Place
    walltime: Duration = 3600
    notice: Duration = 120
    max_restarts: Annotated[int, Field(strict=True, ge=0)] = 20
    workers: Workers = Workers()
    driver: Driver = Driver()
    tls: Tls | None = None
    insecure: Annotated[bool, Field(strict=True)] = False
    seeds: Seeds | None = None
    slurm: Slurm | None = None
    pbs: Pbs | None = None
    kubernetes: Kubernetes | None = None

    @field_validator("storage")
    @classmethod
    def _no_credentials(cls, storage: dict[str, Any]) -> dict[str, Any]:
        names = [*storage, *(name for each in storage.values() if isinstance(each, dict) for name in each)]
        if any(re.search("key|secret|token|pass|cred", name, re.IGNORECASE) for name in names):
            raise ValueError(
                "settings without credentials, which belong to the environment: a job file holds no secret"
            )
        return storage

    @model_validator(mode="after")
    def _times_fit(self) -> Job:
        if self.notice >= self.walltime:
            raise ValueError("notice: shorter than walltime, as nothing is computed after it")
        if self.workers.processes > self.workers.cores:
            raise ValueError("workers.processes: at most workers.cores, one core for each")
        return self

    @property
    def lifetime(self) -> int:
        """Seconds after which a worker leaves by itself, up to `stagger` sooner or later; below walltime."""
        return max(1, self.walltime * 11 // 12)

    @property
    def stagger(self) -> int:
        """Seconds by which the workers' ends are spread, so that they do not all leave at once."""
        return self.walltime // 15
