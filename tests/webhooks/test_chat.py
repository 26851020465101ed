"""webhooks/chat.py: an event as a line in a chat room, for Slack's and Mattermost's incoming webhooks."""

import json
import tracemalloc
from typing import Any

import pytest

from tests.hostile.server import hostile_server
from tests.webhooks.harness import delivery_harness
from tests.webhooks.test_message import event
from webhooks.chat import TemplateRefused, chat_body, chat_line, check_template

ORDER = {"order": {"id": 17, "items": ["tea", "cup"]}, "customer": "<!channel> & @all", "paid": True}
PAYLOAD = json.dumps(ORDER).encode()


def line(form: str, template: str | None, **more: Any) -> str:
    body: dict[str, str] = json.loads(chat_body(form, template, event(topic="orders.paid", **more)))
    assert set(body) == {"text"}, "what an incoming webhook takes"
    return body["text"]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{topic} {key} {id}", "orders.paid k evt_abcd2345_7"),
        ("{time}", "2026-01-02T00:00:00Z"),
        ("{data.order.id} {data.order.items.1} {data.paid}", "17 cup true"),
        ("{data.order.items}", '["tea", "cup"]'),
        ("{data.none.at.all}|{data.order.items.9}|", "||"),
        ("no place at all", "no place at all"),
    ],
)
def test_a_template_is_filled_from_the_event(template: str, text: str) -> None:
    assert line("slack", template, payload=PAYLOAD, key="k") == text


@pytest.mark.parametrize(
    ("form", "text"),
    [("slack", "&lt;!channel&gt; &amp; @all"), ("mattermost", "<!channel> & @\u200ball")],
)
def test_what_a_publisher_wrote_calls_nobody(form: str, text: str) -> None:
    assert line(form, "{data.customer}", payload=PAYLOAD) == text


@pytest.mark.parametrize(
    ("form", "payload", "text"),
    [
        ("mattermost", b'{"a": "[x](http://b.example)"}', "[x]\u200b(http://b.example)"),
        ("mattermost", b'{"a": "![x][1]", "b": "[1]: //b.example"}', "![x]\u200b[1]\u200b[1]\u200b: //b.example"),
        ("mattermost", b'{"a": "[x]", "b": "(http://b.example)"}', "[x]\u200b(http://b.example)"),
        ("slack", b'{"a": "<http://b.example|x>"}', "&lt;http://b.example|x&gt;"),
    ],
)
def test_what_a_publisher_wrote_hides_no_link_behind_other_words(form: str, payload: bytes, text: str) -> None:
    assert line(form, "{data.a}{data.b}", payload=payload) == text


@pytest.mark.parametrize("template", ["{data.none}", " {key}\n", None])
def test_a_line_with_nothing_in_it_is_a_line_all_the_same(template: str | None) -> None:
    """Slack answers 400 to an empty text, and a room does not send it back: it would be tried for ever."""
    assert line("slack", template or "{content}", payload=b"") == "…"


def test_a_place_in_a_value_is_not_filled() -> None:
    assert line("slack", "{data.a}", payload=b'{"a": "{topic}"}') == "{topic}"


@pytest.mark.parametrize(("form", "text"), [("slack", "*orders.paid* hi"), ("mattermost", "**orders.paid** hi")])
def test_without_a_template_it_is_topic_and_content(form: str, text: str) -> None:
    assert line(form, None, payload=b"hi") == text


def test_what_is_no_text_is_described_and_what_is_long_is_cut() -> None:
    assert line("slack", "{content}", payload=b"\xff\x00", content_type="image/png") == "(2 bytes of image/png)"
    assert len(line("slack", "{content}{content}", payload=b"x" * 5_000)) == 4_000


@pytest.mark.parametrize(
    ("template", "value"),
    [("{data.a}", "&" * 100_000), ("{data.a}", "<&" * 50_000), ("{data.a}", ["&"] * 20_000)],
    ids=["ampersands", "brackets", "list"],
)
@pytest.mark.parametrize("form", ["slack", "mattermost"])
def test_a_large_value_in_many_places_is_not_repeated_before_the_cut(form: str, template: str, value: Any) -> None:
    """A publisher's event may have a megabyte, and a template 250 places."""
    made = event(topic="orders.paid", payload=json.dumps({"a": value}).encode())
    chat_line(form, template, made)
    tracemalloc.start()
    try:
        text = chat_line(form, template * 200, made)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(text) == 4_000
    assert text.endswith("…")
    assert peak < 10_000_000, f"{peak:,} bytes of memory for one line"


def test_a_value_that_fills_the_line_exactly_is_whole() -> None:
    assert line("slack", "{content}", payload=b"x" * 4_000) == "x" * 4_000
    assert line("slack", "{content}", payload=b"x" * 4_001) == "x" * 3_999 + "…"


@pytest.mark.parametrize(
    "template", ["{}", "{nothing}", "{data}", "{data.}", "{data.a b}", "{topic.x}", "{data" + ".a" * 11 + "}"]
)
def test_a_template_that_names_what_no_event_has_is_refused(template: str) -> None:
    with pytest.raises(TemplateRefused, match="is none of"):
        check_template(template)


def test_over_xmpp_a_line_has_no_character_that_xml_cannot_carry() -> None:
    """It would end the stream; XML 1.0, 2.2."""
    made = event(topic="orders.paid", payload="\x00\x0b tea\n<&@ \uffff".encode())
    assert chat_line("xmpp", None, made) == "orders.paid: \ufffd\ufffd tea\n<&@ \ufffd"


async def test_a_room_gets_a_line_and_its_answer_counts(database_url: str) -> None:
    """As Slack answers: 200 and ok."""
    async with delivery_harness(database_url) as harness, hostile_server() as room:
        await harness.subscribe(room.url("/ok"), format="slack", template="{data.customer} ordered")
        await harness.deliver(b'{"customer": "Ada"}', content_type="application/x-other")
        async with harness.working():
            await harness.drained()
        (request,) = room.requests
        assert (request.header("content-type"), json.loads(request.body)) == (
            b"application/json", {"text": "Ada ordered"},
        )  # fmt: skip
