"""Each block of the lake's pages: a test runs it as it is written, or proves the part that can be proven here.

A block for a cluster is run by bash beside stand-ins for the programs that are not here. A stand-in notes its arguments
and variables. Our own parser takes the commands of hookwire among them, and Kubernetes' schema judges the objects.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import typer.main
import yaml

from app.cli.main import application
from app.cli.pipeline.archive_metrics import ArchiveMetrics
from app.cli.pipeline.lake import with_conf
from app.settings.settings import load_settings
from pipeline.archive import Archived
from tests.project.test_deploy import faults

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KUBERNETES, YARN, PIPELINE = "how-to/lake-kubernetes.md", "how-to/lake-yarn.md", "how-to/pipeline.md"
PAGES = [*(str(page.relative_to(DOCS)) for page in sorted(DOCS.glob("how-to/lake-*.md"))), PIPELINE]
PAGES += ["reference/audit.md", "reference/lake.md"]

HERE = "tests/pipeline/test_page_blocks.py::test_"
CLUSTER = "tests/faults/test_spark_cluster.py::test_two_workers_archive_and_audit"
FOLLOWED = "tests/pipeline/test_pages.py::test_the_pages_are_followed_from_the_archive_to_the_erasure"
PACKED = f"{HERE}the_yarn_page_packs_what_there_is_where_its_settings_find_it"
READERS = "tests/pipeline/test_reader_pages.py::test_"
SHELL = f"{HERE}the_shell_of_the_kubernetes_page_names_what_there_is"
SCHEMA = f"{HERE}the_objects_of_the_kubernetes_page_follow_its_schema"
WHERE = {
    "how-to/lake-backfill.md": {
        "sh: hookwire pipeline backfill --pause": "tests/pipeline/test_backfill_run.py"
        "::test_the_page_pauses_a_run_lets_it_go_on_and_cancels_it",
    },
    # No docker, no kubectl and no cluster are here.
    KUBERNETES: {
        "sh: docker build": SHELL, "yaml: apiVersion: batch/v1": SCHEMA, "sh: kubectl create serviceaccount": SHELL,
        "sh: kubectl apply": SHELL, "yaml: apiVersion: rbac.authorization.k8s.io/v1": SCHEMA,
        "yaml: env:": f"{HERE}the_commands_of_the_kubernetes_page_are_taken_with_its_settings",
    },
    "how-to/lake-typed.md": {"python: import duckdb": f"{READERS}typed_rows_are_read_by_duckdb"},
    # No HDFS and no resource manager are here. The environment that is packed would fetch some 500 MB.
    YARN: {
        "sh: python3.11 -m venv": PACKED, "sh: export HADOOP_CONF_DIR": PACKED,
        "sh: spark-submit --master yarn": f"{HERE}spark_submit_takes_the_line_of_the_yarn_page",
    },
    PIPELINE: {
        "sh: .venv/bin/python -m pip install": FOLLOWED,
        "yaml: - alert: HookwireArchiveStands": f"{HERE}the_alerts_of_the_page_are_about_metrics_of_the_archive",
        "sh: hookwire pipeline archive --master spark:": CLUSTER, "sh: spark-class": CLUSTER,
        "sh: spark-submit --master spark:": CLUSTER,
    },
    "reference/audit.md": {
        "sh: hookwire pipeline audit --self-test": "tests/pipeline/test_audit_command.py"
        "::test_each_fault_that_is_planted_is_named_and_taken_back",
    },
    "reference/lake.md": {
        "python: import duckdb": f"{READERS}bronze_is_read_by_duckdb_and_by_our_own_reader",
        "python: from pipeline.lake import bronze": f"{READERS}bronze_is_read_by_duckdb_and_by_our_own_reader",
    },
}  # fmt: skip
"""For each block whose fence has no marker, by the start of its first line: the test that runs it or proves a part."""


class Call(NamedTuple):
    """A call of a stand-in: the program, its arguments, and the variables that the block has exported."""

    program: str
    arguments: list[str]
    variables: dict[str, str]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in this language, without a marker."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def objects(page: str) -> list[dict[str, Any]]:
    """The YAML of a page."""
    return [each for block in blocks(page, "yaml") for each in yaml.safe_load_all(block)]


def calls(folder: Path, text: str, *programs: str, **variables: str) -> list[Call]:
    """Run a block by bash as it is written, beside stand-ins for these programs; return their calls in order."""
    noted = folder / "calls"
    for program in programs:
        place = folder / (program if "/" in program else f"bin/{program}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(
            f"#!{sys.executable} -IS\nimport json, os, sys\n"
            f"call = [{program!r}, sys.argv[1:], dict(os.environ)]\n"
            f"with open({str(noted)!r}, 'a') as file:\n    file.write(json.dumps(call) + '\\n')\n"
        )
        place.chmod(0o755)
    path = f"{folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    given = {"PATH": path, "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=given, check=True, timeout=60)
    found = [Call(*json.loads(line)) for line in noted.read_text().splitlines()]
    noted.unlink()
    return [call._replace(variables=dict(call.variables.items() - given.items())) for call in found]


def taken(arguments: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Let the parser take a command of the pipeline and its variables; return its settings of Spark."""
    root: Any = typer.main.get_command(application())
    pipeline, verb, *words = arguments
    context = root.commands[pipeline].commands[verb].make_context(verb, list(words))
    ours = {name: value for name, value in variables.items() if name.startswith("HOOKWIRE_")}
    return with_conf(load_settings(ours), context.params["conf"]).pipeline_conf


def test_each_block_of_the_lakes_pages_runs_or_is_listed() -> None:
    """A new block runs by its marker, or appears here with the test that runs it or proves a part."""
    unmarked = re.compile(r"^```(sh|bash|sql|python|yaml|json)\n([^\n]*)\n", re.MULTILINE)
    for page in PAGES:
        lines = [f"{language}: {line}" for language, line in unmarked.findall((DOCS / page).read_text())]
        listed = list(WHERE.get(page, ()))
        assert [next((of for of in listed if line.startswith(of)), line) for line in lines] == listed, page
    for place in {place for of in WHERE.values() for place in of.values()}:
        file, _, name = place.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text(), place


def test_the_shell_of_the_kubernetes_page_names_what_there_is(tmp_path: Path) -> None:
    """The file of the image, one name of the image, the secret and the account of the objects, and known settings."""
    build, push, account, secret, apply = (
        call.arguments
        for block in blocks(KUBERNETES, "sh")
        for call in calls(tmp_path, block, "docker", "kubectl")
    )  # fmt: skip
    pod = objects(KUBERNETES)[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    image, file = build[build.index("--tag") + 1], build[build.index("--file") + 1]
    assert (build[0], build[-1], (ROOT / file).is_file(), push) == ("build", ".", True, ["push", image])
    assert (image, account[2]) == (container["image"], pod["serviceAccountName"])
    assert (secret[:3], secret[3]) == (["create", "secret", "generic"], container["envFrom"][0]["secretRef"]["name"])
    assert load_settings(given_to(container, secret)).pipeline_s3_access_key == "an-access-key"
    assert (apply[:2], (ROOT / apply[2]).is_file()) == (["apply", "-f"], True)


def given_to(container: Mapping[str, Any], secret: Sequence[str] = ()) -> dict[str, str]:
    """The variables of a container, with those of the secret that this command makes."""
    literals = dict(word.removeprefix("--from-literal=").split("=", 1) for word in secret[4:])
    return literals | {each["name"]: each["value"] for each in container["env"] if "value" in each}


def driver() -> dict[str, Any]:
    """The CronJob of the page as it tells to change it for executors in pods of their own."""
    *_, job, _, _, _, change = [None, *objects(KUBERNETES)]
    assert job is not None
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    pod["volumes"] = [{"name": "executor", "configMap": {"name": "hookwire-executor"}}]
    container["volumeMounts"] = [{"name": "executor", "mountPath": "/executor"}]
    container |= change | {"env": [*container["env"], *change["env"]]}
    return job


def test_the_objects_of_the_kubernetes_page_follow_its_schema() -> None:
    """Also the pod of an executor, and the driver with the variables and the command that the page gives it."""
    whole = [each for each in objects(KUBERNETES) if "kind" in each]
    executor = yaml.safe_load(next(each for each in whole if each["kind"] == "ConfigMap")["data"]["executor.yaml"])
    assert [(each["kind"], faults(each)) for each in (*whole, executor, driver())] == [
        (kind, []) for kind in ("CronJob", "Role", "RoleBinding", "ConfigMap", "Pod", "CronJob")
    ]


def test_the_commands_of_the_kubernetes_page_are_taken_with_its_settings(tmp_path: Path) -> None:
    """The shell of the driver's container is run, and starts hookwire with the names of its own pod."""
    job = driver()
    [container] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    [plain] = objects(KUBERNETES)[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert taken(plain["args"], given_to(plain)) == {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1"}
    script = " ".join(f"'{word}'" for word in (*container["command"], *container["args"]))
    [call] = calls(tmp_path, script, "hookwire", POD_NAME="archive-7", POD_IP="10.0.0.7")
    conf = taken(call.arguments, given_to(container))
    assert (conf["spark.kubernetes.driver.pod.name"], conf["spark.driver.host"]) == ("archive-7", "10.0.0.7")
    mount = container["volumeMounts"][0]["mountPath"]
    assert conf["spark.kubernetes.executor.podTemplateFile"] == f"{mount}/executor.yaml"
    assert conf["spark.kubernetes.container.image"] == container["image"]


def test_the_yarn_page_packs_what_there_is_where_its_settings_find_it(tmp_path: Path) -> None:
    """The extra and the folder exist. The archive that is stored is the one that workers unpack, as Python's folder."""
    pack, run, _ = blocks(YARN, "sh")
    made, installed, packed, stored = calls(
        tmp_path, pack, "python3.11", "hookwire/bin/pip", "hookwire/bin/venv-pack", "hdfs"
    )
    environment = made.arguments[-1]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert installed.arguments == ["install", "./sdk", ".[spark]", "venv-pack"]
    assert ("spark" in extras, (ROOT / "sdk" / "pyproject.toml").is_file()) == (True, True)
    assert packed.arguments[:3] == ["--prefix", environment, "--output"]
    assert stored.arguments[:3] == ["dfs", "-put", packed.arguments[3]]
    [call] = calls(tmp_path, run, "hookwire")
    conf = taken(call.arguments, call.variables)
    unpacked, _, folder = conf["spark.yarn.dist.archives"].partition("#")
    assert (unpacked, call.variables["PYSPARK_PYTHON"]) == (stored.arguments[3], f"./{folder}/bin/python")
    assert call.arguments[2:] == ["--master", "yarn"]


def test_spark_submit_takes_the_line_of_the_yarn_page(tmp_path: Path) -> None:
    """The real one knows its options, and then asks for the cluster's configuration, as the page ends."""
    *_, line = blocks(YARN, "sh")
    [call] = calls(tmp_path, line, "spark-submit")
    place = next(number for number, word in enumerate(call.arguments) if word.endswith(".py"))
    assert (Path(call.arguments[place]).is_file(), taken(call.arguments[place + 1 :], {})) == (True, {})
    spark_submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    asked = subprocess.run(
        [spark_submit, *call.arguments], cwd=tmp_path, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (asked.returncode, "HADOOP_CONF_DIR or YARN_CONF_DIR must be set" in asked.stderr) == (1, True), asked


def test_the_alerts_of_the_page_are_about_metrics_of_the_archive(tmp_path: Path) -> None:
    """Prometheus is not here, so only their names are compared."""
    file = tmp_path / "metrics.prom"
    ArchiveMetrics(file).write(Archived())
    alerts = [each for block in blocks(PIPELINE, "yaml") for each in yaml.safe_load(block)]
    named = {name for each in alerts for name in re.findall(r"hookwire_\w+", each["expr"])}
    written = set(re.findall(r"^(hookwire_\w+) ", file.read_text(), re.MULTILINE))
    assert (len(alerts), len(named), named - written) == (3, 3, set())
