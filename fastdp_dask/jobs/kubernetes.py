"""Manifests of a Kubernetes job: its file, its volume, its workers, and a Job or a CronJob around the driver."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import yaml

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs.model import Job, Kubernetes
from fastdp_dask.jobs.shell import megabytes
from fastdp_dask.jobs.workers import dask_config

_SETTINGS = "/etc/fastdp"
_GRACE = 60  # seconds between SIGTERM and SIGKILL; a stopped fit needs at most fifteen
_SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def manifest(job: Job) -> str:
    """The YAML of everything that the job consists of."""
    return str(yaml.dump_all(documents(job), Dumper=_Plain, sort_keys=False, width=100))


class _Plain(yaml.SafeDumper):
    """Every mapping written out where it stands, and texts of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Plain.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def documents(job: Job) -> list[dict[str, Any]]:
    """The manifests of `job`, in the order in which they are to be made.

    Raises
    ------
    ArgumentError
        If the run folder is outside of the volume that outlives a pod, or `[tls]` has no secret to come from.
    """
    kubernetes = job.kubernetes
    assert kubernetes is not None
    if not PurePosixPath(job.run_dir).is_relative_to(kubernetes.mount):
        raise ArgumentError(
            f"run_dir: expected a folder below kubernetes.mount {kubernetes.mount}, got {job.run_dir}. What is kept "
            "elsewhere ends with the pod, and the budget paid for it is lost."
        )
    if (job.tls is None) != (kubernetes.secret is None):
        raise ArgumentError(
            "tls and kubernetes.secret: expected both or neither, got one. The secret's files are mounted where [tls] "
            "points to."
        )
    if job.workers.count and job.tls is None and not job.insecure:
        raise ArgumentError(
            "tls: expected certificates for the workers, got none. Put those of fastdp certificates into a secret and "
            "name it in kubernetes.secret, or set insecure = true where a network policy keeps others out."
        )
    found = [_config(job, kubernetes)]
    if kubernetes.claim_size is not None:
        found.append(_claim(job, kubernetes))
    if job.workers.count:
        found.append(_cluster(job, kubernetes))
    found.append(_cron_job(job, kubernetes) if kubernetes.schedule else _job(job, kubernetes))
    return found


def scheduler_address(job: Job) -> str:
    """Where the operator puts the scheduler of this job's workers."""
    return f"{'tls' if job.tls else 'tcp'}://{job.name}-scheduler:8786"


def _metadata(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    place = {"namespace": kubernetes.namespace} if kubernetes.namespace else {}
    return {"name": job.name, **place, "labels": {"app.kubernetes.io/name": "fastdp", "fastdp/job": job.name}}


def _config(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    content = json.dumps(job.model_dump(mode="json", exclude_none=True, exclude_defaults=True), indent=1)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(job, kubernetes),
        "data": {"job.json": content + "\n", "dask.json": dask_config(job)},
    }


def _claim(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    assert kubernetes.claim_size is not None
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**_metadata(job, kubernetes), "name": kubernetes.claim},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": f"{megabytes(kubernetes.claim_size)}Mi"}},
        },
    }


def _volumes(job: Job, kubernetes: Kubernetes, role: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes of a pod, and where its container mounts them; a scheduler sees no data."""
    volumes: list[dict[str, Any]] = [
        {"name": "settings", "configMap": {"name": job.name}},
        {"name": "scratch", "emptyDir": {}},
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "settings", "mountPath": _SETTINGS, "readOnly": True},
        {"name": "scratch", "mountPath": "/tmp"},
    ]
    if role != "scheduler":
        volumes.append({"name": "checkpoint", "persistentVolumeClaim": {"claimName": kubernetes.claim}})
        mounts.append({"name": "checkpoint", "mountPath": kubernetes.mount})
    if job.tls is not None and kubernetes.secret is not None:
        names = {"ca.crt": job.tls.ca_file, "tls.crt": job.tls.cert, "tls.key": job.tls.key}
        folders = {str(PurePosixPath(path).parent) for path in names.values()}
        if len(folders) != 1:
            raise ArgumentError(
                f"tls: expected ca_file, cert and key in one folder for Kubernetes, got {len(folders)} folders. "
                "Put the three files into one."
            )
        items = [{"key": key, "path": PurePosixPath(path).name} for key, path in names.items()]
        secret = {"secretName": kubernetes.secret, "items": items, "defaultMode": 0o440}
        volumes.append({"name": "tls", "secret": secret})
        mounts.append({"name": "tls", "mountPath": folders.pop(), "readOnly": True})
    return volumes, mounts


def _container(job: Job, kubernetes: Kubernetes, role: str, arguments: list[str], **more: Any) -> dict[str, Any]:
    share = job.workers if role == "worker" else job.driver
    amounts = {"cpu": str(share.cores), "memory": f"{megabytes(share.memory)}Mi"}
    _, mounts = _volumes(job, kubernetes, role)
    credentials = {}
    if kubernetes.credentials and role != "scheduler":
        credentials["envFrom"] = [{"secretRef": {"name": kubernetes.credentials}}]
    return {
        "name": role,
        "image": kubernetes.image,
        "args": arguments,
        "env": [{"name": "DASK_CONFIG", "value": f"{_SETTINGS}/dask.json"}, {"name": "HOME", "value": "/tmp"}],
        **credentials,
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": _SAFE,
        "volumeMounts": mounts,
        **more,
    }


def _pod(job: Job, kubernetes: Kubernetes, container: dict[str, Any], **more: Any) -> dict[str, Any]:
    volumes, _ = _volumes(job, kubernetes, container["name"])
    account = {"serviceAccountName": kubernetes.service_account} if kubernetes.service_account else {}
    return {
        **more,
        **account,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001},
        "containers": [container],
        "volumes": volumes,
    }


def _driver(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    """Exit 3 (no budget) and 2 (usage) end the job; 75 (stopped, all kept) and an eviction are no failure."""
    command = ["fastdp", "run-job", f"{_SETTINGS}/job.json", "--on", "kubernetes"]
    if job.workers.count:
        command += ["--scheduler", scheduler_address(job)]
    container = _container(job, kubernetes, "driver", command)
    return {
        "backoffLimit": kubernetes.retries,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onExitCodes": {"containerName": "driver", "operator": "In", "values": [2, 3]}},
                {"action": "Ignore", "onExitCodes": {"containerName": "driver", "operator": "In", "values": [75]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]
        },
        "template": {
            "metadata": {"labels": {"fastdp/job": job.name}},
            "spec": _pod(
                job, kubernetes, container, restartPolicy="Never", terminationGracePeriodSeconds=_GRACE
            ),
        },
    }  # fmt: skip


def _job(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(job, kubernetes),
        "spec": _driver(job, kubernetes),
    }  # fmt: skip


def _cron_job(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    """Repeats the job: one that is done hands out its stored model and spends nothing."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": _metadata(job, kubernetes),
        "spec": {
            "schedule": kubernetes.schedule,
            "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": _driver(job, kubernetes)},
        },
    }


def _cluster(job: Job, kubernetes: Kubernetes) -> dict[str, Any]:
    security = []
    if job.tls is not None:
        security = ["--tls-ca-file", job.tls.ca_file, "--tls-cert", job.tls.cert, "--tls-key", job.tls.key]
        security += ["--protocol", "tls"]
    quiet = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    scheduler = _container(
        job, kubernetes, "scheduler", ["dask", "scheduler", "--host", "0.0.0.0", "--no-dashboard", *security],
        ports=[
            {"name": "tcp-comm", "containerPort": 8786, "protocol": "TCP"},
            {"name": "http-dashboard", "containerPort": 8787, "protocol": "TCP"},
        ],
    )  # fmt: skip
    processes = job.workers.processes
    worker = _container(
        job, kubernetes, "worker",
        [
            "dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--nworkers", str(processes),
            "--nthreads", str(max(1, job.workers.cores // processes)),
            "--memory-limit", str(job.workers.memory // processes),
            "--local-directory", job.workers.scratch or "/tmp", *quiet, *security,
        ],
    )  # fmt: skip
    port = {"protocol": "TCP"}
    return {
        "apiVersion": "kubernetes.dask.org/v1",
        "kind": "DaskCluster",
        "metadata": _metadata(job, kubernetes),
        "spec": {
            "worker": {"replicas": job.workers.count, "spec": _pod(job, kubernetes, worker)},
            "scheduler": {
                "spec": _pod(job, kubernetes, scheduler),
                "service": {
                    "type": "ClusterIP",
                    "selector": {"dask.org/cluster-name": job.name, "dask.org/component": "scheduler"},
                    "ports": [
                        {"name": "tcp-comm", "port": 8786, "targetPort": "tcp-comm", **port},
                        {"name": "http-dashboard", "port": 8787, "targetPort": "http-dashboard", **port},
                    ],
                },
            },
        },
    }
