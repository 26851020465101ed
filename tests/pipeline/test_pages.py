"""The how-to pages of the lake: commands run as they stand; what needs a cluster is compared with Spark's classes."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pyspark
import pytest
import typer.main
import yaml

from app.cli.main import application
from pipeline.failure import hadoop_version
from scripts.demo_stage import running_hub
from scripts.pipeline_demo import close_the_hour, webhook
from scripts.servers.kafka import KafkaServer
from tests.waiting import until

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
LAKE_PAGES = sorted(page.name for page in [*PAGES.glob("lake-*.md"), PAGES / "pipeline.md"])
CLUSTER_PAGES = ("lake-kubernetes.md", "lake-yarn.md")
JARS = Path(pyspark.__file__).parent / "jars"
BLOCK_SECONDS_MAX = 900


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page whose fence has these words."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)


def shown(text: str, environment: dict[str, str], folder: Path) -> str:
    """Run a block by bash, which ends at the first command that fails; what it printed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env={"PATH": path, "HOME": str(folder), **environment},
        capture_output=True, text=True, timeout=BLOCK_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    return done.stdout


async def published(url: str, callback: str) -> None:
    """Publish events of two keys, and wait until they are in Kafka and delivered."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as hub:
        await hub.post("/subscriptions", json={"topic": "orders", "callback": callback, "retry_schedule_seconds": [1]})
        ids = []
        for key in ("customer-17", "customer-18"):
            answer = await hub.post("/topics/orders/events", json={"order": 1}, headers={"Hookwire-Key": key})
            ids.append(answer.json()["id"])

        async def holds() -> object:
            return all([await is_through(hub, event_id) for event_id in ids])

        await until(holds)


async def is_through(hub: httpx.AsyncClient, event_id: str) -> bool:
    event = (await hub.get(f"/events/{event_id}")).json()
    states = {sink["sink"]: sink["state"] for sink in event["sinks"]}
    return states.get("kafka") == "sent" and [one["state"] for one in event["deliveries"]] == ["delivered"]


@pytest.mark.slow
@pytest.mark.timeout(3600)  # a dozen sessions of Spark, one after the other
def test_the_pages_are_followed_from_the_archive_to_the_erasure(
    kafka: KafkaServer, topic: str, servers_folder: Path, free_port: int
) -> None:
    """Each marked block runs as it is written, but for the broker's address and the topic's prefix.

    A running hub sets the ledger's time back to the present, so each audit runs between two hubs.
    """
    folder = servers_folder / topic
    folder.mkdir()
    folder.chmod(0o711)  # under root the database's account passes through
    settings = {
        "HOOKWIRE_DATA_DIR": str(folder / "data"), "HOOKWIRE_LISTEN": f"127.0.0.1:{free_port}",
        "HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap, "HOOKWIRE_KAFKA_TOPIC_PREFIX": f"{topic}-",
        "HOOKWIRE_PIPELINE_MASTER": "local[2]", "HOOKWIRE_EGRESS_ALLOW_CIDRS": "127.0.0.0/8",
    }  # fmt: skip

    def installed() -> str:
        """The doctor runs. What would change this environment is only printed."""
        python = folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text('#!/bin/sh\necho "$@"\n')
        python.chmod(0o755)
        return shown(blocks("pipeline.md", "sh")[0], settings, folder)

    def followed(page: str, *numbers: int) -> str:
        """Run these blocks of a page; without numbers, run all."""
        found = blocks(page, "sh lake")
        lines = "\n".join(found[number] for number in numbers or range(len(found))).replace(
            "kafka-1:9092", kafka.bootstrap
        )
        return shown(lines.replace("--topic orders", f"--topic {topic}-orders"), settings, folder)

    async def walked() -> list[str]:
        async with webhook() as callback:
            async with running_hub(folder, settings) as (url, _):
                await published(url, callback)
            printed = [await asyncio.to_thread(installed)]
            printed.append(await asyncio.to_thread(followed, "pipeline.md"))
            await close_the_hour(settings)
            printed.append(await asyncio.to_thread(followed, "lake-insight.md"))
            async with running_hub(folder, settings):
                for page, numbers in (("lake-backfill.md", ()), ("lake-replay.md", (0,)), ("lake-typed.md", ())):
                    printed.append(await asyncio.to_thread(followed, page, *numbers))
            await close_the_hour(settings)
            printed.append(await asyncio.to_thread(followed, "lake-replay.md", 1))
        return [*printed, await asyncio.to_thread(followed, "lake-upkeep.md")]

    doctor, archived, _, backfilled, replayed, typed, lost, kept = asyncio.run(walked())
    assert doctor.startswith("-m pip install -e .[spark]\n"), doctor
    assert "the receiver got exactly the range" in backfilled, backfilled
    report = (folder / "report.html").read_text()
    assert ("2 records in 1 batch" in archived, "<svg" in report, ": 1 published" in replayed) == (True, True, True)
    assert "2 rows; 0 were rejected" in typed, typed
    assert "1 record and 1 typed row erased from 2 files" in kept, kept
    assert ": 0 published" in lost, lost


def test_each_page_of_the_lake_has_blocks_that_run() -> None:
    """So that a changed fence is noticed."""
    counts = {page: len(blocks(page, "sh lake") + blocks(page, "sh s3")) for page in LAKE_PAGES}
    assert counts == {
        "lake-backfill.md": 1, "lake-insight.md": 2, "lake-kubernetes.md": 0, "lake-replay.md": 2,
        "lake-s3.md": 1, "lake-typed.md": 1, "lake-upkeep.md": 2, "lake-yarn.md": 0, "pipeline.md": 1,
    }  # fmt: skip


@pytest.mark.parametrize("page", LAKE_PAGES)
def test_each_command_of_a_page_has_the_options_that_it_names(page: str) -> None:
    """Also those that need a cluster."""
    verbs: Any = typer.main.get_command(application())
    text = re.sub(r"\s*\n\s+(?=--)", " ", (PAGES / page).read_text())
    wrong = []
    for line in re.findall(r"^\s*(?:exec )?hookwire pipeline (.+)$", text, re.MULTILINE):
        verb, *words = shlex.split(line.partition(" > ")[0], comments=True)
        known = {option for each in verbs.commands["pipeline"].commands[verb].params for option in each.opts}
        wrong += [word for word in words if word.startswith("--") and word not in known]
    assert wrong == []


@cache
def constants() -> bytes:
    """The bytes of all classes of Spark's core, launcher, Kubernetes and YARN."""
    parts = []
    for name in ("core", "launcher", "kubernetes", "yarn"):
        [jar] = JARS.glob(f"spark-{name}_*.jar")
        with zipfile.ZipFile(jar) as opened:
            parts += [opened.read(entry) for entry in opened.namelist() if entry.endswith(".class")]
    return b"\n".join(parts)


@pytest.mark.parametrize("page", CLUSTER_PAGES)
def test_a_cluster_page_names_only_what_spark_has(page: str) -> None:
    """FP-13: settings, variables, options of spark-submit and of the executor, and the executor's class."""
    text = (PAGES / page).read_text()
    names = set(re.findall(r"(?<![\w.])spark\.[A-Za-z]\w*(?:\.\w+)*", text))
    names |= set(re.findall(r"\bSPARK_[A-Z_]+", text)) | set(re.findall(r"--(?:driver-url|\w+Id|podName)\b", text))
    for command in re.findall(r"^spark-submit (.+) \"\$\(", text, re.MULTILINE):
        names |= {word for word in command.split() if word.startswith("--")}
    found = {name for name in names if name.encode() in constants()}
    assert (names - found, len(names) > 5) == (set(), True)
    for qualified in re.findall(r"org\.apache\.spark\.[\w.]+", text):
        assert any(
            qualified.replace(".", "/") + ".class" in zipfile.ZipFile(jar).namelist() for jar in JARS.glob("spark-*")
        )


def test_the_kubernetes_page_has_objects_that_kubernetes_knows() -> None:
    """FP-13: kinds and versions, one name and one account in all of them, and a volume of the right name."""
    objects = [each for block in blocks("lake-kubernetes.md", "yaml") for each in yaml.safe_load_all(block)]
    kinds = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in objects if "kind" in each]
    assert kinds == [
        ("batch/v1", "CronJob", "hookwire-archive"),
        ("rbac.authorization.k8s.io/v1", "Role", "hookwire-lake"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding", "hookwire-lake"),
        ("v1", "ConfigMap", "hookwire-executor"),
    ]
    pod = objects[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    binding = next(each for each in objects if each.get("kind") == "RoleBinding")
    assert pod["serviceAccountName"] == binding["subjects"][0]["name"] == "hookwire-lake"
    assert pod["containers"][0]["args"] == ["pipeline", "archive"]


def test_the_executor_of_the_kubernetes_page_starts_spark_with_what_kubernetes_gives_it(tmp_path: Path) -> None:
    """FP-13: its command is run with a Java that prints its arguments."""
    objects = [each for block in blocks("lake-kubernetes.md", "yaml") for each in yaml.safe_load_all(block)]
    pod = yaml.safe_load(next(each for each in objects if each.get("kind") == "ConfigMap")["data"]["executor.yaml"])
    command = pod["spec"]["containers"][0]["command"]
    java = tmp_path / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    given = {
        "SPARK_DRIVER_URL": "spark://driver", "SPARK_EXECUTOR_ID": "1", "SPARK_EXECUTOR_CORES": "2",
        "SPARK_EXECUTOR_MEMORY": "2g", "SPARK_APPLICATION_ID": "app", "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
        "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_EXECUTOR_POD_NAME": "pod", "SPARK_JAVA_OPT_0": "-Da=b",
        "SPARK_JAVA_OPT_11": "-Dc=d",
    }  # fmt: skip
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "executor"], env={"PATH": path, **given}, capture_output=True, text=True, check=True
    )
    words = done.stdout.split()
    assert (set(words[:2]), words[2:6]) == ({"-Da=b", "-Dc=d"}, ["-Xms2g", "-Xmx2g", "-cp", f"{JARS}/*"])
    assert words[7:] == [
        "--driver-url", "spark://driver", "--executor-id", "1", "--cores", "2", "--app-id", "app", "--hostname",
        "10.0.0.1", "--resourceProfileId", "0", "--podName", "pod",
    ]  # fmt: skip


def test_spark_asks_for_the_configuration_of_yarn_in_one_sentence(tmp_path: Path) -> None:
    """FP-13, the last line of the YARN page: it was a line of the trace, `at org.apache.spark.deploy...`."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [Path(sys.executable).with_name("hookwire"), "pipeline", "usage", "--lake", str(tmp_path), "--json"],
        env=environment | {"HOOKWIRE_PIPELINE_MASTER": "yarn"}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert (done.returncode, "HADOOP_CONF_DIR" in done.stderr, len(done.stderr.splitlines())) == (3, True, 1), done


def test_the_s3_page_names_the_package_of_this_hadoop() -> None:
    """FP-13."""
    assert set(re.findall(r"hadoop-aws:([\d.]+)", (PAGES / "lake-s3.md").read_text())) == {hadoop_version()}
