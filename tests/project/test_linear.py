"""Time is linear in what a stranger sends: every regular expression, every parser of a header or body (FS-01, FS-05).

64 KiB cost at most three times the CPU time of 32 KiB in the same run. The least of several rounds counts. What takes
less than a floor is not compared: the square of 64 KiB is far above it. Nor is what takes so little at 16 KiB that
even its square stays below the floor. An interval timer of CPU time ends what would take hours.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from itertools import product
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple

import pytest

import hookwire
from app.web.api.rabbithub.path import parts_of
from app.web.api.rabbithub.words import read_import, read_wish
from app.web.api.route.paging import read_cursor
from app.web.api.route.precondition import version_meant
from app.web.problem import Problem
from egress.guard import GuardPolicy
from egress.retry_after import retry_after_seconds
from egress.url import parse_target
from event.attribute import decode_header_value
from event.cloudevents import BATCH_TYPE, STRUCTURED_TYPE, decode_http
from event.hops import hops_of
from event.identity import parse_event_id
from event.json_format import charset_is_utf8, is_json_type
from event.strict_json import loads, loads_array_members, loads_members
from event.topic import compile_pattern, validate_key
from hub.feeds.discovery import discover
from hub.feeds.feed import read_feed
from hub.form import FormDialect, FormRefused, read
from hub.rabbithub.exchange import bind, parse_headers, topic_of_key
from hub.topic_url import matching_text
from webhooks.chat import check_template
from webhooks.signature import SignatureRefused, verify_hub_signature

ROOT: Final = Path(__file__).parents[2]
SIZE: Final = 64 * 1024
RATIO_MAX: Final = 3.0
FLOOR_SECONDS: Final = 0.05
FIRST_SIZE: Final = SIZE // 4
FIRST_FLOOR_SECONDS: Final = FLOOR_SECONDS / 4**2
CPU_SECONDS_MAX: Final = 2.0
ROUNDS_MIN: Final = 3
ROUNDS_MAX: Final = 15
REFUSALS: Final = (ValueError, FormRefused, SignatureRefused, hookwire.SignatureRefused, Problem)

PREFIXES: Final = ("", 'a="', "<a>;a=", '{"a":"')
UNITS: Final = (
    " ", "\n", '"', "\\", '\\"', ",", ";", "=", "&", "<", "[", "{", "{}", '{"a":', "<a>", "<a ", "<!--", "<![", "&#",
    "%", "%4", "/", ".", "-", ":", "@", "a", "0", "a.", "a ", " ,", "; ", 'a=" ', ' a="b",', ";a=", "<a>;", ", http",
)  # fmt: skip
SUFFIXES: Final = ('"', "!")
TEXTS: Final = tuple(product(PREFIXES, UNITS, SUFFIXES))


class _TooLong(BaseException):
    """The CPU time is over; no `except` of the product catches it."""


def text_of(shape: tuple[str, str, str], size: int) -> str:
    """A text of about this size: prefix, as many units as it takes, suffix."""
    prefix, unit, suffix = shape
    return prefix + unit * ((size - len(prefix) - len(suffix)) // len(unit)) + suffix


def cpu_seconds(read_text: Callable[[str], object], text: str) -> float:
    """What one call costs; infinity where it takes longer than `CPU_SECONDS_MAX`."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise _TooLong

    former = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS_MAX)
    began = time.thread_time()
    try:
        with suppress(*REFUSALS):
            read_text(text)
        return time.thread_time() - began
    except _TooLong:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)


def is_linear(read_text: Callable[[str], object], shape: tuple[str, str, str]) -> bool:
    """Tell whether the double costs at most three times as much; ask again where other programs are in the way."""
    if cpu_seconds(read_text, text_of(shape, FIRST_SIZE)) < FIRST_FLOOR_SECONDS:
        return True
    half, whole = text_of(shape, SIZE // 2), text_of(shape, SIZE)
    most = cpu_seconds(read_text, whole)
    least = float("inf")
    for number in range(ROUNDS_MAX):
        if most < FLOOR_SECONDS or (number >= ROUNDS_MIN and most <= RATIO_MAX * least):
            return True
        if most == float("inf"):
            return False
        most, least = min(most, cpu_seconds(read_text, whole)), min(least, cpu_seconds(read_text, half))
    return False


def too_dear(read_text: Callable[[str], object]) -> list[tuple[str, str, str]]:
    """The first shape of text whose time is not linear; none where all are."""
    return next(([shape] for shape in TEXTS if not is_linear(read_text, shape)), [])


# --- every regular expression -----------------------------------------------------------------------------------

ROOMS: Final = ("app", "hub", "webhooks", "relay", "event", "db", "jobs", "reqrep", "sdk/src/hookwire")
CALLS: Final = frozenset({"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
AT_THE_START: Final = frozenset({"match", "fullmatch"})

OURS: Final = {
    "app/settings/file.py": "the operator's own file of settings, each line of it by the name of a setting",
    "app/chaos/seeded_bugs.py": "seeded bugs, which change our own SQL",
}
"""Files with an expression that is made while they run, and what it reads."""


class Expression(NamedTuple):
    """A regular expression of the product. ``scans``: it is looked for everywhere in a text, not at its start alone."""

    where: str
    pattern: re.Pattern[Any]
    scans: bool

    def read(self, text: str) -> object:
        """Read the text in the way in which the product does."""
        subject = text.encode("latin-1") if isinstance(self.pattern.pattern, bytes) else text
        if self.scans:
            return self.pattern.sub(subject[:0], subject)
        return self.pattern.match(subject), self.pattern.fullmatch(subject)


def _module_of(path: Path) -> ModuleType:
    return importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("sdk.src."))


@cache
def uses() -> Mapping[str, frozenset[str]]:
    """Which methods are called on a name, anywhere in the product."""
    found: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in CALLS:
                found.setdefault(node.value.id, set()).add(node.attr)
    return {name: frozenset(methods) for name, methods in found.items()}


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


def expressions() -> Iterator[Expression]:
    """Every call of the module ``re`` whose expression is known before the program runs."""
    for path in sources():
        tree = ast.parse(path.read_text())
        assigned = {
            id(node.value): target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            made = call.func
            if isinstance(made, ast.Attribute) and isinstance(made.value, ast.Name) and made.value.id == "re":
                yield from _made_by(path, call, made.attr, assigned.get(id(call)))


def _made_by(path: Path, call: ast.Call, method: str, name: str | None) -> Iterator[Expression]:
    if method not in CALLS:
        return
    names = vars(_module_of(path))
    where = f"{path.relative_to(ROOT)}:{call.lineno}"
    flags = [one.value for one in call.keywords if one.arg == "flags"] + call.args[1:] * (method == "compile")
    try:
        pattern, *given = (eval(compile(ast.Expression(one), where, "eval"), names) for one in (call.args[0], *flags))
    except NameError:
        assert str(path.relative_to(ROOT)) in OURS, f"{where}: what does this expression read?"
        return
    methods = uses().get(name or "", AT_THE_START | {"sub"}) if method == "compile" else {method}
    yield Expression(where, re.compile(pattern, *given), scans=not methods <= AT_THE_START)


@pytest.mark.parametrize("expression", list(expressions()), ids=lambda expression: expression.where)
def test_every_regular_expression_is_linear(expression: Expression) -> None:
    """FS-01."""
    assert too_dear(expression.read) == []


def test_an_expression_that_is_cubic_in_blanks_is_found() -> None:
    """FS-01: the expression of RabbitHub's header list as it was."""
    old = re.compile(r'\s*([^=,"\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*?))\s*(?:,|$)')
    assert not is_linear(Expression("old", old, scans=False).read, ("a=", " ", '"'))


def test_an_expression_that_is_square_only_where_it_is_looked_for_is_found() -> None:
    square = Expression("square", re.compile(r"a+b"), scans=True)
    assert (is_linear(square.read, ("", "a", "!")), is_linear(square.read, ("", ",", "!"))) == (False, True)


# --- every parser of a header or a body -------------------------------------------------------------------------

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
FORM: Final = "application/x-www-form-urlencoded"
HOOKWIRE_SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
REQUIRED: Final = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def cloudevent(text: str, *, name: bytes) -> object:
    fields = {b"ce-" + key.encode(): value.encode() for key, value in REQUIRED.items()}
    return decode_http("t", None, None, {**fields, name: text.encode("latin-1")}.items(), b"")


def cloudevents_body(text: str, *, content_type: str) -> object:
    return decode_http("t", None, content_type, [], text.encode())


def page(text: str, *, content_type: str) -> object:
    return discover((), content_type, text.encode(), "http://example.com/")


PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "header x-rabbithub-msg_header": parse_headers,
    "header content-type, JSON": is_json_type,
    "header content-type, charset": charset_is_utf8,
    "header content-type, CloudEvents": lambda text: decode_http("t", None, text, [], b""),
    "header content-type, form": lambda text: read(text, b"", FormDialect.TOLERANT),
    "header ce-, of an attribute": decode_header_value,
    "header ce-id": partial(cloudevent, name=b"ce-id"),
    "header ce-time": partial(cloudevent, name=b"ce-time"),
    "header hookwire-hops": hops_of,
    "header hookwire-key": validate_key,
    "header if-match": version_meant,
    "header link": lambda text: discover((text,), None, b"", "http://example.com/"),
    "header retry-after": lambda text: retry_after_seconds([text], NOW),
    "header x-hub-signature": lambda text: verify_hub_signature(b"secret", text, b""),
    "header x-hub-signature, SDK": lambda text: hookwire.verify_hub("secret", {"x-hub-signature": text}, b""),
    "header webhook-signature, SDK": lambda text: hookwire.verify(
        HOOKWIRE_SECRET, {"webhook-id": "i", "webhook-timestamp": "1", "webhook-signature": text}, b"", now_seconds=1
    ),
    "path below /rabbithub": parts_of,
    "path, id of an event": parse_event_id,
    "path, routing key": lambda text: topic_of_key(1, text),
    "query, cursor": lambda text: read_cursor(text, (int,)),
    "query, pattern of topics": compile_pattern,
    "body, JSON": lambda text: loads(text.encode()),
    "body, object": lambda text: loads_members(text.encode()),
    "body, array": lambda text: loads_array_members(text.encode()),
    "body, CloudEvent": partial(cloudevents_body, content_type=STRUCTURED_TYPE),
    "body, batch of CloudEvents": partial(cloudevents_body, content_type=BATCH_TYPE),
    "body, WebSub's form": lambda text: read(FORM, text.encode(), FormDialect.STRICT03),
    "body, hub.url": lambda text: read(FORM, f"hub.mode=publish&hub.url={text}".encode(), FormDialect.OFF),
    "body, RabbitHub's form": lambda text: read_wish("", text.encode()),
    "body, RabbitHub's JSON": lambda text: read_wish("application/json", text.encode()),
    "body, RabbitHub's import": lambda text: read_import(text.encode()),
    "body, hub.topic of a headers exchange": lambda text: bind(1, "headers", text),
    "body, hub.topic of a topic exchange": lambda text: bind(1, "topic", text),
    "body, callback": lambda text: parse_target(f"https://{text}", GuardPolicy()),
    "body, hub.topic": matching_text,
    "body, template of a chat": check_template,
    "page, HTML": partial(page, content_type="text/html"),
    "page, Atom": lambda text: read_feed(f'<feed xmlns="http://www.w3.org/2005/Atom">{text}</feed>'.encode()),
    "page, XML": partial(page, content_type="application/atom+xml"),
}


@pytest.mark.parametrize("name", PARSERS)
def test_every_parser_of_a_header_or_body_is_linear(name: str) -> None:
    """FS-01, FS-05, B-21."""
    assert too_dear(PARSERS[name]) == []
