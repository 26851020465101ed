import base64
import hashlib
import hmac
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from tests.webhooks.verifying import parse_public_key, verify_webhook
from webhooks.signature import (
    HUB_METHODS,
    Ed25519Key,
    HmacKey,
    SignatureRefused,
    SigningKey,
    hub_key,
    hub_signature,
    new_key,
    parse_key,
    verify_hub_signature,
    webhook_headers,
)

SECRET = bytes(range(1, 33))
KEY = HmacKey(SECRET)
NOW = 1_700_000_000


# --- Standard Webhooks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "signature"),
    [
        (b'{"n":1}', "v1,RI5Z2Z5jkA7+Nh7GL5fqYUHeTXfUAndhYMCkpdooUIE="),
        (b"", "v1,CRGyEfLjZsiHXve6jIiLP8/Y1sP7QlWhhoQ12DWFVKE="),
        (b"\x00\xff\x10", "v1,HbPEqIjbQ33AEHDv1qdy7FpVeE2vJw8AntcQGQgHock="),
    ],
)
def test_a_message_is_signed_as_in_the_vectors(body: bytes, signature: str) -> None:
    """WH-S01..S03, vectors of 5.4."""
    assert webhook_headers([KEY], "evt_0001", NOW, body) == {
        "webhook-id": "evt_0001",
        "webhook-timestamp": "1700000000",
        "webhook-signature": signature,
    }


def test_an_ed25519_key_signs_as_in_the_vector() -> None:
    """WH-S03, WH-S07, vector of 5.4."""
    key = Ed25519Key(SECRET)
    headers = webhook_headers([key], "evt_0001", NOW, b'{"n":1}')

    assert (key.verifier.text(), headers["webhook-signature"]) == (
        "whpk_ebVWLo/mVPlAeLES6KmLp5AfhTrmlb7X4OORC60ElmQ=",
        "v1a,ZjycvbDBqUicyT1YeUJvYVBl+Z8CxSvCziNXRgwyBHS3mCqSXYMo15g+RqeIpFqs6J+YoGRApZD/tosmy3vbDQ==",
    )


def test_without_a_key_there_is_no_signature_header() -> None:
    """WH-S01, WH-S16."""
    assert webhook_headers([], "evt_1", NOW, b"") == {"webhook-id": "evt_1", "webhook-timestamp": "1700000000"}


def test_several_keys_sign_newest_first_separated_by_one_space() -> None:
    """WH-S04, WH-S17: symmetric and asymmetric may overlap."""
    keys: list[SigningKey] = [HmacKey(b"new" * 10), Ed25519Key(SECRET), KEY]
    alone = [webhook_headers([key], "evt_1", NOW, b"x")["webhook-signature"] for key in keys]

    assert webhook_headers(keys, "evt_1", NOW, b"x")["webhook-signature"] == " ".join(alone)


@pytest.mark.parametrize(("keys", "message_id"), [([], "a.b"), ([], ""), ([], "a b"), ([KEY] * 11, "evt_1")])
def test_an_ambiguous_id_or_too_many_keys_are_a_mistake_of_ours(keys: list[HmacKey], message_id: str) -> None:
    """WH-S05, WH-S17."""
    with pytest.raises(ValueError, match=r"id|keys"):
        webhook_headers(keys, message_id, NOW, b"")


@settings(deadline=None)
@given(st.binary(min_size=24, max_size=64), st.text(), st.integers(0, 4_000_000_000))
def test_the_official_library_makes_the_same_signature(secret: bytes, body: str, timestamp: int) -> None:
    """WH-S12: text bodies only."""
    theirs = Webhook(secret).sign("evt_1", datetime.fromtimestamp(timestamp, UTC), body)

    assert webhook_headers([HmacKey(secret)], "evt_1", timestamp, body.encode())["webhook-signature"] == theirs


@given(st.binary(min_size=1, max_size=199), st.binary(max_size=200))
def test_a_signature_is_the_standard_library_s_hmac_for_a_key_of_any_length(secret: bytes, content: bytes) -> None:
    """WH-S03, WH-S14: a hub secret may be longer than a block of SHA-256."""
    digest = hmac.digest(secret, content, "sha256")

    assert HmacKey(secret).sign(content) == "v1," + base64.b64encode(digest).decode("ascii")


def test_the_official_library_accepts_any_of_our_signatures() -> None:
    """WH-T02, WH-S04."""
    now = int(datetime.now(UTC).timestamp())
    old, new = new_key(), new_key()
    headers = webhook_headers([new, Ed25519Key(SECRET), old], "evt_1", now, b'{"n":1}')

    assert [Webhook(key.text()).verify(b'{"n":1}', headers) for key in (old, new)] == [{"n": 1}] * 2
    with pytest.raises(WebhookVerificationError):
        Webhook(new_key().text()).verify(b'{"n":1}', headers)


@given(st.binary(max_size=200), st.integers(-300, 300))
def test_what_we_sign_verifies_within_the_tolerance(body: bytes, clock_skew_seconds: int) -> None:
    """WH-S09: 300 s both ways."""
    key = Ed25519Key(SECRET)
    headers = webhook_headers([KEY, key], "evt_1", NOW, body)

    verify_webhook([HmacKey(b"other" * 5), KEY], headers, body, NOW + clock_skew_seconds)
    verify_webhook([HmacKey(b"other" * 5), key.verifier], headers, body, NOW + clock_skew_seconds)


@pytest.mark.parametrize(
    ("change", "body", "now"),
    [
        pytest.param({}, b"y", NOW, id="another body"),
        pytest.param({}, b"x", NOW + 301, id="too old"),
        pytest.param({}, b"x", NOW - 301, id="too new"),
        pytest.param({"webhook-id": "evt_2"}, b"x", NOW, id="another id"),
        pytest.param({"webhook-id": ""}, b"x", NOW, id="no id"),
        pytest.param({"webhook-timestamp": "1700000001"}, b"x", NOW, id="another time"),
        pytest.param({"webhook-timestamp": ""}, b"x", NOW, id="no time"),
        pytest.param({"webhook-timestamp": "1700000000.0"}, b"x", NOW, id="no integer"),
        pytest.param({"webhook-timestamp": " 1700000000"}, b"x", NOW, id="blank before the time"),
        pytest.param({"webhook-timestamp": "١٧٠٠٠٠٠٠٠٠"}, b"x", NOW, id="PA-04 digits"),
        pytest.param({"webhook-timestamp": "1" * 5000}, b"x", NOW, id="PA-04 length"),
        pytest.param({"webhook-signature": ""}, b"x", NOW, id="no signature"),
        pytest.param({"webhook-signature": "v1,"}, b"x", NOW, id="empty signature"),
        pytest.param({"webhook-signature": "v1a,AAAA"}, b"x", NOW, id="other family"),
        pytest.param({"webhook-signature": "v1,é"}, b"x", NOW, id="not ASCII"),
        pytest.param({"webhook-signature": "v1,AA== " * 21}, b"x", NOW, id="too many"),
    ],
)
def test_a_message_that_was_changed_is_refused(change: dict[str, str], body: bytes, now: float) -> None:
    """WH-S09, SE-02."""
    key = Ed25519Key(SECRET)
    headers = webhook_headers([KEY, key], "evt_1", NOW, b"x") | change

    with pytest.raises(SignatureRefused):
        verify_webhook([KEY, key.verifier], headers, body, now)


def test_an_ed25519_signature_under_another_version_is_refused() -> None:
    key = Ed25519Key(SECRET)
    headers = webhook_headers([key], "evt_1", NOW, b"x")
    headers["webhook-signature"] = headers["webhook-signature"].replace("v1a,", "v1,")

    with pytest.raises(SignatureRefused):
        verify_webhook([key.verifier], headers, b"x", NOW)


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_secret_is_shown_as_in_the_vector_and_reads_back() -> None:
    """WH-S07, vector of 5.4."""
    text = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

    assert (KEY.text(), parse_key(text)) == (text, KEY)


@pytest.mark.parametrize("raw", [SECRET, SECRET + base64.b64decode("ebVWLo/mVPlAeLES6KmLp5AfhTrmlb7X4OORC60ElmQ=")])
def test_an_asymmetric_secret_is_a_seed_with_or_without_its_public_key(raw: bytes) -> None:
    """WH-S07: written as 64 bytes, seed first."""
    key = parse_key("whsk_" + base64.b64encode(raw).decode())

    assert (type(key), key.text()) == (Ed25519Key, Ed25519Key(SECRET).text())
    assert parse_public_key(Ed25519Key(SECRET).verifier.text()).text() == Ed25519Key(SECRET).verifier.text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "whsec_",
        "whsec_AAAA",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        "whsec_" + base64.b64encode(bytes(24)).decode() + "\n",
        "whsec_é",
        "WHSEC_" + base64.b64encode(bytes(24)).decode(),
        base64.b64encode(bytes(24)).decode(),
        "whpk_" + base64.b64encode(bytes(32)).decode(),
        "whsk_" + base64.b64encode(bytes(33)).decode(),
        "whsk_" + base64.b64encode(SECRET + bytes(32)).decode(),
    ],
)
def test_anything_else_is_no_signing_key_and_is_not_repeated_in_the_error(text: str) -> None:
    """WH-S07, SE-07."""
    with pytest.raises(ValueError, match=r"a signing key is|a key is") as caught:
        parse_key(text)

    assert len(text) < 10 or text not in str(caught.value)


@pytest.mark.parametrize("text", ["whpk_AAAA", "whpk_", "whsec_" + base64.b64encode(bytes(32)).decode()])
def test_anything_else_is_no_public_key(text: str) -> None:
    with pytest.raises(ValueError, match="a public key is"):
        parse_public_key(text)


def test_a_new_key_is_random_and_as_long_as_the_hash() -> None:
    """WH-S07, WH-S08."""
    first, second = new_key(), new_key()

    assert (len(first.secret), first == second) == (32, False)


def test_a_key_shows_nothing_of_itself() -> None:
    """WH-S08."""
    shown = f"{KEY!r} {KEY} {Ed25519Key(SECRET)!r} {[KEY]}"

    assert shown == "HmacKey(whsec_***) HmacKey(whsec_***) Ed25519Key(whsk_***) [HmacKey(whsec_***)]"


# --- WebSub --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "body", "signature"),
    [
        ("s3cret", b'{"n":1}', "sha1=cbb43c4c3be3521d7c87783483c4160be788b1ad"),
        ("s3cret", b'{"n":1}', "sha256=8f0119179f72a1ee1ddd6ea193d72c5430227f4ecb9255eaa54499b96559c4ad"),
        ("s3cret", b"", "sha256=91dfac70c5348b04e1babb8b421ac92cec08b565b49ca16130dccb72503647b7"),
        ("s3cr3t", b"hello\n", "sha1=8c5b27dda9be094921145016e3ce4a42dc1baee0"),
        ("s3cr3t", b"hello\n", "sha256=8fb8cb1203851914b1b8be73a141c8eeee48592ad7d23b79673025bdac376ed5"),
        ("s3cr3t", b"", "sha1=319e5f42b6b9dc5daa3b1d411df1a3f7c891f358"),
        ("s3cr3t", b"", "sha256=3c81cc9496e1c25250f6ccb85f697c1bb623e3480d6538ad8cb6a6648142777d"),
        ("ключ-κλειδί", b"hello\n", "sha256=d5f9aa42e20eea2f2e2e25ecf3e47cd9437e6243ef0545a584efd851ba40b98d"),
    ],
)
def test_a_hub_signature_is_as_in_the_vectors(secret: str, body: bytes, signature: str) -> None:
    """WH-S13, SG-1, SG-2: vectors of both documents."""
    assert hub_signature(hub_key(secret).secret, body, signature.partition("=")[0]) == signature


@given(st.sampled_from(HUB_METHODS), st.binary(min_size=1, max_size=199), st.binary(max_size=100))
def test_every_method_is_the_plain_hmac_of_the_body(method: str, secret: bytes, body: bytes) -> None:
    """SG-1, OR-13."""
    signature = hub_signature(secret, body, method)

    assert signature == f"{method}=" + hmac.new(secret, body, getattr(hashlib, method)).hexdigest()
    verify_hub_signature(secret, signature.upper(), body)


def test_the_default_method_is_sha256_and_others_are_a_mistake() -> None:
    """SG-2."""
    assert hub_signature(b"k", b"").startswith("sha256=")
    with pytest.raises(ValueError, match="one of"):
        hub_signature(b"k", b"", "md5")


@pytest.mark.parametrize(
    "header",
    [
        "",
        "sha256",
        "sha256=",
        "sha256=zz",
        "md5=" + "0" * 32,
        "sha256=" + "0" * 64,
        hub_signature(b"k", b"x").replace("sha256", "sha1"),
        hub_signature(b"k", b"x") + " ",
        hub_signature(b"k", b"x") + ",sha1=00",
        hub_signature(b"k", b"y"),
        hub_signature(b"other", b"x"),
        "sha256=" + "é" * 64,
    ],
)
def test_a_hub_signature_that_does_not_fit_is_refused(header: str) -> None:
    """SG-6."""
    with pytest.raises(SignatureRefused):
        verify_hub_signature(b"k", header, b"x")


def test_a_hub_secret_signs_both_families_and_has_a_whsec_form() -> None:
    """WH-S15."""
    key = hub_key("s3cret")

    headers = webhook_headers([key], "evt_1", NOW, b"x")

    verify_webhook([HmacKey(b"s3cret")], headers, b"x", NOW)
    assert key.text() == "whsec_czNjcmV0"


@pytest.mark.parametrize("secret", ["", "x" * 200, "é" * 100])
def test_a_hub_secret_is_counted_in_bytes(secret: str) -> None:
    """WH-S14."""
    with pytest.raises(ValueError, match="199"):
        hub_key(secret)
