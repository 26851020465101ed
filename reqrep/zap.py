"""27/ZAP without I/O: authentication of the peers of a socket of this process."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from reqrep.counters import Counters
from reqrep.frames import Frames

__all__ = ["Gatekeeper"]

_VERSION = b"1.0"


@dataclass(slots=True)
class Gatekeeper:
    """Decides which peers may connect. A rule that is None is not applied.

    * ``allowed_networks``: the peer's address must lie in one of them, such as 10.0.0.0/8.
    * ``passwords``: the password of each user, for PLAIN.
    * ``user_of_key``: returns the user of a CURVE public key of 32 bytes, or None for an unknown key.

    PLAIN and CURVE are refused without their rule.
    """

    allowed_networks: Collection[str] | None = None
    passwords: Mapping[str, str] | None = None
    user_of_key: Callable[[bytes], str | None] | None = None
    accepts_anonymous: bool = False
    counters: Counters = field(default_factory=Counters)

    def answer(self, frames: Frames) -> Frames | None:
        """Return the reply to a ZAP request, with its envelope, or None if the message is not a ZAP request."""
        if len(frames) < 8 or frames[1] != b"" or frames[2] != _VERSION:
            self.counters.drop("malformed-zap-request")
            return None
        envelope, request_id, address, mechanism, credentials = (
            frames[:2],
            frames[3],
            frames[5],
            frames[7],
            frames[8:],
        )
        user = self._user(address.decode("ascii", "replace"), mechanism, credentials)
        if user is None:
            self.counters.drop("connection-refused")
            return [*envelope, _VERSION, request_id, b"400", b"not allowed", b"", b""]
        return [*envelope, _VERSION, request_id, b"200", b"OK", user.encode(), b""]

    def _user(self, address: str, mechanism: bytes, credentials: Frames) -> str | None:
        """Return the peer's user name, "" for an anonymous peer, or None for a refused peer."""
        if not self._allows(address):
            return None
        if mechanism == b"NULL":
            return "" if self.accepts_anonymous else None
        if mechanism == b"PLAIN" and len(credentials) == 2 and self.passwords is not None:
            return self._by_password(*credentials)
        if mechanism == b"CURVE" and len(credentials) == 1 and self.user_of_key is not None:
            return self.user_of_key(credentials[0])
        return None

    def _allows(self, address: str) -> bool:
        if self.allowed_networks is None:
            return True
        try:
            # An IPv4 peer of a socket that speaks both families has such an address: ::ffff:10.0.0.1.
            found = ip_address(address.removeprefix("::ffff:"))
        except ValueError:
            return False
        return any(found in ip_network(network) for network in self.allowed_networks)

    def _by_password(self, name: bytes, password: bytes) -> str | None:
        assert self.passwords is not None
        user = name.decode("utf-8", "replace")
        expected = self.passwords.get(user)
        matches = hmac.compare_digest((expected or "").encode(), password)
        return user if matches and expected else None
