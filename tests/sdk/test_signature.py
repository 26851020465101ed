"""The SDK's signature check agrees with the hub's signer and with the reference library (WH-S, SE-02, SG-6)."""

import pytest
from standardwebhooks.webhooks import Webhook

from hookwire import Delivery, SignatureRefused, verify, verify_hub
from webhooks.signature import hub_signature, new_key, webhook_headers

NOW = 1_795_242_667
KEY, OLD_KEY, FOREIGN_KEY = new_key(), new_key(), new_key()
BODY = '{"n": 1, "text": "\u00e9"}'.encode()
SIGNED = webhook_headers([KEY, OLD_KEY], "evt_abcd2345_1", NOW, BODY)


@pytest.mark.parametrize(
    "secrets", [KEY.text(), OLD_KEY.text(), [FOREIGN_KEY.text(), KEY.text()]], ids=["newest", "older", "one of two"]
)
def test_what_the_hub_signed_is_taken(secrets: str | list[str]) -> None:
    assert verify(secrets, SIGNED, BODY, now_seconds=NOW) == Delivery("evt_abcd2345_1", NOW)


def test_names_of_headers_may_have_any_case() -> None:
    headers = {name.title(): value for name, value in SIGNED.items()}
    assert verify(KEY.text(), headers, BODY, now_seconds=NOW).id == "evt_abcd2345_1"


def test_bytes_that_are_no_text_are_taken_too() -> None:
    body = b"\x00\xff"
    assert verify(KEY.text(), webhook_headers([KEY], "evt_1", NOW, body), body, now_seconds=NOW).id == "evt_1"


@pytest.mark.parametrize(
    ("changed", "body", "now_seconds"),
    [
        ({}, BODY + b" ", NOW),
        ({}, BODY, NOW + 301),
        ({}, BODY, NOW - 301),
        ({"webhook-id": "evt_abcd2345_2"}, BODY, NOW),
        ({"webhook-id": ""}, BODY, NOW),
        ({"webhook-timestamp": "now"}, BODY, NOW),
        ({"webhook-timestamp": str(NOW + 1)}, BODY, NOW),
        ({"webhook-signature": ""}, BODY, NOW),
        ({"webhook-signature": "v1,\u00e9"}, BODY, NOW),
        (
            {"webhook-signature": webhook_headers([FOREIGN_KEY], "evt_abcd2345_1", NOW, BODY)["webhook-signature"]},
            BODY,
            NOW,
        ),
        ({"webhook-signature": "v1,x " * 30 + SIGNED["webhook-signature"]}, BODY, NOW),
    ],
)
def test_a_changed_header_body_or_time_is_refused(changed: dict[str, str], body: bytes, now_seconds: float) -> None:
    with pytest.raises(SignatureRefused):
        verify(KEY.text(), {**SIGNED, **changed}, body, now_seconds=now_seconds)


def test_no_headers_are_refused() -> None:
    with pytest.raises(SignatureRefused):
        verify(KEY.text(), {}, BODY)


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_%%%", "whsk_AAAA"],
    ids=["empty", "prefix alone", "no base64", "another kind"],
)
def test_a_secret_that_is_none_is_the_programs_fault(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        verify(secret, SIGNED, BODY, now_seconds=NOW)


def test_what_the_reference_library_signed_is_taken() -> None:
    from datetime import UTC, datetime

    signature = Webhook(KEY.text()).sign("msg_1", datetime.fromtimestamp(NOW, UTC), "text")
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(NOW), "webhook-signature": signature}
    assert verify(KEY.text(), headers, b"text", now_seconds=NOW) == Delivery("msg_1", NOW)


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
def test_a_hub_signature_is_taken_in_any_case(method: str) -> None:
    value = hub_signature(b"secret", BODY, method)
    verify_hub("secret", {"X-Hub-Signature": value}, BODY)
    verify_hub("secret", {"x-hub-signature": value.upper()}, BODY)


@pytest.mark.parametrize("value", ["", "sha256=", "md5=00", "sha256=00", hub_signature(b"other", BODY)])
def test_another_hub_signature_is_refused(value: str) -> None:
    with pytest.raises(SignatureRefused):
        verify_hub("secret", {"X-Hub-Signature": value}, BODY)


def test_a_secret_may_come_without_its_prefix() -> None:
    """FX-08: as other libraries of Standard Webhooks take it."""
    assert verify(KEY.text().removeprefix("whsec_"), SIGNED, BODY, now_seconds=NOW) == Delivery("evt_abcd2345_1", NOW)
