"""scripts/bootstrap and the Makefile: two commands on a bare machine, and one clear sentence where that can't be.

Python, apt-get and id are stand-ins that write down how they were called; everything else is the real script.
"""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "cat", "sha256sum", "cut", "sed", "flock", "mkdir", "cp", "rm")

_PYTHON = """#!/bin/sh
echo "python $*" >>"{folder}/log"
case "$*" in
    *"import ensurepip"*) [ -e "{folder}/has-venv" ] || exit 1 ;;
    *"-venv"*) echo python3.12-venv ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    --version) echo "Python 3.12.0" ;;
esac
"""
_APT_GET = """#!/bin/sh
echo "apt-get $*" >>"{folder}/log"
case "$*" in *install*) : >"{folder}/has-venv" ;; esac
"""


class Machine:
    """A checkout with the script, and a PATH with nothing but stand-ins and the tools that every system has."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.programs = folder / "bin"
        self._folder = folder
        for path in ("scripts", "requirements", "sdk"):
            (self.checkout / path).mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "bootstrap", self.checkout / "scripts")
        for name in ("requirements/run.txt", "requirements/dev.txt", "pyproject.toml", "sdk/pyproject.toml"):
            (self.checkout / name).write_text("# as given\n", encoding="utf-8")
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(str(shutil.which(tool)))

    def has(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text.format(folder=self._folder), encoding="utf-8")
        path.chmod(0o755)

    def has_venv_module(self) -> None:
        (self._folder / "has-venv").touch()

    def bootstrap(self, *arguments: str) -> tuple[int, str]:
        """Exit code, and what was said."""
        finished = subprocess.run(
            [self.checkout / "scripts" / "bootstrap", *arguments],
            env={"PATH": str(self.programs)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=30,
        )
        return finished.returncode, finished.stdout

    def calls(self, start: str) -> list[str]:
        """How the stand-ins were called since the last time, of those calls that begin so."""
        log = self._folder / "log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line for line in lines if line.startswith(start)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.has("id", "#!/bin/sh\necho 0\n")
    return machine


_PIP = "python -m pip install --quiet --disable-pip-version-check --no-input --no-deps "


def test_the_pinned_packages_and_the_checkout_are_installed(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    said = machine.bootstrap("run")
    assert (said, machine.calls(_PIP)) == (
        (0, "Making .venv with Python 3.12.0.\nInstalling requirements/run.txt.\n"),
        [
            _PIP + "--require-hashes --requirement requirements/run.txt",
            _PIP + "--no-build-isolation --editable .",
        ],
    )


def test_a_second_start_does_nothing(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("dev")
    machine.calls("")
    assert (machine.bootstrap("dev"), machine.bootstrap("run"), machine.calls("python -m")) == ((0, ""), (0, ""), [])


@pytest.mark.parametrize("name", ["requirements/run.txt", "pyproject.toml"])
def test_what_has_changed_is_installed_again(machine: Machine, name: str) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("run")
    machine.calls("")
    (machine.checkout / name).write_text("# changed\n", encoding="utf-8")
    assert (machine.bootstrap("run"), len(machine.calls(_PIP))) == ((0, "Installing requirements/run.txt.\n"), 2)


def test_a_checkout_that_was_moved_gets_a_new_environment(machine: Machine) -> None:
    """The commands of an environment hold its path."""
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("run")
    machine.calls("")
    machine.checkout = machine.checkout.rename(machine.checkout.with_name("moved"))
    assert (machine.bootstrap("run")[0], machine.calls("python -m venv")) == (0, ["python -m venv .venv"])


def test_root_on_debian_gets_the_missing_venv_module(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has("apt-get", _APT_GET)
    assert machine.bootstrap("run")[0] == 0
    assert machine.calls("apt-get") == [
        "apt-get update -q",
        "apt-get install -q -y --no-install-recommends python3.12-venv",
    ]


def test_others_are_told_what_to_install(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has("apt-get", _APT_GET)
    machine.has("id", "#!/bin/sh\necho 1000\n")
    sentence = "bootstrap: python3 lacks the module venv: install your system's package (Debian: python3.12-venv)\n"
    assert (machine.bootstrap("run"), machine.calls("apt-get")) == ((1, sentence), [])


def test_without_a_fitting_python_one_sentence_says_so(machine: Machine) -> None:
    machine.has("python3", "#!/bin/sh\nexit 1\n")
    sentence = "no Python from 3.11 to 3.14 was found; install one, or name it: PYTHON=/path/to/python3 make run"
    assert machine.bootstrap("run") == (1, f"bootstrap: {sentence}\n")


def test_wrong_use_is_explained(machine: Machine) -> None:
    code, said = machine.bootstrap("everything")
    assert (code, "scripts/bootstrap run" in said) == (2, True)


# --- make -------------------------------------------------------------------------------------------------------

PROMISED = {
    "run",
    "demo",
    "prove",
    "test",
    "faults",
    "bench",
    "servers",
    "check",
    "help",
    "lock",
    "format",
    "openapi",
    "clean",
}


def test_help_lists_every_target_that_is_promised() -> None:
    """DESIGN section 8."""
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    listed = dict(re.findall(r"^make (\S+) +(\S.*)$", said, re.MULTILINE))
    assert PROMISED - set(listed) == set()


def test_continuous_integration_runs_what_a_person_runs() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1].endswith("exec make test")


def test_the_pinned_files_name_no_index() -> None:
    """docs/adr/0002-pinned-requirement-files.md"""
    pinned = [
        line for name in ("run", "dev") for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    ]
    assert [line for line in pinned if "://" in line or line.startswith("--")] == []
    requirements = [line for line in pinned if line and not line.startswith(("#", " "))]
    assert [line for line in requirements if not re.match(r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==", line)] == []


@pytest.mark.parametrize("name", ["run", "dev"])
def test_what_is_pinned_is_what_the_projects_ask_for(name: str) -> None:
    """After a change of pyproject.toml: `make lock`."""
    pinned = {}
    for line in (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([a-z0-9-]+)(?:\[[a-z0-9,-]+\])?==(\S+)", line):
            pinned[found[1]] = found[2]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ("chat", "dev", "mariadb", "spark") if name == "dev" else ()
    asked = project["dependencies"] + [text for extra in extras for text in project["optional-dependencies"][extra]]
    wanted = [Requirement(text) for text in asked]
    assert [str(r) for r in wanted if not r.specifier.contains(pinned.get(canonicalize_name(r.name), "0"))] == []
