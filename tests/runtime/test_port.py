"""runtime/port.py: a port that one process has chosen is not given to another while its server is down."""

from __future__ import annotations

import subprocess
import sys
from collections import deque

import pytest

from runtime import port as ports

_FREE_PORT_OF = "from runtime import port; port.PORTS = {}; port._CHOICES_MAX = 2; print(port.free_port())"


def test_another_process_gets_another_port_while_the_first_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ports.free_port(), ports.free_port()
    ports._reserved.pop().close()
    monkeypatch.setattr(ports, "PORTS", range(first, first + 1))
    monkeypatch.setattr(ports, "_CHOICES_MAX", 1)
    with pytest.raises(OSError, match="no free port"):
        ports.free_port()

    command = [sys.executable, "-c", _FREE_PORT_OF.format((first, second))]
    found = {subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip() for _ in range(8)}

    assert found == {str(second)}


def test_a_port_that_is_no_longer_among_the_newest_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_reserved", deque())
    monkeypatch.setattr(ports, "_RESERVED_MAX", 1)
    first = ports.free_port()
    ports.free_port()

    monkeypatch.setattr(ports, "PORTS", range(first, first + 1))
    monkeypatch.setattr(ports, "_CHOICES_MAX", 1)
    assert ports.free_port() == first
