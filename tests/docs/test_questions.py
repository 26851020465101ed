"""Questions of users that no page answered: Kubernetes, limits, slow endpoints, erasing, PgBouncer, Grafana (FT-20)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.settings.settings import Settings
from app.web.api.contract import openapi_document
from app.web.application import build_api
from app.web.problem import Problems

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs/how-to"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
QUESTIONS = {
    "run it on Kubernetes": ("kubernetes.md", "kind: Deployment"),
    "limit a customer": ("limit-a-customer.md", "rate_per_second"),
    "erase a customer's data": ("erase-a-customer.md", "pipeline erase"),
    "how fast an endpoint answers": ("metrics.md", "percentile_disc"),
    "behind PgBouncer": ("production.md", "PgBouncer"),
    "in Grafana": ("metrics.md", "examples/grafana/hookwire.json"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_in_users_words_has_its_page(question: str) -> None:
    """FT-20: and the index leads to it."""
    page, answer = QUESTIONS[question]

    assert answer in (HOW_TO / page).read_text("utf-8")
    assert f"(how-to/{page})" in (ROOT / "docs/README.md").read_text("utf-8")


def test_the_readme_begins_with_listen_and_gives_rates_that_can_be_read() -> None:
    """FT-18: events per second; `hookwire listen` before any callback; docker compose up; no package to install."""
    readme = (ROOT / "README.md").read_text("utf-8")
    numbers = readme.partition("## Numbers")[2].partition("\n## ")[0]
    tour = readme.partition("## Five minutes")[2].partition("\n## ")[0]

    assert re.findall(r"\d of (?:a|raw) ", numbers) == []
    assert re.search(r"publishing over HTTP.*\| [\d,]+ to [\d,]+ events/s", numbers)
    assert 0 < tour.index("hookwire listen") < tour.index("/subscriptions")
    assert ("docker compose up" in readme, "pip install" in tour) == (True, False)


def kubernetes_objects() -> dict[str, Any]:
    text = "".join(re.findall(r"^```yaml\n(.*?)^```", (HOW_TO / "kubernetes.md").read_text("utf-8"), re.M | re.S))
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def test_the_objects_of_the_kubernetes_page_fit_the_image_and_the_hub() -> None:
    """FT-20, EC-13: known kinds, settings that exist, ports and labels that agree, probes of routes, a stop in time."""
    objects = kubernetes_objects()
    pod = objects["Deployment"]["spec"]["template"]
    [container] = pod["spec"]["containers"]
    env = {one["name"]: one["value"] for one in container["env"]} | objects["Secret"]["stringData"]
    ports = {one["name"]: str(one["containerPort"]) for one in container["ports"]}
    probes = {container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")}
    known = {f"HOOKWIRE_{name.upper()}" for name in Settings.model_fields}

    assert {kind: each["apiVersion"] for kind, each in objects.items()} == {
        "Secret": "v1", "Deployment": "apps/v1", "Service": "v1", "PodDisruptionBudget": "policy/v1",
    }  # fmt: skip
    assert (env.keys() - known, container["args"]) == (set(), ["serve"])
    assert [env[name].rpartition(":")[2] for name in ("HOOKWIRE_LISTEN", "HOOKWIRE_METRICS_LISTEN")] == [
        ports["http"], ports["metrics"],
    ]  # fmt: skip
    assert objects["Service"]["spec"]["selector"] == pod["metadata"]["labels"] == {"app": "hookwire"}
    assert probes <= openapi_document(build_api(Problems("https://hub.example")))["paths"].keys()
    assert f"USER {pod['spec']['securityContext']['runAsUser']}\n" in DOCKERFILE
    assert pod["spec"]["terminationGracePeriodSeconds"] >= 5 + Settings().drain_seconds + 3
    mounts = [one["mountPath"] for one in container["volumeMounts"]]
    assert any(env["HOOKWIRE_DATA_DIR"].startswith(mount) for mount in mounts)


def test_the_dashboard_shows_metrics_that_the_page_lists() -> None:
    """FT-20: each metric of an expression is in a table of docs/how-to/metrics.md, which names those that there are."""
    board = json.loads((ROOT / "examples/grafana/hookwire.json").read_text("utf-8"))
    shown = {
        name.removesuffix("_bucket")
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"hookwire_\w+", target["expr"])
    }
    listed = set(re.findall(r"^\| `(hookwire_\w+)`", (HOW_TO / "metrics.md").read_text("utf-8"), re.M))

    assert (shown - listed, len(shown) >= 12) == (set(), True)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_each_answer_in_users_words_is_run_and_held_to_what_it_says() -> None:
    """The page's own blocks run in test_docs.py; an answer without one would be a promise alone."""
    page = (HOW_TO / "questions.md").read_text("utf-8")
    answers = {head: text for head, _, text in (part.partition("\n") for part in page.split("\n## ")[1:])}
    unproved = {
        head for head, text in answers.items() if not re.search(r"^```\w+ test$.*?^<!-- \w+: ", text, re.M | re.S)
    }

    assert (unproved, len(answers) >= 11) == (set(), True)
