"""Both codecs of Majordomo and the published vectors: the same bytes (MD-01 to MD-07, M2-01 to M2-03)."""

import json
from pathlib import Path
from typing import Any

import pytest

from hookwire.services.mdp import DIALECTS
from reqrep.frames import FrameLimits, dump, printable
from reqrep.majordomo.wire import MDP_01, MDP_02, MessageKind, parse

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "openapi" / "mdp-vectors.json").read_text(encoding="utf-8")
)["vectors"]
KINDS = {
    "ready": MessageKind.READY, "reply": MessageKind.REPLY, "partial": MessageKind.PARTIAL,
    "heartbeat": MessageKind.HEARTBEAT,
    "disconnect": MessageKind.DISCONNECT, "request": MessageKind.REQUEST, "invalid": MessageKind.INVALID,
    "unexpected": MessageKind.UNEXPECTED,
}  # fmt: skip
OURS = {"0.1": MDP_01, "0.2": MDP_02}


def cases(*directions: str) -> list[Any]:
    return [
        pytest.param(vector, id=f"{vector['version']} {vector['direction']} {vector['name']}")
        for vector in VECTORS
        if vector["direction"] in directions
    ]


def frames_of(vector: dict[str, Any], field: str = "frames") -> list[bytes]:
    return [bytes.fromhex(frame) for frame in vector[field]]


def field_of(vector: dict[str, Any], *names: str) -> bytes:
    return next((bytes.fromhex(vector[name]) for name in names if name in vector), b"")


@pytest.mark.parametrize("vector", cases("client-to-broker", "worker-to-broker"))
def test_the_broker_reads_what_the_vector_says(vector: dict[str, Any]) -> None:
    found = parse([b"peer", *frames_of(vector)])
    kind = KINDS[vector["command"]]
    body = frames_of({"body": vector.get("body", [])}, "body")
    assert (found.kind, found.sender, found.body) == (kind, b"peer", body)
    if kind is not MessageKind.INVALID:
        assert (found.name, found.dialect.name) == (field_of(vector, "service", "client"), vector["version"])


@pytest.mark.parametrize("vector", cases("broker-to-client", "broker-to-worker"))
def test_the_broker_builds_what_the_vector_says(vector: dict[str, Any]) -> None:
    if vector["command"] == "invalid":
        return
    dialect = OURS[vector["version"]]
    body = frames_of(vector, "body") if "body" in vector else []
    build = {
        ("broker-to-client", "reply"): lambda: dialect.to_client(b"peer", field_of(vector, "service"), body),
        ("broker-to-client", "partial"): lambda: dialect.partial_to_client(b"peer", field_of(vector, "service"), body),
        ("broker-to-worker", "request"): lambda: dialect.to_worker(b"peer", field_of(vector, "client"), body),
        ("broker-to-worker", "heartbeat"): lambda: dialect.heartbeat_to(b"peer"),
        ("broker-to-worker", "disconnect"): lambda: dialect.disconnect_to(b"peer"),
    }[vector["direction"], vector["command"]]
    assert build() == [b"peer", *frames_of(vector)]


@pytest.mark.parametrize("vector", cases("broker-to-client"))
def test_the_client_reads_what_the_vector_says(vector: dict[str, Any]) -> None:
    found = DIALECTS[vector["version"]].read_reply(frames_of(vector))
    if vector["command"] == "invalid":
        assert found is None
    else:
        expected = (field_of(vector, "service"), frames_of(vector, "body"), vector["command"] == "reply")
        assert found == expected


@pytest.mark.parametrize("vector", cases("broker-to-worker"))
def test_the_worker_reads_what_the_vector_says(vector: dict[str, Any]) -> None:
    found = DIALECTS[vector["version"]].read_command(frames_of(vector))
    if vector["command"] == "invalid":
        assert found is None
    else:
        body = frames_of(vector, "body") if "body" in vector else []
        assert found == (vector["command"], field_of(vector, "client"), body)


@pytest.mark.parametrize("vector", cases("client-to-broker", "worker-to-broker"))
def test_client_and_worker_build_what_the_vector_says(vector: dict[str, Any]) -> None:
    if vector["command"] in ("invalid", "unexpected"):
        return
    dialect = DIALECTS[vector["version"]]
    body = frames_of(vector, "body") if "body" in vector else []
    build = {
        "request": lambda: dialect.client_message(field_of(vector, "service"), body),
        "ready": lambda: dialect.ready(field_of(vector, "service")),
        "reply": lambda: dialect.reply(field_of(vector, "client"), body),
        "partial": lambda: dialect.partial(field_of(vector, "client"), body),
        "heartbeat": lambda: dialect.bare("heartbeat"),
        "disconnect": lambda: dialect.bare("disconnect"),
    }[vector["command"]]
    assert build() == frames_of(vector)


def test_a_partial_reply_of_version_0_1_is_refused_with_the_cure() -> None:
    with pytest.raises(ValueError, match=r"version='0\.2'"):
        DIALECTS["0.1"].partial(b"client", [b"x"])


def test_a_frame_beyond_its_limit_is_refused_before_it_is_parsed() -> None:
    """XX-04."""
    limits = FrameLimits(frames_max=3, message_bytes_max=10)
    found = [limits.refusal(frames) for frames in ([b"a"] * 3, [b"a"] * 4, [b"a" * 10], [b"a" * 6, b"b" * 5])]
    assert found == [None, "too-many-frames", None, "message-too-large"]


def test_a_trace_shows_number_direction_and_each_frame() -> None:
    """HB-10."""
    assert dump(7, "<", [b"", b"MDPC01", b"\x00\x01", b"x" * 70]) == (
        "000007 < [000]  | [006] MDPC01 | [002] 0x0001 | [070] " + "x" * 64 + "..."
    )
    assert printable(b"\xff") == "0xff"
