"""The main walk on a machine that has no IPv4, in a network namespace of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_WALK = r"""
python -c "$ONLY_IPV6"
hookwire serve 2>serve.log >&2 & serve=$!
hookwire broker 2>broker.log >&2 & broker=$!
trap 'kill $serve $broker; wait $serve' EXIT
for _ in $(seq 300); do grep -q LeaderAcquired serve.log && break; sleep 0.2; done
hookwire listen --count 1 a >heard 2>listen.log & listen=$!
for _ in $(seq 300); do grep -q listening listen.log && break; sleep 0.2; done
hookwire publish a '{"n": 1}' 2>publish.log >&2
wait $listen
cut -d ' ' -f 3- heard
python -c "from hookwire.services.client import Client as C; print(C('tcp://[::1]:5555').call('mmi.service', b'x'))"
"""
# Bring loopback up, which gives it both addresses; then take its IPv4 address away (netdevice(7)).
_ONLY_IPV6 = """
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x41))
    fcntl.ioctl(any_socket, 0x8916, struct.pack("16sH14x", b"lo", socket.AF_INET))
"""


def test_the_hub_and_the_broker_are_reached_by_their_defaults(tmp_path: Path) -> None:
    """GS-08: whatever listens or connects."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "ONLY_IPV6": _ONLY_IPV6,
        "HOOKWIRE_DATA_DIR": str(tmp_path / "data"),
    }  # fmt: skip
    command = ["unshare", "--net", *(["--map-root-user"] if os.geteuid() else []), "bash", "-c", _WALK]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))

    assert done.stdout.splitlines() == ['a  {"n": 1}', "b'404'"], done.stderr + logs
