"""A free TCP port on loopback."""

import random
import socket
from collections import deque

# Below every system's range for outgoing connections (Linux 32768, BSD 49152): a port from that range could be taken
# by some client while its server is down, and the restart on the same port would fail now and then.
PORTS = range(20_000, 32_000)
_CHOICES_MAX = 200
# A port is free until its server listens: without a memory the next caller could be given it as well.
_recent: deque[int] = deque(maxlen=1_000)


def free_port() -> int:
    """Returns a port of 127.0.0.1 that nobody listens on and that no outgoing connection will be given.

    The port is free at this moment, not reserved, and not given again soon in this process. Raises OSError when 200
    random choices were all taken.
    """
    for port in random.sample(PORTS, _CHOICES_MAX):
        if port in _recent:
            continue
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
        _recent.append(port)
        return port
    raise OSError(f"no free port between {PORTS.start} and {PORTS.stop} after {_CHOICES_MAX} choices")
