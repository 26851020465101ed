"""One term for each thing (HO-05): no old word in identifiers of the product, one meaning for each class name."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline", "sdk")

OLD_WORDS = {
    "lookout": "DuePoller",
    "upkeep": "Cleanup",
    "glance": "CachedQuery",
    "silence": "Outage",
    "greeting": "probe_connection",
    "knock": "check_connection",
    "doorclosed": "ConnectionRefused",
    "rests": "PausedSubscriptions",
    "standing": "SubscriptionStatus, FailureStats",
    "stage": "IntentStep, Scenario",
    "gate": "Authentication, throttle",
    "seat": "Lease",
    "seats": "Leases",
    "campaign": "acquire",
    "reign": "hold, term",
    "reigns": "term",
    "depose": "lose_leadership",
    "deposed": "LeadershipLost",
    "attend": "heartbeat",
    "bell": "signal",
    "bells": "signals",
    "ring": "notify",
    "rung": "notified",
    "house": "installation",
    "furnish": "ensure_tables",
    "hurry": "set_async_commit, probe_topic_now",
    "bury": "dead_letter",
}
OLD_TEST_WORDS = {
    "rig": "harness",
    "bench": "harness",
    "stage": "harness",
    "yard": "harness",
    "nursery": "process_pool",
}
TEST_EXCEPTIONS = {
    ("tests/project/test_bootstrap.py", "bench"): "the target `make bench`",
    ("tests/project/test_compose.py", "stage"): "the stages of a Dockerfile",
    ("tests/hub/", "stage"): "the columns stage and stage_from of intents",
    ("tests/pipeline/conftest.py", "stage"): "an option of Spark",
    ("tests/pipeline/test_pages.py", "stage"): "scripts/demo_stage.py, the servers of `make demo`",
    ("tests/benchmarks/test_scale.py", "stage"): "the stages of the model of a site",
}
"""Path or folder and old word: why it may stay."""
EXCEPTIONS = {
    ("app/cli/pipeline", "upkeep"): "the commands that keep a lake small; a page and a module have the name",
    ("app/chaos/broker.py", "silence"): "seconds without a frame, which is a time and no outage",
    ("pipeline/anomaly.py", "silence"): "an hour without events; the report prints the word",
    ("reqrep", "silence"): "time without a message of a peer, the word of the ZeroMQ guide",
    ("app/web", "standing"): "a field of the HTTP API",
    ("hub", "stage"): "the columns stage and stage_from of intents",
}
"""Path or folder and old word: why it may stay."""

ONE_NAME_TWICE = {
    "Accepted": "a stored publish, and the counts of an audit; no module uses both",
    "Event": "a published event, and what a socket of the broker reports",
    "KafkaSource": "the option of a command, and the source that it makes",
    "LowWater": "the low-water marks of claims, of the relay's outbox and of jobs; each room has its own",
    "Offer": "the port by which the hub hands an event over directly, and the webhooks' side of it",
    "LeaderAcquired": "goharvest's event name, and the same event of NELI's state machine",
    "LeaderFenced": "goharvest's event name, and the same event of NELI's state machine",
    "LeaderRevoked": "goharvest's event name, and the same event of NELI's state machine",
    "Mode": "the modes of CloudEvents, and hub.mode of WebSub; both are words of their standards",
    "Receipt": "what a sink confirms, and the right of one claim to answer a stored request",
    "Service": "a background service, a service of 7/MDP, and a lake's service levels",
    "Worker": "the worker of webhooks, and a worker of 7/MDP",
}
"""Names that stay ambiguous within the hub's own distribution, and why. The SDK is a distribution of its own."""


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from sorted((ROOT / room).rglob("*.py"))


@cache
def identifiers(path: Path) -> frozenset[str]:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    return frozenset(token.string for token in tokens if token.type == tokenize.NAME)


def words_of(identifier: str) -> list[str]:
    """Split ``snake_case`` and ``CamelCase``."""
    return [word.lower() for part in identifier.split("_") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+", part)]


def old_words(path: Path) -> Iterator[str]:
    name = path.relative_to(ROOT).as_posix()
    for identifier in sorted(identifiers(path)):
        for word in {*words_of(identifier), identifier.lower()} & OLD_WORDS.keys():
            if not any(name.startswith(place) and word == excepted for place, excepted in EXCEPTIONS):
                yield f"{name}: {identifier}; say {OLD_WORDS[word]}"


def public_classes() -> dict[str, list[str]]:
    found = defaultdict(list)
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(ROOT).as_posix())
    return found


def test_no_identifier_of_the_product_uses_an_old_word() -> None:
    """HO-05."""
    assert [finding for path in sources() for finding in old_words(path)] == []


def old_test_words(text: str) -> set[str]:
    """Return the old words among the words and parts of identifiers, in code, docstrings and paths alike."""
    parts = re.findall(r"[A-Z]?[a-z]+", re.sub("make[ _]bench", "", text))
    return {part.lower().removesuffix("s") for part in parts} & OLD_TEST_WORDS.keys()


def test_the_tests_share_one_word_for_their_harness() -> None:
    """HO-09: in identifiers, docstrings and names of files; CONTRIBUTING too."""
    found = words_found_in_tests()
    excepted = {
        (name, word)
        for name, word in found
        for place, known in TEST_EXCEPTIONS
        if name.startswith(place) and word == known
    }
    assert found - excepted == set()
    assert old_test_words((ROOT / "CONTRIBUTING.md").read_text("utf-8")) == set()


@cache
def words_found_in_tests() -> frozenset[tuple[str, str]]:
    paths = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]
    words = {named(path): old_test_words(f"{named(path)}\n{path.read_text('utf-8')}") for path in paths}
    return frozenset((name, word) for name, found in words.items() for word in found)


def test_each_exception_of_the_tests_still_has_its_word() -> None:
    unused = [
        (place, word)
        for place, word in TEST_EXCEPTIONS
        if not any(name.startswith(place) and found == word for name, found in words_found_in_tests())
    ]
    assert unused == []


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "text", ["open_rig(x)", "class MariaYard:", "from tests.webhooks.bench import x", "a stage", "nursery"]
)
def test_a_planted_test_word_is_found(text: str) -> None:
    assert len(old_test_words(text)) == 1


def test_a_public_class_name_has_one_meaning() -> None:
    """HO-05: within one distribution; each exception has its reason, and a reason without a case goes."""
    own = {
        name: [place for place in places if not place.startswith("sdk/")] for name, places in public_classes().items()
    }
    assert {name for name, places in own.items() if len(places) > 1} == ONE_NAME_TWICE.keys()


@pytest.mark.parametrize(
    ("identifier", "words"),
    [("DoorClosed", ["door", "closed"]), ("_seat_of", ["seat", "of"]), ("KEEPS_2", ["keeps", "2"])],
)
def test_identifiers_are_split_into_words(identifier: str, words: list[str]) -> None:
    assert words_of(identifier) == words


def test_the_glossary_is_linked_where_a_reader_begins() -> None:
    pages = {"docs/README.md": "(glossary.md)", "CONTRIBUTING.md": "(docs/glossary.md)"}
    assert {page: link in (ROOT / page).read_text("utf-8") for page, link in pages.items()} == dict.fromkeys(
        pages, True
    )
