"""scripts/apt and the two scripts that install packages by it: a lock that another process holds is waited for.

apt-get, id and sleep are stand-ins. The messages are those of apt 2.6.1 and dpkg 1.21 while a process held the lock.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ("apt", "install-servers")
TOOLS = ("bash", "sh", "cat", "cp", "chmod", "cut", "dirname", "flock", "grep", "mktemp", "mv", "rm", "sed")

_HELD = """\
E: Could not get lock {lock}. It is held by process 4711 (unattended-upgr)
E: Unable to acquire the lock ({lock}), is another process using it?
"""
_DPKG = """\
dpkg: error: dpkg frontend lock was locked by another process with pid 4711
Note: removing the lock file is always wrong, can damage the locked area
E: Sub-process /usr/bin/dpkg returned an error code (2)
"""
_LOCKS = (
    "/var/lib/apt/lists/lock",
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/cache/apt/archives/lock",
)
_ENDED = "The lock was held for 10 minutes: end the process that holds it, or wait for it, then repeat.\n"

# It fails as often as the file `failures` says, and then has installed amqp-tools.
_APT_GET = """#!/bin/sh
echo "apt-get $*" >>"{folder}/log"
left=$(cat "{folder}/failures")
if [ "$left" -gt 0 ]; then
    echo $((left - 1)) >"{folder}/failures"
    cat "{folder}/errors" >&2
    exit 100
fi
echo "Reading package lists..."
case $1 in install) for name in amqp-consume amqp-publish; do cp "{folder}/bin/id" "{folder}/bin/$name"; done ;; esac
"""


class Machine:
    """The scripts, and a PATH where apt-get fails and sleep takes no time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = folder / "bin"
        self._programs.mkdir()
        for tool in TOOLS:
            (self._programs / tool).symlink_to(str(shutil.which(tool)))
        self._has("id", "#!/bin/sh\necho 0\n")
        self._has("sleep", '#!/bin/sh\necho "sleep $*" >>"{folder}/log"\n')
        self._has("apt-get", _APT_GET)
        for name in SCRIPTS:
            text = (ROOT / "scripts" / name).read_text(encoding="utf-8")
            self._write(folder / name, text.replace("/usr/sbin/policy-rc.d", str(folder / "policy-rc.d")))

    def _has(self, name: str, text: str) -> None:
        self._write(self._programs / name, text.replace("{folder}", str(self._folder)))

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run(self, *command: str, failures: int, errors: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error, where apt-get fails so often and with these words."""
        (self._folder / "failures").write_text(f"{failures}\n", encoding="utf-8")
        (self._folder / "errors").write_text(errors, encoding="utf-8")
        environment = {"PATH": str(self._programs), "TMPDIR": str(self._folder)}
        ended = subprocess.run(
            [self._folder / command[0], *command[1:]],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return ended.returncode, ended.stdout, ended.stderr

    def log(self) -> list[str]:
        return (self._folder / "log").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("errors", "said"),
    [(_HELD.format(lock=lock), f"Could not get lock {lock}. It is held by process 4711 (unattended-upgr)")
     for lock in _LOCKS]
    + [(_DPKG, "dpkg: error: dpkg frontend lock was locked by another process with pid 4711")],
    ids=[*_LOCKS, "dpkg itself"],
)  # fmt: skip
def test_a_lock_that_is_held_is_waited_for_with_a_line_a_minute(machine: Machine, errors: str, said: str) -> None:
    """GU-17: which lock, and who holds it; 70 seconds are two lines."""
    ended = machine.run("apt", "update", "-q", failures=14, errors=errors)
    lines = [f"Waiting for at most {minutes} minutes. {said}\n" for minutes in (10, 9)]
    assert ended == (0, "Reading package lists...\n", "".join(lines))
    assert machine.log() == ["apt-get update -q", "sleep 5"] * 14 + ["apt-get update -q"]


def test_after_ten_minutes_apts_own_message_is_the_end(machine: Machine) -> None:
    """GU-17."""
    errors = _HELD.format(lock=_LOCKS[0])
    code, _, said = machine.run("apt", "update", failures=1_000, errors=errors)
    log = machine.log()
    lines = [line.partition(". ")[0] for line in said.splitlines()]
    waiting = [f"Waiting for at most {minutes} minutes" for minutes in range(10, 0, -1)]
    assert (code, lines[:10], said.endswith(errors + _ENDED), len(log)) == (100, waiting, True, 241)
    assert sum(int(line.split()[1]) for line in log if line.startswith("sleep")) == 600


@pytest.mark.parametrize(
    "errors",
    [
        "E: Unable to locate package postgresql\n",
        "E: Could not open lock file /var/lib/apt/lists/lock - open (13: Permission denied)\n",
        "E: Failed to fetch http://deb.example/debian  Could not connect\n",
        "",
    ],
)
def test_any_other_failure_ends_at_once_with_apts_own_message(machine: Machine, errors: str) -> None:
    """GU-17."""
    assert machine.run("apt", "install", "-y", "postgresql", failures=1, errors=errors) == (100, "", errors)
    assert machine.log() == ["apt-get install -y postgresql"]


def test_servers_are_installed_after_a_lock_was_held(machine: Machine) -> None:
    """GU-17."""
    code, said, errors = machine.run("install-servers", "amqp-tools", failures=1, errors=_HELD.format(lock=_LOCKS[0]))
    assert (code, said.splitlines()[-1]) == (0, "Installed. No service was started."), errors


def test_every_script_installs_packages_by_scripts_apt() -> None:
    """GU-17: no other place calls apt-get."""
    scripts = [path for path in (ROOT / "scripts").rglob("*") if path.is_file() and path.suffix in ("", ".py")]
    callers = [
        path.name
        for path in (ROOT / "Makefile", *scripts)
        for line in path.read_text(encoding="utf-8").splitlines()
        if "apt-get " in line and "command -v" not in line and not line.lstrip().startswith("#")
    ]
    assert callers == ["apt"]
