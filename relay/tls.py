"""TLS to a broker: trusted authorities, our certificate, and the causes of a failed handshake.

The files are read for each connection, so that a renewed certificate needs no restart. The host name is always
verified.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["TlsFiles", "causes"]

_OURS_REFUSED = (
    "CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
)  # fmt: skip
_EXPIRED = 10
"""X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING", "UNEXPECTED_MESSAGE")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; ``settings`` is the prefix of their settings, such as ``HOOKWIRE_KAFKA_TLS``.

    ``ca``: the authority of the broker's certificate (None: the system's authorities). ``certificate`` and ``key``:
    ours, for a broker that requires one; the key may lie in the certificate's file. ``peer``: the name of the other
    side in messages.
    """

    settings: str
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    peer: str = "broker"

    @property
    def given(self) -> bool:
        """Return whether any of them is set."""
        return any((self.ca, self.certificate, self.key))

    def context(self) -> ssl.SSLContext:
        """Read the files; raises ValueError that names the setting to change."""
        if self.key is not None and self.certificate is None:
            raise ValueError(f"{self.settings}_KEY is set without {self.settings}_CERTIFICATE")
        context = ssl.create_default_context()
        if self.ca is not None:
            context = ssl.create_default_context(cadata=self._text_of("CA", self.ca))
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=lambda: "")
            except (OSError, ValueError) as error:
                names = f"{self.settings}_CERTIFICATE and {self.settings}_KEY"
                raise ValueError(f"{names} cannot be used: {_reason(error)} (PEM, key not encrypted)") from error
        return context

    def _text_of(self, name: str, path: Path) -> str:
        try:
            text = path.read_text(encoding="ascii")
            ssl.create_default_context(cadata=text)
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.settings}_{name} cannot be used: {_reason(error)} (PEM)") from error
        return text

    def _has_expired(self) -> bool:
        """Return whether our certificate is too old. A broker in Java does not tell this reason from others."""
        # Only a failed connection needs it, and it takes a twentieth of a start.
        from cryptography.x509 import load_pem_x509_certificates

        try:
            ours = load_pem_x509_certificates(self.certificate.read_bytes()) if self.certificate else []
        except (OSError, ValueError):
            return False
        return any(one.not_valid_after_utc < datetime.now(UTC) for one in ours)

    def blame(self, error: BaseException) -> str:
        """Return the wrong setting of a failed connection, '' when TLS was not the cause."""
        for cause in causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError) and cause.verify_code == _EXPIRED:
                return f"a certificate of the {self.peer} has expired: renew it there"
            if isinstance(cause, ssl.SSLCertVerificationError):
                cure = f"{self.settings}_CA names the authority that signed it"
                return f"the {self.peer}'s certificate is not accepted: {cause.verify_message}; {cure}"
            if isinstance(cause, ssl.SSLError):
                reason = cause.reason or ""
                if reason.endswith(_OURS_REFUSED) and self._has_expired():
                    cure = f"renew {self.settings}_CERTIFICATE"
                    return f"the {self.peer} does not accept our certificate, which has expired: {cure}"
                if reason.endswith(_OURS_REFUSED):
                    names = f"{self.settings}_CERTIFICATE and {self.settings}_KEY"
                    return f"the {self.peer} does not accept our certificate, or wants one ({reason}): {names}"
                return "there is no TLS at this port" if reason in _NO_TLS else f"TLS failed: {_reason(cause)}"
        return ""


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes. Client libraries may raise the same error again; then the chain is a cycle."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: BaseException) -> str:
    """Return the short text of the operating system or of the TLS library."""
    return str(getattr(error, "strerror", None) or getattr(error, "reason", None) or error)[:200]
