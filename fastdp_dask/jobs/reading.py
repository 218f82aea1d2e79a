"""A job file becomes a `Job`, or one message that names every field that is wrong."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs.fields import is_url
from fastdp_dask.jobs.model import Job

KINDS = ("slurm", "pbs", "kubernetes")


def read_job(path: str | os.PathLike[str], kind: str | None = None) -> Job:
    """The job that a TOML file (or JSON of the same shape) describes.

    Parameters
    ----------
    path : path-like
        Relative places in it are taken from its folder.
    kind : {"slurm", "pbs", "kubernetes"}, optional
        The section that must be there.  For Kubernetes every place must be absolute, as it is one in a container.

    Raises
    ------
    ArgumentError
        If the file cannot be read, or for each field that is unknown, missing or out of its range.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8-sig")
        table = json.loads(text) if source.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArgumentError(f"JOB file {source} cannot be read ({reason}). Expected TOML; correct it.") from None
    job = parse_job(table, str(source))
    if kind is not None and getattr(job, kind) is None:
        raise ArgumentError(
            f"{source}: a section [{kind}] is expected to submit to {kind}, got none. Add one; every field of it "
            "but Kubernetes' image and claim has a default."
        )
    return _placed(job, source, kind)


def parse_job(table: Any, where: str) -> Job:
    """The job of a table; `where` names the file in messages.

    Raises
    ------
    ArgumentError
        Naming each field that is wrong, what was expected, what came and the next step.
    """
    try:
        return Job.model_validate(table)
    except ValidationError as error:
        faults = [_fault(fault) for fault in error.errors(include_url=False, include_context=False)]
    raise ArgumentError(f"{where}: {'; '.join(faults)}. Correct the file and run again.")


def _fault(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        *parents, last = fault["loc"]
        known = _fields(parents)
        near = difflib.get_close_matches(str(last), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
        return f"{where} is not a field ({hint})"
    if fault["type"] == "missing":
        return f"{where} is missing"
    expected = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if "string_pattern" in fault["type"]:
        expected = "letters, digits and - only" if "[a-z]" in expected else "a word without spaces or quotes"
    if "byte_size" in fault["type"]:
        expected = 'a size such as "8GiB"'
    if "secret" in expected:  # what came holds one
        return f"{where}: expected {expected}"
    return f"{where}: expected {expected}, got {_shown(fault['input'])}" if where else f"expected {expected}"


def _fields(parents: list[Any]) -> list[str]:
    model: Any = Job
    for parent in parents:
        annotation = model.model_fields[parent].annotation
        found = [kind for kind in (annotation, *getattr(annotation, "__args__", ())) if _is_model(kind)]
        if not found:
            return []
        model = found[0]
    return list(model.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _placed(job: Job, source: Path, kind: str | None) -> Job:
    """The job with its relative places made absolute."""
    inside = kind == "kubernetes"

    def put(name: str, place: str | None) -> str | None:
        if place is None or is_url(place) or os.path.isabs(place):
            return place
        if inside:
            raise ArgumentError(
                f"{source}: {name}: expected an absolute path inside the container for Kubernetes, got {place!r}. "
                "Write it as the driver will see it."
            )
        return os.path.abspath(source.parent / place)

    if is_url(job.run_dir) or (job.ledger is not None and is_url(job.ledger)):
        raise ArgumentError(
            f"{source}: run_dir and ledger: expected paths on a file system, got a URL. Their locks and their durable "
            "writes need one."
        )
    changed: dict[str, Any] = {name: put(name, getattr(job, name)) for name in ("data", "bounds", "ledger", "run_dir")}
    if not is_url(job.data) and Path(changed["run_dir"]).is_relative_to(changed["data"]):
        raise ArgumentError(
            f"{source}: run_dir: expected a folder outside of data, got {job.run_dir!r}: writing the data anew would "
            "remove it, with releases that were paid for. Choose another folder."
        )
    if job.tls is not None:
        files = {name: put(f"tls.{name}", getattr(job.tls, name)) for name in ("ca_file", "cert", "key")}
        changed["tls"] = job.tls.model_copy(update=files)
    if job.workers.scratch is not None:
        scratch = put("workers.scratch", job.workers.scratch)
        changed["workers"] = job.workers.model_copy(update={"scratch": scratch})
    return job.model_copy(update=changed)
