"""RabbitMQ: the system package's server as a node of our own, beside any that the machine runs already (IT-10)."""

import os
import re
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from scripts.servers.epmd import EpmdServer
from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe
from scripts.servers.process import ServerFailedError, ServerProcess

# Debian's /usr/sbin/rabbitmq-server is a wrapper that insists on the account rabbitmq; the programs behind it do not.
_PLACES = ("/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin", "/usr/local/sbin")
_CTL_SECONDS_MAX = 60

_CONFIGURATION = """\
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 50MB
"""


class RabbitServer(ServerProcess):
    """One node `hookwire@localhost` with its own cookie, port mapper, data and ports, and no plugins.

    `url` is an AMQP URL of the default user on the default virtual host.
    """

    software: ClassVar[str] = "RabbitMQ"
    port_names: ClassVar[tuple[str, ...]] = ("amqp", "distribution")
    # A broker in boot does not listen yet; a ready one answers the protocol header with a method frame (type 1).
    probe: ClassVar[Probe] = Probe(b"AMQP\x00\x00\x09\x01", b"\x01")

    def __init__(self, name: str, folder: Path, *, outlives_us: bool = False) -> None:
        super().__init__(name, folder, outlives_us=outlives_us)
        self.epmd = EpmdServer(f"{name}-epmd", self.folder / "epmd", outlives_us=outlives_us)

    @property
    def url(self) -> str:
        """Return the AMQP URL."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    @property
    def address(self) -> str:
        """Return `url`, under the name that all servers share."""
        return self.url

    @property
    def version(self) -> str:
        """Return the version in the node's log, such as "3.10.8"; "unknown" before its first start."""
        log = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        found = re.findall(r"Starting RabbitMQ (\S+) on Erlang", log)
        return found[-1] if found else "unknown"

    def is_ready(self) -> bool:
        """Return whether the node answers and has recovered its queues."""
        return super().is_ready() and self.has_recovered()

    def has_recovered(self) -> bool:
        """Return whether the node has logged that its latest start is complete; recovery is a step of the start."""
        log = self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
        return "Server startup complete" in log.rpartition("Starting RabbitMQ ")[2]

    def stop(self) -> None:
        """Ends the node in an orderly way, then its port mapper."""
        super().stop()
        self.epmd.stop()

    def discard(self) -> None:
        """Ends the node and its port mapper the quick way."""
        super().discard()
        self.epmd.discard()

    def ctl(self, *arguments: str) -> str:
        """Runs `rabbitmqctl` against this node and returns what it prints; raises ServerFailedError when it fails."""
        done = subprocess.run(
            [_program("rabbitmqctl"), "--quiet", *arguments],
            check=False,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_CTL_SECONDS_MAX,
        )
        if done.returncode != 0:
            raise ServerFailedError(f"rabbitmqctl {' '.join(arguments)}: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def stop_app(self) -> None:
        """Stops the broker and keeps the Erlang node: every connection is closed, the port refuses."""
        self.ctl("stop_app")

    def start_app(self) -> None:
        """Starts the broker again after `stop_app` and waits until it answers."""
        self.ctl("start_app")
        self.wait_ready()

    def sync_declarations(self) -> None:
        """Write to the disk what has been declared, so that SIGKILL cannot undo it.

        RabbitMQ 3 answers `declare` before Mnesia's decision to commit is on the disk. A start without that decision
        takes the declaration back.
        """
        self.ctl("eval", "mnesia:sync_log().")

    def set_vm_memory_high_watermark(self, fraction: float) -> None:
        """Sets the memory limit as a fraction of the machine; 0.0001 blocks every publisher, 0.4 is the default."""
        self.ctl("set_vm_memory_high_watermark", f"{fraction:f}")

    def close_all_connections(self, reason: str) -> None:
        """Closes every client connection from the broker's side, with this text in connection.close."""
        self.ctl("close_all_connections", "--global", reason)

    def delete_queue(self, queue: str) -> None:
        """Deletes a queue and its messages under its consumers' feet."""
        self.ctl("delete_queue", queue)

    def _prepare(self) -> None:
        _program("rabbitmq-server")
        self.epmd.start()
        (self.folder / "rabbitmq.conf").write_text(self._configuration())
        (self.folder / "enabled_plugins").write_text("[].\n")
        cookie = self.folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(mode=0o600)
            cookie.write_text(secrets.token_hex(16))
            cookie.chmod(0o400)

    def _configuration(self) -> str:
        """Return the node's own settings."""
        return _CONFIGURATION

    def _command(self) -> list[str]:
        return [_program("rabbitmq-server")]

    def _environment(self) -> dict[str, str]:
        foreign = ("RABBITMQ_", "ERL_", "NOTIFY_SOCKET")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return inherited | self._node_environment() | self._erlang_environment()

    def _node_environment(self) -> dict[str, str]:
        return {
            "RABBITMQ_NODENAME": "hookwire@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.ports["distribution"]),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            # The package's own settings under /etc are not ours; these names exist nowhere.
            "RABBITMQ_CONFIG_FILES": str(self.folder / "conf.d" / "*.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "rabbitmq-env.conf"),
        }

    def _erlang_environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),  # where Erlang looks for the cookie
            "ERL_EPMD_PORT": str(self.epmd.port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            # rabbitmqctl is a virtual machine of its own. Spinning while it waits, it takes the cores from the node
            # that it asks: on two busy cores a call took 11 s instead of 2 s.
            "RABBITMQ_CTL_ERL_ARGS": "-start_epmd false +sbwt none +sbwtdcpu none +sbwtdio none",
        }


def _program(name: str) -> str:
    program = shutil.which(name, path=os.pathsep.join([*_PLACES, os.environ.get("PATH", "")]))
    if program is None:
        raise MissingServerError("RabbitMQ is missing: run scripts/install-servers.")
    return program
