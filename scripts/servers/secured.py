"""Kafka, RabbitMQ and MariaDB as a careful operator runs them: every client needs TLS, and a password or a certificate.

The certificates are the caller's; these servers only serve them. All present one that was made for 127.0.0.1.
"""

import os
import shutil
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from scripts.servers.kafka import KafkaServer
from scripts.servers.mariadb import MariaServer
from scripts.servers.rabbitmq import RabbitServer

_MECHANISMS = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


@dataclass(frozen=True)
class Identity:
    """PEM files: `ca` is the authority that the server trusts, `chain` its own key and certificate. `client` is a
    client's of the same authority, for the probe where a certificate is demanded.
    """

    ca: Path
    chain: Path
    client: Path


class SecuredKafka(KafkaServer):
    """Two listeners for clients: `sasl_bootstrap` wants TLS and a user, `mutual_bootstrap` TLS and a certificate.

    `bootstrap` is the inner one, for the broker itself. Each of `users` (name to password) may use every mechanism.
    """

    port_names: ClassVar[tuple[str, ...]] = (*KafkaServer.port_names, "sasl", "mutual")

    def __init__(self, name: str, folder: Path, identity: Identity, users: Mapping[str, str]) -> None:
        super().__init__(name, folder)
        self.identity = identity
        self.users = users

    @property
    def sasl_bootstrap(self) -> str:
        """host:port that wants TLS and a user."""
        return f"127.0.0.1:{self.ports['sasl']}"

    @property
    def mutual_bootstrap(self) -> str:
        """host:port that wants TLS and a client's certificate."""
        return f"127.0.0.1:{self.ports['mutual']}"

    def _properties(self) -> dict[str, str | int]:
        properties = super()._properties()
        ours = f"SASL_TLS://{self.sasl_bootstrap},MUTUAL_TLS://{self.mutual_bootstrap}"
        mapped = "SASL_TLS:SASL_SSL,MUTUAL_TLS:SSL"
        return properties | {
            "listeners": f"{properties['listeners']},{ours}",
            "advertised.listeners": f"{properties['advertised.listeners']},{ours}",
            "listener.security.protocol.map": f"{properties['listener.security.protocol.map']},{mapped}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.identity.chain),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.identity.ca),
            "listener.name.mutual_tls.ssl.client.auth": "required",
            "listener.name.sasl_tls.sasl.enabled.mechanisms": ",".join(_MECHANISMS),
            **{
                f"listener.name.sasl_tls.{mechanism.lower()}.sasl.jaas.config": self._login(mechanism)
                for mechanism in _MECHANISMS
            },
        }

    def _login(self, mechanism: str) -> str:
        # PLAIN's users stand in the configuration, SCRAM's in the cluster's own metadata.
        users = "".join(f' user_{name}="{password}"' for name, password in self.users.items())
        module = f"org.apache.kafka.common.security.{_MECHANISMS[mechanism]} required"
        return f"{module}{users if mechanism == 'PLAIN' else ''};"

    def _format_options(self) -> list[str]:
        options = []
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            for name, password in self.users.items():
                options += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        return options


class SecuredRabbit(RabbitServer):
    """One listener, `url`: TLS and a certificate of the identity's authority; no other port is open."""

    def __init__(self, name: str, folder: Path, identity: Identity) -> None:
        super().__init__(name, folder)
        self.identity = identity

    @property
    def url(self) -> str:
        """Return the AMQP URL."""
        return f"amqps://guest:guest@127.0.0.1:{self.port}/"

    def is_ready(self) -> bool:
        """Return whether it answers AMQP's greeting within TLS and has recovered its queues."""
        context = ssl.create_default_context(cafile=self.identity.ca)
        context.load_cert_chain(self.identity.client)
        try:
            with (
                socket.create_connection(("127.0.0.1", self.port), timeout=2) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
            ):
                secured.sendall(self.probe.greeting)
                return secured.recv(64).startswith(self.probe.reply_prefix) and self.has_recovered()
        except OSError:
            return False

    def _configuration(self) -> str:
        return super()._configuration() + (
            f"listeners.tcp = none\n"
            f"listeners.ssl.1 = 127.0.0.1:{self.port}\n"
            f"ssl_options.cacertfile = {self.identity.ca}\n"
            f"ssl_options.certfile = {self.identity.chain}\n"
            f"ssl_options.keyfile = {self.identity.chain}\n"
            f"ssl_options.verify = verify_peer\n"
            f"ssl_options.fail_if_no_peer_cert = true\n"
        )

    def _node_environment(self) -> dict[str, str]:
        # These two would open the plain listener again, against the configuration.
        plain = ("RABBITMQ_NODE_IP_ADDRESS", "RABBITMQ_NODE_PORT")
        return {name: value for name, value in super()._node_environment().items() if name not in plain}


class SecuredMaria(MariaServer):
    """TLS is a condition for every client; an account may demand a certificate of the identity's authority as well."""

    def __init__(self, name: str, folder: Path, identity: Identity) -> None:
        super().__init__(name, folder)
        self.identity = identity

    def _prepare(self) -> None:
        super()._prepare()
        account = self._account()
        for source, copy in ((self.identity.ca, self._ca), (self.identity.chain, self._chain)):
            shutil.copyfile(source, copy)  # the server runs under another account, for which the caller's are closed
            copy.chmod(0o600)
            if account:
                os.chown(copy, account["user"], account["group"])

    @property
    def _ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def _chain(self) -> Path:
        return self.folder / "server.pem"

    def _command(self) -> list[str]:
        files = [f"--ssl-ca={self._ca}", f"--ssl-cert={self._chain}", f"--ssl-key={self._chain}"]
        return [*super()._command(), *files, "--require-secure-transport=ON"]
