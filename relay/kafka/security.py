"""Authentication of the Kafka client: protocol, TLS files, SASL; checked before any connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from relay.sink import SinkUnavailable
from relay.tls import TlsFiles

__all__ = ["KafkaSecurity", "SaslMechanism", "SecurityProtocol"]

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@dataclass(frozen=True, slots=True)
class KafkaSecurity:
    """The security settings. Their values are those of Kafka's ``security.protocol`` and ``sasl.mechanism``.

    Raises ValueError, naming the setting, for combinations that cannot work and files that cannot be read.
    """

    protocol: SecurityProtocol = "PLAINTEXT"
    tls: TlsFiles = field(default_factory=lambda: TlsFiles("HOOKWIRE_KAFKA_TLS"))
    mechanism: SaslMechanism | None = None
    username: str = ""
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        name = "HOOKWIRE_KAFKA_SECURITY_PROTOCOL"
        if self.tls.given and not self._is_tls:
            raise ValueError(f"{self.tls.settings}_* is set, but {name} is {self.protocol}: use SSL or SASL_SSL")
        if (self.mechanism or self.username or self.password) and not self._is_sasl:
            raise ValueError(f"HOOKWIRE_KAFKA_SASL_* is set, but {name} is {self.protocol}: use SASL_SSL")
        if self._is_sasl and not (self.mechanism and self.username and self.password):
            wanted = "HOOKWIRE_KAFKA_SASL_MECHANISM, _USERNAME and _PASSWORD"
            raise ValueError(f"{name} is {self.protocol}: that needs {wanted}")
        if self._is_tls:
            self.tls.context()

    @property
    def _is_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def _is_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def client(self) -> dict[str, Any]:
        """Return the arguments of aiokafka's clients; raises :class:`SinkUnavailable` when a file cannot be read any
        more.
        """
        arguments: dict[str, Any] = {"security_protocol": self.protocol}
        if self._is_tls:
            try:
                arguments["ssl_context"] = self.tls.context()
            except ValueError as error:
                raise SinkUnavailable(str(error)) from error
        if self._is_sasl:
            arguments |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return arguments
