"""The status page: rows in, HTML out. An empty section shows the command that fills it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Any, Final

from app.verdict.counts import EXACT_MAX
from app.verdict.facts import COUNTED_MAX, Row
from app.verdict.verdict import Part
from app.web.console.cells import address
from app.web.console.status.finding import findings_content
from app.web.outage import Outage
from app.web.overview import LATEST_MAX, Status
from app.web.pages.markup import ago, callback, code, count, exact_count, link, moment, pill, section, table, tile
from event.identity import format_event_id
from webhooks.condition import WAITING_MAX, Condition, dead_letter_reason, delivery_condition, subscription_condition
from webhooks.delivery_id import format_delivery_id

__all__ = ["delivery_state", "next_attempt", "outage_content", "own_content", "status_content"]

_ROWS: Final = 10
_WORK_ROWS: Final = 25
_MEMBERS: Final = ("kind", "name", "state", "reason", "waiting")
_TONES: Final = {"trouble": "bad", "attention": "warn", "ok": "good"}
_WORDS: Final = {"order": "in turn", "hold": "held", "pause": "paused", "in_flight": "in flight"}
"""What a blocker without a time is called."""
_HEALTH_TONES: Final = {
    "healthy": "good", "untried": "", "slow": "bad", "behind": "bad", "failing": "bad", "paused": "warn",
    "disabled": "warn", "gone": "bad", "denied": "bad",
}  # fmt: skip
_OUTAGES: Final = {
    Outage.UNREACHABLE: (
        "The database cannot be reached",
        f"<p>{pill('down', 'bad')} Publishing answers 503 until it is back. Every accepted event is safe in it, and "
        'delivery continues where it stopped. See <a href="../readyz">/readyz</a> and '
        '<a href="../problems/database-unavailable">what to do</a>.</p>',
    ),
    Outage.FULL: (
        "The database takes no more connections",
        files(__package__).joinpath("full.html").read_text("utf-8"),
    ),
    Outage.SLOW: ("The database is too slow", files(__package__).joinpath("slow.html").read_text("utf-8")),
    Outage.FAILING: ("The database cannot work", files(__package__).joinpath("failing.html").read_text("utf-8")),
}
"""Title and text for each reason why the database does not answer."""


def outage_content(outage: Outage, relay_states: Mapping[str, tuple[str, str]]) -> str:
    """Return the content while the database does not answer: the cause, the cure and the states of the sinks."""
    rows = [[code(sink), escape(state), escape(error)] for sink, (state, error) in relay_states.items()]
    title, words = _OUTAGES[outage]
    return section(title, words + (table(["Sink", "State", "Last error"], rows) if rows else ""))


def status_content(status: Status) -> str:
    """Return all tiles and sections."""
    return "\n".join(
        [
            findings_content(status.verdict.word, status.verdict.findings),
            _tiles(status),
            _sinks(status),
            _sources(status),
            _work(status),
            _topics(status),
            _subscriptions(status),
            _deliveries(status),
            _dead_letters(status),
            _holds(status),
        ]
    )


def own_content(document: Mapping[str, Any]) -> str:
    """Return the page for a key of some topics: the answer of ``GET /status``, which holds only what it may see."""
    parts = [Part(**{name: part[name] for name in _MEMBERS}) for part in document["parts"]]
    findings = [part for part in parts if part.word != "ok"]
    lists = '<a href="topics">topics</a>, <a href="subscriptions">subscriptions</a> and <a href="events">events</a>'
    words = f'<p class="soft">Your key is for some topics. The lists of {lists} show these.</p>'
    return f"{findings_content(document['verdict'], findings)}{section('What your key may see', words)}"


def _tiles(status: Status) -> str:
    totals, sinks, counts = status.totals, status.verdict.of("sink"), status.counts
    oldest = min((part.oldest_at for part in sinks if part.oldest_at), default=None)
    last_minute = sum(row["last_minute"] for row in status.topics_lately)
    owed = f"owed to sinks, oldest {ago(oldest, status.now)}" if oldest else "owed to sinks"
    tiles = [
        tile(count(last_minute, LATEST_MAX), "events in the last minute"),
        tile(f"{totals['accepted']:,}", "latest event number"),
        tile(_owed(status), owed),
        tile(_open_deliveries(status), "open deliveries"),
        tile(_counted(counts.dead_letters) if counts else "&ndash;", "dead letters"),
    ]
    return f'<div class="tiles">{"".join(tiles)}</div>{_age(status)}'


def _age(status: Status) -> str:
    """Return when the numbers were read: the oldest of them, but for those that are counted more seldom."""
    read_at = min(status.now, status.verdict.facts.at)
    at = status.counts.at if status.counts is not None else read_at
    counted = f"dead letters, topics and counts above {WAITING_MAX:,} of {_clock(at)}" if at < read_at else ""
    return f'<p class="soft">As of {_clock(read_at)}{f"; {counted}" if counted else ""}.</p>'


def _clock(at: datetime) -> str:
    return f'<time datetime="{at.isoformat()}">{at:%H:%M:%S} UTC</time>'


def _counted(number: int) -> str:
    return exact_count(number, 0, number, EXACT_MAX)


def _open_deliveries(status: Status) -> str:
    exact = status.counts.open_deliveries if status.counts is not None else None
    return exact_count(status.verdict.facts.open_deliveries, COUNTED_MAX, exact, EXACT_MAX)


def _of_sink(status: Status, row: Row, member: str) -> str:
    """Return the number of records that wait for a sink, or that it holds."""
    exact = None
    if status.counts is not None:
        exact = (status.counts.held if member == "held" else status.counts.backlog).get(row["sink"])
    return exact_count(row[member], COUNTED_MAX, exact, EXACT_MAX)


def _owed(status: Status) -> str:
    """Return what all sinks together owe, backlog and held records."""
    exact = (
        sum(status.counts.backlog.values()) + sum(status.counts.held.values()) if status.counts is not None else None
    )
    sinks = status.verdict.facts.sinks
    is_bounded = any(max(row["backlog"], row["held"]) >= COUNTED_MAX for row in sinks)
    bounded = sum(row["backlog"] + row["held"] for row in sinks)
    return exact_count(bounded, COUNTED_MAX if is_bounded else bounded + 1, exact, EXACT_MAX)


def _sinks(status: Status) -> str:
    parts = {part.name: part for part in status.verdict.of("sink")}
    held_since: dict[str, datetime] = {}
    for row in status.verdict.facts.holds:
        held_since[row["sink"]] = min(row["since"], held_since.get(row["sink"], row["since"]))
    rows = [
        [
            link(address("sinks", row["sink"]), row["sink"]),
            _part_state(parts[row["sink"]], "leading"),
            _of_sink(status, row, "backlog"),
            _of_sink(status, row, "held"),
            moment(row["oldest_at"] or held_since.get(row["sink"]), status.now),
            str(row["term"]) if row["term"] is not None else "&ndash;",
            escape(row["owner"] or "") or "&ndash;",
        ]
        for row in status.verdict.facts.sinks
    ]
    heads = ["Sink", "State", "#Backlog", "#Held", "Oldest", "#~Term", "~Leader"]
    return section("Sinks", table(heads, rows), f"{code(status.public_url)} &middot; {escape(status.profile)}")


def _part_state(part: Part, usual: str) -> str:
    """Return the state with its reason, or the usual word where nothing is wrong."""
    if part.state == "ok":
        return pill(usual, "good")
    tone = "" if part.word == "ok" else _TONES[part.word]
    return f'{pill(part.state, tone)} <span class="soft">{escape(part.reason)}</span>'


def _sources(status: Status) -> str:
    """Return what becomes events, and topics of other publishers that fail; nothing without one."""
    parts = status.verdict.of("source")
    rows = [[code(part.name), _part_state(part, "reading"), moment(part.since, status.now)] for part in parts]
    return section("Sources", table(["Source", "State", "Since"], rows)) if rows else ""


def _work(status: Status) -> str:
    """Return what waits, runs and died of queues, tasks, jobs and services, the worst first; nothing without any."""
    parts = status.verdict.of("queue", "task", "job", "service")
    rows = [
        [
            escape(part.kind),
            code(part.name),
            pill(part.state, _TONES[part.word]),
            count(part.waiting, part.bound),
            str(part.running),
            count(part.dead, part.bound),
            moment(part.oldest_at, status.now),
        ]
        for part in parts[:_WORK_ROWS]
    ]
    heads = ["Kind", "Name", "State", "#Waiting", "#In flight", "#Dead", "Oldest"]
    left = f'the first {_WORK_ROWS} of {len(parts)}, <a href="jobs">jobs</a>' if len(parts) > _WORK_ROWS else ""
    return section("Queues, tasks, jobs and services", table(heads, rows), left) if rows else ""


def _topics(status: Status) -> str:
    known = {row["topic"]: row for row in status.topics_lately}
    for row in status.topics:
        if row["name"] not in known and len(known) < 2 * len(status.topics):
            known[row["name"]] = {"topic": row["name"], "last_minute": 0, **row}
    if not known:
        return section("Topics", _first_publish(status.public_url))
    rows = [
        [
            link(address("topics", name), name),
            _event_link(status, row["last_id"]),
            moment(row["last_accepted_at"], status.now),
            count(row["last_minute"], LATEST_MAX),
        ]
        for name, row in known.items()
    ]
    number = f"{_counted(status.counts.topics)} in all, " if status.counts is not None else ""
    aside = f'{number}<a href="topics">list</a>'
    return section("Topics", table(["Topic", "~Last event", "When", "#Last minute"], rows), aside)


def _event_link(status: Status, number: int | None) -> str:
    if number is None:
        return "&ndash;"
    identity = format_event_id(status.incarnation, number)
    return link(f"events/{identity}", identity)


def _first_publish(public_url: str) -> str:
    return _empty(
        "Nothing has been published yet. Publish the first event:",
        f"curl {public_url}/topics/orders.created/events \\\n  --json '{{\"order\": 4711}}'",
    )


def _subscriptions(status: Status) -> str:
    if not status.subscriptions:
        command = (
            f"curl {status.public_url}/subscriptions \\\n"
            '  --json \'{"topic": "orders.#", "callback": "http://127.0.0.1:9000/"}\''
        )
        return section("Subscriptions", _empty("There is no subscription yet. Subscribe a callback:", command))
    counts = ", ".join(f"{row['subscriptions']:,} {escape(row['state'])}" for row in status.subscription_counts)
    told = {part.name for part in status.verdict.of("subscription")}
    troubled = [row for row in status.verdict.facts.subscriptions if row["public_id"] in told]
    shown = {row["id"]: row for row in [*troubled[:_ROWS], *status.subscriptions]}
    rows = [_subscription(row, status) for row in [*shown.values()][:_ROWS]]
    heads = ["Subscription", "~Topic or pattern", "Callback", "Health", "Next", "#Waiting"]
    return section("Subscriptions", table(heads, rows), f'{counts}, <a href="subscriptions">list</a>')


def _subscription(row: Row, status: Status) -> list[str]:
    found = subscription_condition(row)
    exact = status.counts.waiting.get(row["id"]) if status.counts is not None else None
    return [
        link(f"subscriptions/{row['public_id']}", row["public_id"]),
        code(row["topic"]),
        callback(row["callback"]),
        f'{pill(found.state, _HEALTH_TONES.get(found.state, ""))} <span class="soft">{escape(found.reason)}</span>',
        next_attempt(found, status.now),
        exact_count(row["waiting"], WAITING_MAX, exact, EXACT_MAX),
    ]


def _deliveries(status: Status) -> str:
    if not status.open_deliveries:
        return section("Open deliveries", '<p class="soft">None. Nothing waits to be delivered.</p>')
    rows = [
        [
            _event_link(status, row["event_id"]),
            callback(row["callback"]),
            delivery_state(found),
            str(row["attempts"]),
            next_attempt(found, status.now),
        ]
        for row, found in ((row, delivery_condition(row)) for row in status.open_deliveries)
    ]
    (all_open,) = status.verdict.of("deliveries")
    oldest = ago(all_open.oldest_at, status.now)
    total = _open_deliveries(status)
    aside = f'the oldest of {total}, created {oldest}, <a href="deliveries">list</a>'
    return section("Open deliveries", table(["Event", "Callback", "State", "#Attempts", "Next"], rows), aside)


def next_attempt(found: Condition, now: datetime) -> str:
    """Return the time of the next attempt, or the word for its blocker."""
    if found.next_attempt_at is None:
        return _WORDS.get(found.blocked_by or "", "&ndash;")
    return "now" if found.next_attempt_at <= now else moment(found.next_attempt_at, now)


def delivery_state(found: Condition) -> str:
    """Return the state of an open delivery with its reason."""
    tone = {"retrying": "warn", "parked": "bad"}.get(found.state, "")
    return f'{pill(found.state, tone)} <span class="soft">{escape(found.reason)}</span>'


def _dead_letters(status: Status) -> str:
    if not status.dead_letters:
        return section("Dead letters", '<p class="soft">None. Nothing was given up.</p>')
    rows = [
        [
            _event_link(status, row["event_id"]),
            code(row["topic"] or ""),
            callback(row["callback"]),
            f'{pill(row["kind"], "bad")} <span class="soft">{escape(dead_letter_reason(row))}</span>',
            link(
                f"deliveries/{format_delivery_id(row['event_id'], row['subscription_id'])}",
                str(row["attempts"]),
            ),
            moment(row["died_at"], status.now),
        ]
        for row in status.dead_letters
    ]
    aside = '<a href="dead-letters">list</a>'
    return section("Dead letters", table(["Event", "Topic", "Callback", "Reason", "#Attempts", "When"], rows), aside)


def _holds(status: Status) -> str:
    if not status.holds:
        return section("Holds", '<p class="soft">None. No sink holds back a key or a topic.</p>')
    rows = [
        [
            code(row["sink"]),
            code(row["topic"]),
            _held_key(row["key"]),
            f'{escape(row["reason"].replace("_", " "))} <span class="soft">{escape(row["detail"])}</span>',
            count(row["records"], COUNTED_MAX),
            moment(row["since"], status.now),
            moment(row["probe_at"], status.now) if row["probe_at"] > status.now else "now",
        ]
        for row in status.holds
    ]
    heads = ["Sink", "Topic", "Key", "Reason", "#Records", "Since", "Next"]
    return section("Holds", table(heads, rows), "they wait behind a refused record; other keys continue")


def _held_key(key: str) -> str:
    """Return the held key. A record without a key is held under its own number, marked by U+001F."""
    if not key:
        return "whole topic"
    return f"none, event {escape(key[1:])}" if key.startswith("\x1f") else code(key)


def _empty(words: str, command: str) -> str:
    return f'<div class="empty"><p class="soft">{escape(words)}</p><pre tabindex="0">{escape(command)}</pre></div>'
