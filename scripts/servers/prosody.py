"""Prosody: the system package's XMPP server, with TLS, two accounts, and rooms; beside any that the machine runs."""

import datetime
import shutil
import subprocess
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe
from scripts.servers.process import ServerProcess

HOST = "localhost"
ROOMS = f"rooms.{HOST}"
CLOSED = f"closed.{HOST}"
EVENTS = f"events.{HOST}"
PASSWORD = "secret"
ACCOUNTS = ("monitor", "reader")

_CONFIGURATION = """\
run_as_root = true
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
log = {{ info = "*console" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
c2s_direct_tls_ports = {{ {direct} }}
component_ports = {{ {component} }}
component_interfaces = {{ "127.0.0.1" }}
c2s_require_encryption = true
modules_enabled = {{ "disco", "offline", "ping", "presence", "message", "iq", "c2s", "roster", "saslauth", "tls" }}
modules_disabled = {{ "s2s" }}
authentication = "internal_plain"
ssl = {{ certificate = "{folder}/server.pem", key = "{folder}/server.key" }}
VirtualHost "{host}"
Component "{events}"
    component_secret = "{password}"
Component "{rooms}" "muc"
Component "{closed}" "muc"
    restrict_room_creation = true
"""


class ProsodyServer(ServerProcess):
    """One host, `localhost`, with the accounts `monitor` and `reader`, rooms at `rooms.localhost`, and at
    `closed.localhost` rooms that none of the two may make.

    Clients come by STARTTLS at `port`, by direct TLS at `direct_port`, and trust `ca_path`. `url` carries all of it.
    """

    software: ClassVar[str] = "Prosody"
    port_names: ClassVar[tuple[str, ...]] = ("xmpp", "xmpps", "component")
    probe: ClassVar[Probe] = Probe(
        b"<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='jabber:client'"
        b" xmlns:stream='http://etherx.jabber.org/streams'>",
        b"<?xml",
    )

    @property
    def direct_port(self) -> int:
        """Return where TLS begins at once."""
        return self.ports["xmpps"]

    @property
    def component_port(self) -> int:
        """Return where components come in."""
        return self.ports["component"]

    @property
    def ca_path(self) -> Path:
        """Return the PEM file of the signer of the server's certificate: itself."""
        return self.folder / "server.pem"

    @property
    def url(self) -> str:
        """Return where it is, and the file of its authority."""
        return (
            f"xmpp://127.0.0.1:{self.port}/?direct={self.direct_port}&ca={self.ca_path}&component={self.component_port}"
        )

    @property
    def address(self) -> str:
        """Return `url`, under the name that all servers share."""
        return self.url

    @cached_property
    def version(self) -> str:
        """Return the package's version, such as "0.12.3"; "unknown" without a package."""
        try:
            answer = subprocess.run(
                ["dpkg-query", "-W", "-f", "${Version}", "prosody"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return "unknown"
        return answer.stdout.partition("-")[0]

    def _prepare(self) -> None:
        _program()
        accounts = self.folder / "data" / HOST / "accounts"
        accounts.mkdir(parents=True, exist_ok=True)
        for name in ACCOUNTS:
            (accounts / f"{name}.dat").write_text(f'return {{ ["password"] = "{PASSWORD}" }};\n')
        if not self.ca_path.exists():
            self._make_certificate()
        configuration = _CONFIGURATION.format(
            folder=self.folder,
            port=self.port,
            direct=self.direct_port,
            host=HOST,
            rooms=ROOMS,
            closed=CLOSED,
            component=self.component_port,
            events=EVENTS,
            password=PASSWORD,
        )
        (self.folder / "prosody.cfg.lua").write_text(configuration)

    def _make_certificate(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=365))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST), x509.DNSName(ROOMS)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / "server.key").touch(mode=0o600)
        (self.folder / "server.key").write_bytes(private)
        self.ca_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _command(self) -> list[str]:
        return [_program(), "-F", "--config", str(self.folder / "prosody.cfg.lua")]


def _program() -> str:
    program = shutil.which("prosody")
    if program is None:
        raise MissingServerError("Prosody is missing: run scripts/install-servers.")
    return program
