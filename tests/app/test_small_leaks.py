"""Small things that strangers found: what is read before it is known, echoed, or told to those who should not know."""

from __future__ import annotations

import asyncio
import io
from ipaddress import ip_address

import pytest

from app.cli.failure import CommandFailed
from app.cli.hub_client import get as get_json
from app.cli.hub_client import hub_url
from app.cli.lines.one_line import on_one_line
from app.cli.table import show
from app.settings.settings import Settings
from db.secret_box import SecretBoxError, parse_keys
from egress.guard import GuardPolicy, judge
from tests.app.conftest import RunHub
from tests.app.web.corpus_http import get
from tests.app.web.test_authentication import authorized, bearer


async def exchanged(port: int, sent: bytes) -> bytes:
    """The first line of what is answered to these bytes, with the connection left open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    async with asyncio.timeout(60):
        answer = await reader.readline()
    writer.close()
    return answer


async def test_a_token_that_is_unknown_is_refused_before_its_body_is_read(running_hub: RunHub) -> None:
    """FS-16: while half of the body is still to come."""
    async with running_hub() as hub:
        port = hub.client.base_url.port or 0
        head = get(b"Host: localhost\r\nContent-Length: 900000\r\n", b"/hub/callback/unknown", method=b"POST")

        assert await exchanged(port, head + b"x" * 450_000) == b"HTTP/1.1 404 Not Found\r\n"


async def test_a_path_with_a_slash_more_leads_nowhere(running_hub: RunHub) -> None:
    """FS-17 a: a redirect would be built from Host."""
    async with running_hub(access="keys") as hub:
        headers = {"Host": "evil.example", **authorized(await bearer(hub, "read"))}
        answer = await hub.client.get("/topics/", headers=headers)

        assert (answer.status_code, answer.headers.get("location")) == (404, None)


async def test_a_stranger_does_not_learn_which_exchanges_there_are(running_hub: RunHub) -> None:
    """FS-17 b: a wrong token is answered alike where there is one and where there is none."""
    async with running_hub() as hub:
        await hub.client.put("/rabbithub/endpoint/x/there")
        asked = {"hub.mode": "subscribe", "hub.challenge": "c", "hub.verify_token": "forged"}

        there, none = [
            await hub.client.get(f"/rabbithub/endpoint/x/{name}", params=asked) for name in ("there", "none")
        ]

        assert (there.status_code, there.text) == (none.status_code, none.text) == (400, there.text)


async def test_health_is_told_by_http_1_0_without_a_host(running_hub: RunHub) -> None:
    """FX-06: and nothing else is."""
    async with running_hub() as hub:
        port = hub.client.base_url.port or 0

        found = [
            await exchanged(port, get(b"", target, version))
            for target, version in (
                (b"/healthz", b"HTTP/1.0"), (b"/readyz", b"HTTP/1.0"),
                (b"/topics", b"HTTP/1.0"), (b"/healthz", b"HTTP/1.1"),
            )
        ]  # fmt: skip

        assert [line.split(b" ")[1] for line in found] == [b"200", b"200", b"400", b"400"]


@pytest.mark.parametrize(
    ("text", "terminal", "elsewhere"),
    [
        ("a\nevt_1  orders.paid", "a\\nevt_1  orders.paid", "a\\nevt_1  orders.paid"),
        ("\x1b]52;c;x\x07\x1b[2J", "\\x1b]52;c;x\\x07\\x1b[2J", "\x1b]52;c;x\x07\x1b[2J"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f", "\x9b2J\x7f"),
        ("a\u2028b\x85c\r", "a\\u2028b\\x85c\\r", "a\\u2028b\\x85c\\r"),
        ("grüße", "grüße", "grüße"),
    ],
)
def test_a_payload_acts_on_no_terminal_and_is_one_line(text: str, terminal: str, elsewhere: str) -> None:
    """FS-17 c."""
    assert [on_one_line(text, is_terminal=True), on_one_line(text, is_terminal=False)] == [terminal, elsewhere]


async def test_no_password_of_an_address_is_told(free_port: int) -> None:
    """FS-17 d: HOOKWIRE_URL may hold one."""
    url = f"http://user:S3cr3t@127.0.0.1:{free_port}"
    with pytest.raises(CommandFailed) as unreached:
        await get_json(f"{url}/topics")
    with pytest.raises(CommandFailed) as wrong:
        hub_url("ftp://user:S3cr3t@hub.example", Settings())

    told = f"{unreached.value} {wrong.value}"
    assert ("S3cr3t" in told, f"127.0.0.1:{free_port}" in told, "ftp://hub.example" in told) == (False, True, True)


def test_a_key_without_its_id_is_not_told() -> None:
    """FS-17 d: HOOKWIRE_SECRET_KEYS."""
    with pytest.raises(SecretBoxError) as refused:
        parse_keys("0123456789abcdef0123456789abcdef")

    assert str(refused.value) == "a key is id:base64"


@pytest.mark.parametrize("address", ["64:ff9b:1::a9fe:a9fe", "2001:0:a9fe:a9fe::1", "2001:0:1:2::5601:5601"])
def test_metadata_behind_a_translator_or_tunnel_is_refused_where_its_host_is_allowed(address: str) -> None:
    """FS-17 f: NAT64's second prefix, Teredo's server and client."""
    policy = GuardPolicy(allow_hosts=("metadata.example",))

    assert not judge([ip_address(address)], 80, policy, "metadata.example").allowed


def test_a_list_acts_on_no_terminal_and_a_row_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """FS-23: ids and reasons of tasks are other people's texts."""
    show(("id", "reason"), [("a\nforged", "[bold]x\x1b[2J")])

    assert capsys.readouterr().out.splitlines()[1:] == ["a\\nforged  [bold]x\x1b[2J"]


async def test_a_list_on_a_terminal_holds_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    """FS-23."""
    from rich.console import Console

    printed = io.StringIO()
    monkeypatch.setattr("app.cli.table.console", lambda: Console(file=printed, force_terminal=True, width=80))
    show(("id",), [("x\x1b[2J\x9b1m",)])

    assert "x\\x1b[2J\\x9b1m" in printed.getvalue()
