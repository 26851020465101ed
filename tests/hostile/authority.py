"""A certificate authority for tests (F32): good, expired, foreign and self-signed server certificates, never on disk
but for the files a context insists on."""

import datetime
import ipaddress
import ssl
import warnings
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs server certificates; `ca_file` is what clients should trust."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        builder = _builder(self._name, self._name, self._key, days=(-1, 30))
        certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            self._key, hashes.SHA256()
        )
        self.ca_file = str(folder / "ca.pem")
        Path(self.ca_file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def chain(self, host: str = "127.0.0.1", *, days: tuple[int, int] = (-1, 1), self_signed: bool = False) -> Path:
        """Give a PEM file with the certificate for `host` and its key, valid from and until so many days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        builder = _builder(subject, subject if self_signed else self._name, key, days).add_extension(
            x509.SubjectAlternativeName([_alternative(host)]), critical=False
        )
        certificate = builder.sign(key if self_signed else self._key, hashes.SHA256())
        chain = self._folder / f"server-{certificate.serial_number}.pem"
        chain.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return chain

    def context(
        self,
        host: str = "127.0.0.1",
        *,
        days: tuple[int, int] = (-1, 1),
        self_signed: bool = False,
        version: ssl.TLSVersion | None = None,
    ) -> ssl.SSLContext:
        """Give a server context with a certificate for `host`, valid from and until so many days from now."""
        chain = self.chain(host, days=days, self_signed=self_signed)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        if version is not None:
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings(action="ignore"):  # old versions are deprecated: that is the point
                context.minimum_version = context.maximum_version = version
        return context


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: tuple[int, int]
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
    )
