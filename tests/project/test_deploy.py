"""The files of deploy/: valid by the schemas of compose and Kubernetes, and in keeping with the image and the hub."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from jsonschema import Draft202012Validator

from app.cli.main import application
from app.settings.settings import PREFIX, Settings, load_settings
from app.web.api.contract import openapi_document
from app.web.application import build_api
from app.web.problem import Problems
from runtime.process import CLOSING_SECONDS

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "docker-compose.yml"
AUDIT = ROOT / "deploy" / "kubernetes" / "audit.yaml"
KUBERNETES = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
SCHEMA = json.loads((Path(__file__).parent / "kubernetes-schema.json").read_text("utf-8"))
KNOWN = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}


def objects() -> dict[str, Any]:
    return {each["kind"]: each for path in KUBERNETES for each in yaml.safe_load_all(path.read_text("utf-8"))}


def faults(thing: dict[str, Any]) -> list[str]:
    """What Kubernetes' own schema says against an object, unknown fields too."""
    kind = SCHEMA["kinds"].get(f"{thing['apiVersion']} {thing['kind']}")
    if kind is None:
        return [f"{thing['kind']} is not in the schema: scripts/kubernetes_schema.py"]
    return [error.message for error in Draft202012Validator({**kind, "$defs": SCHEMA["$defs"]}).iter_errors(thing)]


@pytest.mark.parametrize("kind", ["Secret", "Deployment", "Service", "PodDisruptionBudget", "CronJob"])
def test_an_object_follows_the_schema_of_kubernetes(kind: str) -> None:
    assert faults(objects()[kind]) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("replicas: 2", "replicas: two"), ("containerPort", "port"), ("args:", "arguments:"), ("apps/v1", "apps/v2")],
)
def test_the_schema_finds_a_fault(old: str, new: str) -> None:
    text = (ROOT / "deploy/kubernetes/hub.yaml").read_text("utf-8").replace(old, new)
    assert faults(next(yaml.safe_load_all(text))) != []


def test_the_objects_fit_the_image_and_the_hub() -> None:
    """FT-20, EC-13: settings that exist, ports and labels that agree, probes of routes, a stop in time."""
    pod = objects()["Deployment"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    env = {one["name"]: one["value"] for one in container["env"]} | objects()["Secret"]["stringData"]
    ports = {one["name"]: str(one["containerPort"]) for one in container["ports"]}
    probes = {container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")}

    assert (env.keys() - KNOWN, container["args"], "command" in container) == (set(), ["serve"], False)
    assert [env[name].rpartition(":")[2] for name in ("HOOKWIRE_LISTEN", "HOOKWIRE_METRICS_LISTEN")] == [
        ports["http"], ports["metrics"],
    ]  # fmt: skip
    assert objects()["Service"]["spec"]["selector"] == pod["metadata"]["labels"] == {"app": "hookwire"}
    assert probes <= openapi_document(build_api(Problems("https://hub.example")))["paths"].keys()
    assert f"USER {pod['spec']['securityContext']['runAsUser']}\n" in DOCKERFILE
    assert pod["spec"]["terminationGracePeriodSeconds"] >= (
        float(env["HOOKWIRE_STOP_DELAY_SECONDS"]) + load_settings({}).drain_seconds + CLOSING_SECONDS
    )
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    assert any(env["HOOKWIRE_DATA_DIR"].startswith(mount) for mount in mounts)


def test_the_audit_of_the_night_fits_the_image_and_the_settings() -> None:
    """GP-14: settings and a command that exist, the image's account, no second try, and an end. Of the hub's secrets it
    has two, and not the key of its administrator."""
    spec = objects()["CronJob"]["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    group: Any = typer.main.get_command(application())
    verb, name = container["args"]
    secret, env = objects()["Secret"], {one["name"]: one for one in container["env"]}
    referred = {name: one["valueFrom"]["secretKeyRef"] for name, one in env.items() if "valueFrom" in one}
    assert (name in group.commands[verb].commands, spec["backoffLimit"], pod["restartPolicy"]) == (True, 0, "Never")
    assert (spec["activeDeadlineSeconds"], pod["automountServiceAccountToken"]) == (6 * 3600, False)
    assert [each["secretRef"]["name"] for each in container["envFrom"]] == ["hookwire-lake"]
    assert (env.keys() | set(re.findall(r"# - \{name: (\w+)", AUDIT.read_text("utf-8")))) - KNOWN == set()
    assert referred == {
        name: {"name": secret["metadata"]["name"], "key": name}
        for name in ("HOOKWIRE_DATABASE_URL", "HOOKWIRE_SECRET_KEYS")
    }
    assert referred.keys() <= secret["stringData"].keys()
    assert f"USER {pod['securityContext']['runAsUser']}\n" in (ROOT / "Dockerfile.lake").read_text("utf-8")


def test_the_compose_file_follows_its_schema() -> None:
    command = [
        Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE),
    ]  # fmt: skip
    verdict = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert verdict.returncode == 0, verdict.stdout


def test_the_compose_file_fits_the_image_and_the_hub() -> None:
    """Settings that exist, the port that the image listens on, its volume, a stop in time, and no default password."""
    service = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]["hookwire"]
    [port], [volume] = service["ports"], service["volumes"]
    shape = {
        "unknown": set(service["environment"]) - KNOWN,
        "port": f"EXPOSE {port.rpartition(':')[2]}\n" in DOCKERFILE,
        "volume": f"VOLUME {volume.partition(':')[2]}\n" in DOCKERFILE,
        "in time": int(service["stop_grace_period"][:-1]) > load_settings({}).drain_seconds + CLOSING_SECONDS,
        "own command": {"command", "entrypoint", "user", "healthcheck"} & set(service),
        "passwords": re.findall(r"(?:PASSWORD|TOKEN):-", COMPOSE.read_text("utf-8")),
    }
    assert shape == {
        "unknown": set(), "port": True, "volume": True, "in time": True, "own command": set(), "passwords": [],
    }  # fmt: skip
