"""`hookwire prove` as a user runs it: the line, the exit code, and that it fails when the product is broken."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from app.chaos.checker import VIOLATIONS
from tests.waiting import until

pytestmark = pytest.mark.timeout(1000)
"""A run waits as long as events arrive, which on a busy machine takes minutes (GU-21)."""

FIVE = ["ack-before-commit", "purge-before-ack", "no-key-lock", "no-term-check", "unroutable-as-sent"]


def prove(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from app.cli.main import main; main()", "prove", *arguments]
    environment = os.environ | ({"TMPDIR": str(folder)} if folder else {})
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=900, env=environment)
    if done.returncode == 4:  # not finished: an overdue wait, and no verdict on the product
        raise TimeoutError(done.stderr)
    return done


def test_prove_prints_its_line_and_leaves_no_process_and_no_folder_behind(
    servers_folder: Path, tmp_path: Path, seed: int
) -> None:
    """I1 I2 I3 I4 I5 I13, OR-06, OR-10, HN-06; FT-17: and ends with its verdict, which the HTML page has too."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o711)
    page = tmp_path / "prove.html"
    done = prove("--seconds", "30", "--seed", str(seed), "--report", str(page), folder=folder)
    assert done.returncode == 0, done.stderr
    line, heads, *others = done.stdout.splitlines()
    sinks, verdict = others[: others.index("")], others[-1]
    found = re.fullmatch(
        r"accepted=(\d+) delivered=\1 lost=0 duplicated=\d+ reordered=0 \(seed (\d+), faults \d+, \d+ s\)", line
    )
    assert found is not None, line
    assert (int(found[1]) > 500, int(found[2])) == (True, seed)
    assert (verdict[:6], verdict in page.read_text("utf-8")) == ("PASS: ", True)
    assert ["stale leader" in heads, *(sink.split()[0] for sink in sinks)] == [
        True,
        "ordered",
        "plain",
        "archive",
        "amqp",
    ]
    running = [one.info for one in psutil.process_iter(["cwd", "cmdline"])]
    assert ([one for one in running if str(folder) in str(one)], os.listdir(folder)) == ([], [])


@pytest.mark.slow
async def test_prove_that_is_killed_leaves_no_process_behind(servers_folder: Path) -> None:
    """Its services and its database: nobody else knows of them."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o711)

    def left() -> str:
        return " ".join(
            str(one.info) for one in psutil.process_iter(["cwd", "cmdline"]) if str(folder) in str(one.info)
        )

    run = [sys.executable, "-c", "from app.cli.main import main; main()", "prove"]
    child = await asyncio.create_subprocess_exec(*run, env=os.environ | {"TMPDIR": str(folder)})
    try:
        await until(lambda: left().count("app.cli.main") == 2 and "bin/postgres" in left(), 60)
    finally:
        child.kill()
        await child.wait()
    await until(lambda: not left(), 60)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("bug", FIVE)
def test_prove_finds_each_of_the_five_seeded_bugs(bug: str, seed: int) -> None:
    """T18, MU-01 MU-02 MU-03 MU-05 MU-09"""
    done = prove("--seed", str(seed), "--seed-bug", bug, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["crashes"], document["seed"]) == (1, [], seed), done.stderr
    assert [one for one in document["report"]["findings"] if one["kind"] in VIOLATIONS]
    assert f"again:  hookwire prove --seconds 45 --seed {seed} --seed-bug {bug}" in done.stderr


def test_an_unknown_seeded_bug_is_wrong_use() -> None:
    """The message names the known ones."""
    done = prove("--seed-bug", "misspelt")
    assert (done.returncode, "there are ack-before-commit" in done.stderr) == (2, True)
