"""Runs an image as an orchestrator does: own processes, mounts and network, read-only root, the image's user."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from scripts.images.image import Image
from scripts.images.network import Network

__all__ = ["Container", "running"]

_DEVICES: Final = "null zero full random urandom"
_PREPARE: Final = rf"""
set -eu
root=$1 volume=$2 place=$3 user=$4
shift 4
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in {_DEVICES}; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
hostname container
printf '127.0.0.1 localhost\n127.0.0.1 container\n' >"$root/dev/hosts"
touch "$root/etc/hosts"
mount --bind "$root/dev/hosts" "$root/etc/hosts"
ln -s /proc/self/fd "$root/dev/fd"
mkdir -m 1777 "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
mount --bind "$volume" "$root$place"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" "$root" "$@"
"""
_START_SECONDS_MAX: Final = 30.0


class Container:
    """A command that runs in the image. ``pid`` is its process 1, as this machine counts; ``log`` what it printed."""

    def __init__(self, image: Image, process: subprocess.Popen[bytes], log: Path) -> None:
        self._image = image
        self.process = process
        self.log = log
        self.pid = _only_child(process)

    def run(self, *words: str, environment: Mapping[str, str] | None = None, seconds: float = 120.0) -> str:
        """Run another command in the container, as its user; return what it prints. Raises ``CalledProcessError``."""
        ended = subprocess.run(
            self.command(*words, environment=environment), stdout=subprocess.PIPE, text=True, check=True,
            timeout=seconds,
        )  # fmt: skip
        return ended.stdout.strip()

    def command(self, *words: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """Return the command of this machine that runs another command in the container."""
        user, group = self._image.user_and_group()
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", f"--root=/proc/{self.pid}/root"]
        own = _variables(self._image.environment | dict(environment or {}))
        as_user = [f"--setuid={user}", f"--setgid={group}", "--"]
        return [*enter, *as_user, "/usr/bin/env", "-i", "-C", self._image.config["WorkingDir"], *own, *words]

    def stop(self, seconds: float) -> int:
        """Send SIGTERM to process 1; return the exit code. Raises ``TimeoutExpired`` after so many seconds."""
        os.kill(self.pid, signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def zombies(self) -> list[str]:
        """Return the names of dead processes that process 1 did not collect."""
        found = []
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                facts = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            except OSError:
                continue
            if facts["PPid"] == str(self.pid) and facts["State"].startswith("Z"):
                found.append(facts["Name"])
        return found


@contextmanager
def running(
    image: Image, volume: Path, log: Path, *command: str, network: Network | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Container]:  # fmt: skip
    """Run a command of the image, by default the image's own, on a volume. What still runs at the end is killed."""
    user, group = image.user_and_group()
    os.chown(volume, user, group)
    place, folder = next(iter(image.config["Volumes"])), image.config["WorkingDir"]
    inside = ["ip", "netns", "exec", network.name] if network is not None else []
    apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--ipc", "--uts"]
    prepare = ["/bin/sh", "-c", _PREPARE, "prepare", str(image.root), str(volume), place, f"{user}:{group}"]
    own = _variables(image.environment | dict(environment or {}))
    words = ["/usr/bin/env", "-i", "-C", folder, *own, *image.words(*command)]
    with log.open("ab") as file:
        process = subprocess.Popen([*inside, *apart, *prepare, *words], stdout=file, stderr=file)
    container = Container(image, process, log)
    try:
        yield container
    finally:
        with suppress(ProcessLookupError):  # with process 1 all processes of the container end
            os.kill(container.pid, signal.SIGKILL)
        process.wait()


def _variables(environment: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in environment.items()]


def _only_child(process: subprocess.Popen[bytes]) -> int:
    """Return the child of ``unshare``, which is process 1 of the namespace."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + _START_SECONDS_MAX
    while not (found := children.read_text().split()):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the container did not start")
        time.sleep(0.02)
    return int(found[0])
