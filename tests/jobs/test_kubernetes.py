"""Manifests against the schemas of a Kubernetes server and of the Dask operator."""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from job_cases import MINIMAL, job
from programs import needs_distribution

from fastdp_dask.errors import ArgumentError
from fastdp_dask.jobs.kubernetes import documents, manifest, scheduler_address
from fastdp_dask.jobs.model import Job
from fastdp_dask.jobs.reading import parse_job

TLS = {"ca_file": "/tls/ca.pem", "cert": "/tls/cert.pem", "key": "/tls/key.pem"}
PLAIN = MINIMAL["kubernetes"]
WHOLE = {**PLAIN, "namespace": "lab", "claim_size": "20GiB", "secret": "keys", "credentials": "storage",
         "service_account": "fit"}  # fmt: skip
CASES = {
    "plain": job(),
    "whole": job(kubernetes=WHOLE, tls=TLS, insecure=False),
    "cron": job(kubernetes={**PLAIN, "schedule": "0 2 * * 1"}),
    "alone": job(workers={"count": 0}, insecure=False),
}


def of_kind(asked: Job, kind: str) -> dict[str, Any]:
    (found,) = [each for each in documents(asked) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("version", [kubernetes_validate.latest_version(), "1.30"])
@pytest.mark.parametrize("name", CASES)
def test_a_server_takes_the_manifests(name: str, version: str) -> None:
    for each in yaml.safe_load_all(manifest(CASES[name])):
        if each["kind"] != "DaskCluster":
            kubernetes_validate.validate(each, version, strict=True)


def test_the_schemas_can_refuse() -> None:
    broken = of_kind(CASES["plain"], "Job")
    broken["spec"]["podFailurePolicies"] = broken["spec"].pop("podFailurePolicy")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.30", strict=True)


@pytest.mark.parametrize("name", ["plain", "whole"])
def test_the_pods_of_a_cluster_are_pods(name: str) -> None:
    """The operator puts these specifications into pods and a service as they are."""
    spec = of_kind(CASES[name], "DaskCluster")["spec"]
    for part in ("worker", "scheduler"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec[part]["spec"]}
        kubernetes_validate.validate(pod, "1.30", strict=True)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": spec["scheduler"]["service"]}
    kubernetes_validate.validate(service, "1.30", strict=True)


@pytest.mark.site
@pytest.mark.parametrize("name", ["plain", "whole"])
def test_the_operator_takes_the_cluster(name: str) -> None:
    """Against the resource definition in dask-kubernetes, of which nothing is imported: it may lack its own needs."""
    needs_distribution("dask-kubernetes")
    files = importlib.metadata.files("dask-kubernetes") or []
    (path,) = [each for each in files if each.match("crds/daskcluster.yaml")]
    definition = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # 280 kB
    (version,) = [each for each in definition["spec"]["versions"] if each["name"] == "v1"]
    schema = version["schema"]["openAPIV3Schema"]
    cluster = of_kind(CASES[name], "DaskCluster")
    jsonschema.validate(cluster, schema)
    for broken in ("scheduler", "worker"):
        lacking = {**cluster, "spec": {each: part for each, part in cluster["spec"].items() if each != broken}}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(lacking, schema)


def test_what_ends_a_job_and_what_is_tried_again() -> None:
    spec = of_kind(CASES["plain"], "Job")["spec"]
    rules = {rule["action"]: [] for rule in spec["podFailurePolicy"]["rules"]}
    for rule in spec["podFailurePolicy"]["rules"]:
        rules[rule["action"]] += rule.get("onExitCodes", {}).get("values", [])
    assert rules == {"FailJob": [2, 3], "Ignore": [75]}
    assert spec["backoffLimit"] == 3
    pod = spec["template"]["spec"]
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 60)
    assert pod["containers"][0]["name"] == "driver"  # the name that the rules speak of


def test_the_run_folder_outlives_the_pod_and_settings_reach_it() -> None:
    asked = CASES["whole"]
    container = of_kind(asked, "Job")["spec"]["template"]["spec"]["containers"][0]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert asked.run_dir.startswith(mounts["checkpoint"] + "/")
    assert mounts["tls"] == "/tls"
    assert container["args"] == [
        "fastdp", "run-job", "/etc/fastdp/job.json", "--on", "kubernetes", "--scheduler", scheduler_address(asked),
    ]  # fmt: skip
    config = of_kind(asked, "ConfigMap")["data"]
    assert parse_job(json.loads(config["job.json"]), "x") == asked
    assert json.loads(config["dask.json"])["distributed"]["comm"] == {"require-encryption": True}
    assert scheduler_address(asked) == "tls://fastdp-scheduler:8786"
    claim = of_kind(asked, "PersistentVolumeClaim")
    assert claim["metadata"]["name"] == "fastdp"
    assert claim["spec"]["resources"]["requests"]["storage"] == "20480Mi"


def test_secrets_are_named_and_never_held() -> None:
    text = manifest(CASES["whole"])
    assert "secretName: keys" in text
    assert "secretRef" in text
    assert "kind: Secret" not in text
    scheduler = yaml.safe_dump(of_kind(CASES["whole"], "DaskCluster")["spec"]["scheduler"])
    assert "storage" not in scheduler  # nor the volume: it computes nothing
    assert "checkpoint" not in scheduler


def test_a_schedule_makes_a_cron_job_that_never_overlaps() -> None:
    kinds = [each["kind"] for each in documents(CASES["cron"])]
    assert kinds == ["ConfigMap", "DaskCluster", "CronJob"]
    assert of_kind(CASES["cron"], "CronJob")["spec"]["concurrencyPolicy"] == "Forbid"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"run_dir": "/tmp/run1"}, "run_dir: expected a folder below kubernetes.mount /checkpoint, got /tmp/run1"),
        ({"insecure": False}, "tls: expected certificates for the workers, got none"),
        ({"tls": TLS}, "tls and kubernetes.secret: expected both or neither, got one"),
        (
            {"tls": {**TLS, "key": "/other/key.pem"}, "kubernetes": WHOLE},
            "tls: expected ca_file, cert and key in one folder for Kubernetes, got 2 folders",
        ),
    ],
)
def test_what_cannot_work_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        manifest(job(**changes))
    assert said in str(caught.value)
