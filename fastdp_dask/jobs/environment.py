"""Which variables of a shell a job gets to see: few, and those that the job file names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_KEPT = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR"}
_CLIENTS = {"SLURM_CONF", "PBS_CONF_FILE", "PBS_EXEC", "PBS_HOME", "PBS_SERVER", "PBS_DEFAULT"}
_INHERITED = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SCANCEL_", "PBS_")


def handed_on(environment: Mapping[str, str], names: Sequence[str] = ()) -> dict[str, str]:
    """What is submitted with: the usual names, where the queue's commands find it, and `names`.

    A batch system writes the submitter's environment down on its own disks, so that a token in it would end up there.
    """
    wanted = _KEPT | _CLIENTS | set(names)
    return {name: value for name, value in environment.items() if name in wanted or name.startswith("LC_")}


def without_job(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what the surrounding job of a batch system put there.

    Such variables are defaults of sbatch and qsub: the memory of the driver would be asked for by every worker.
    """
    return {name: value for name, value in environment.items() if name in _CLIENTS or not name.startswith(_INHERITED)}
