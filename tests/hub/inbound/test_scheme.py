"""How senders sign: published vectors, and everything that a stranger or a broken proxy may send instead (GW-07)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from hub.inbound.door import NOBODY, DoorRefused, InboundSource
from hub.inbound.preset import PRESETS
from hub.inbound.scheme import SchemeRefused, SignatureScheme, SignatureWrong

NOW = 1_700_000_000
SECRETS = {
    name: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" if preset.scheme.get("key_form") == "base64" else "a secret of ours"
    for name, preset in PRESETS.items()
}
VECTORS = [(name, vector) for name, preset in PRESETS.items() for vector in preset.vectors]
SIGNING = [name for name, preset in PRESETS.items() if preset.scheme.get("kind") != "token"]


def door(preset: str, *secrets: str, **settings: Any) -> InboundSource:
    made = InboundSource.made("door", preset, settings)
    return dataclasses.replace(made, keys=tuple(made.scheme.key(secret) for secret in secrets or (SECRETS[preset],)))


def sent(headers: Mapping[str, str]) -> dict[str, list[bytes]]:
    return {name: [value.encode()] for name, value in headers.items()}


def verdict(judged: InboundSource, headers: Mapping[str, list[bytes]], body: bytes, now: float = NOW) -> str:
    """'' for a right signature, else the reason."""
    try:
        judged.verify(headers, body, now)
    except SignatureWrong as wrong:
        return wrong.reason
    return ""


@pytest.mark.parametrize(("name", "vector"), VECTORS, ids=[f"{name}: {one['from']}" for name, one in VECTORS])
def test_a_published_vector_is_right_and_its_body_may_not_change(name: str, vector: dict[str, Any]) -> None:
    judged, body = door(name, vector["secret"]), vector["body"].encode()
    assert (
        verdict(judged, sent(vector["headers"]), body, vector["at"]),
        verdict(judged, sent(vector["headers"]), body + b" ", vector["at"]),
    ) == ("", "wrong_signature")


def test_the_official_library_of_standard_webhooks_signs_what_its_preset_accepts() -> None:
    body = '{"type":"contact.created"}'
    signature = Webhook(SECRETS["standard"]).sign("msg_1", datetime.fromtimestamp(NOW, UTC), body)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    assert verdict(door("standard"), sent(headers), body.encode()) == ""


@pytest.mark.parametrize("name", PRESETS)
def test_an_example_is_signed_as_its_preset_checks_it(name: str) -> None:
    headers, body = door(name).signed_example(SECRETS[name], NOW)
    assert verdict(door(name), sent(headers), body) == ""


@pytest.mark.parametrize("name", SIGNING)
@pytest.mark.parametrize("change", ["truncated", "re-encoded", "another secret", "no signature", "twice", "no prefix"])
def test_whatever_is_not_what_was_signed_is_refused(name: str, change: str) -> None:
    """Forged, truncated, re-encoded by a proxy, signed twice."""
    judged = door(name)
    headers, body = judged.signed_example(SECRETS[name], NOW)
    given = sent(headers)
    if change == "truncated":
        body = body[:-1]
    elif change == "re-encoded":
        body = body.replace(b":", b": ", 1)
    elif change == "another secret":
        judged = door(name, "whsec_c2VjcmV0IG9mIGFub3RoZXI=")
    elif change == "no signature":
        del given[judged.scheme.header]
    elif change == "twice":
        given[judged.scheme.header] *= 2
    else:
        given[judged.scheme.header] = [b"0000"]
    assert verdict(judged, given, body) in ("wrong_signature", "no_signature", "no_timestamp")


@pytest.mark.parametrize("name", [name for name in SIGNING if door(name).scheme.has_timestamp])
@pytest.mark.parametrize(("later", "found"), [(-301, "outside_window"), (-300, ""), (300, ""), (301, "outside_window")])
def test_a_replay_or_a_wrong_clock_is_outside_the_window(name: str, later: int, found: str) -> None:
    headers, body = door(name).signed_example(SECRETS[name], NOW)
    assert verdict(door(name), sent(headers), body, NOW + later) == found


@pytest.mark.parametrize("name", PRESETS)
def test_both_secrets_are_valid_during_a_rotation(name: str) -> None:
    new = "whsec_bmV3IHNlY3JldCBvZiBvdXJz"
    judged = door(name, new, SECRETS[name])
    signed = [judged.signed_example(secret, NOW) for secret in (new, SECRETS[name])]
    assert [verdict(judged, sent(headers), body) for headers, body in signed] == ["", ""]


def test_hex_may_be_in_upper_case_and_a_token_is_compared_whole() -> None:
    (vector,) = PRESETS["github"].vectors
    upper = {"x-hub-signature-256": "sha256=" + vector["headers"]["x-hub-signature-256"][7:].upper()}
    token = [
        sent({"x-gitlab-token": text}) for text in ("a secret of ours", "a secret of our", "", "a secret of ours ")
    ]
    assert (
        verdict(door("github", vector["secret"]), sent(upper), vector["body"].encode()),
        [verdict(door("gitlab"), one, b"") for one in token],
    ) == ("", ["", "wrong_signature", "wrong_signature", "wrong_signature"])


def test_a_door_that_does_not_exist_refuses_what_any_sender_signs() -> None:
    signed = [door(name).signed_example(SECRETS[name], NOW) for name in PRESETS]
    assert "" not in [verdict(NOBODY, sent(headers), body) for headers, body in signed]


@pytest.mark.parametrize(
    "timestamp", [b"", b"now", b"1.7e9", b"-1", b"1700000000\n", b"9" * 400, "١٧٠٠٠٠٠٠٠٠".encode()], ids=range(7)
)
def test_a_timestamp_is_a_number_of_seconds(timestamp: bytes) -> None:
    headers, body = door("slack").signed_example(SECRETS["slack"], NOW)
    given = sent(headers) | {"x-slack-request-timestamp": [timestamp]}
    assert verdict(door("slack"), given, body) == "no_timestamp"


@pytest.mark.parametrize(
    "parts",
    [
        {"header": "X-Signature"}, {"header": ""}, {"signed": "{timestamp}"}, {"signed": "{body}{other}"},
        {"signed": "{timestamp}.{body}"}, {"timestamp_header": "x-time"}, {"signed": "{id}.{body}"},
        {"id_header": "x-id"}, {"algorithm": "md5"}, {"encoding": "base32"}, {"prefix": "\n"}, {"window_seconds": 0},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_are_no_way_of_signing_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises(SchemeRefused):
        SignatureScheme(**{"header": "x-signature", **parts})


@pytest.mark.parametrize(
    "settings",
    [
        {"topic": "hookwire.{type}"}, {"topic": "{type}"}, {"topic": "a b"}, {"topic": "a.{other}"}, {"id": "cookie:a"},
        {"type": ["body:"]}, {"key": "header:X"}, {"headers": ["x-hub-signature-256"]}, {"headers": ["authorization"]},
        {"headers": ["hookwire-key"]}, {"headers": ["a b"]}, {"scheme": {"colour": "red"}}, {"colour": "red"},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_make_no_door_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DoorRefused):
        InboundSource.made("door", "github", settings)
