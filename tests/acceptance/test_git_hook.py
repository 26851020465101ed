"""The hook of examples/git-push-rebuilds-site with real git, against a stand-in hub: B-54 (hostile refs), F47."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote_to_bytes, urlsplit

import pytest

from event.attribute import REQUIRED, check_attributes, decode_header_value
from tests.acceptance.git_example import EXAMPLE, Repository, run

ZEROS = "0" * 40
ID = "1" * 40
PUSH_SECONDS_MAX = 20  # the hook's five, a request that began before they were over, and a busy machine


@dataclass
class Request:
    path: str
    key: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def subject(self) -> bytes:
        return unquote_to_bytes(self.headers.get("ce-subject", ""))


@dataclass
class StandIn:
    """Answers every POST with ``status`` after ``delay_seconds``, and remembers it."""

    status: int = 202
    delay_seconds: float = 0.0
    requests: list[Request] = field(default_factory=list)
    url: str = ""

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        body = handler.rfile.read(int(handler.headers["content-length"]))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.requests.append(Request(url.path, parse_qs(url.query, strict_parsing=True)["key"][0], headers, body))
        time.sleep(self.delay_seconds)
        handler.send_response(self.status)
        handler.send_header("content-length", "0")
        handler.end_headers()


@pytest.fixture
def hub() -> Iterator[StandIn]:
    stand_in = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                stand_in.take(self)
            except ConnectionError:
                return  # the hook has given up

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield stand_in
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_push_is_one_event_with_an_empty_body_for_each_ref(tmp_path: Path, hub: StandIn):
    repository = Repository(tmp_path, hub.url, "my site")
    commit = repository.commit("hello")
    run("git", "tag", "v1", cwd=repository.clone)
    said = repository.push("main", "v1")
    assert (said, [(r.path, r.key, r.body, r.headers.get("content-type")) for r in hub.requests]) == (
        "", [("/topics/git.push/events", "my site", b"", None)] * 2,
    )  # fmt: skip
    attributes = [{n: v for n, v in r.headers.items() if n.startswith("ce-") and n != "ce-id"} for r in hub.requests]
    assert attributes == [
        {
            "ce-specversion": "1.0", "ce-type": "git.push", "ce-source": "/git/my%20site", "ce-subject": ref,
            "ce-oldrev": ZEROS, "ce-newrev": commit,
        }
        for ref in ("refs/heads/main", "refs/tags/v1")
    ]  # fmt: skip
    assert len({r.headers["ce-id"] for r in hub.requests}) == 2


HOSTILE = [
    b"refs/heads/with space", b"refs/heads/\"double\" 'single'", "refs/heads/zürich-日本".encode(),
    b"refs/heads/$(touch pwned)", b"refs/heads/`touch pwned`", b"refs/heads/--upload-pack=touch pwned",
    b"refs/heads/;touch pwned;", b"refs/heads/100%", b"refs/heads/a&key=b#c?d", b"refs/heads/\\n\\", b"--config=pwned",
    b"refs/heads/caf\xe9", b"refs/heads/tab\there", b"@/etc/passwd",
]  # fmt: skip
AS_TEXT = {b"refs/heads/caf\xe9": b"refs/heads/caf%E9", b"refs/heads/tab\there": b"refs/heads/tab%09here"}
UNTOLD = [
    b"refs/heads/caf\xe9", b"refs/heads/\xc3", b"refs/heads/\xed\xa0\x80", b"refs/heads/\xc0\xaf",
    b"refs/heads/\xff\xfe", b"refs/heads/\xf4\x90\x80\x80", "refs/heads/\x85".encode(), "refs/heads/\uffff".encode(),
    "refs/heads/\ufdd0".encode(), "refs/heads/\U0001fffe".encode(), b"refs/heads/tab\there",
    b"refs/heads/" + b"x" * 5_000, b"refs/heads/" + "\u65e5".encode() * 2_000, b"refs/heads/" + b"\xe9" * 2_000,
    b"refs/heads/%\xe9",
]  # fmt: skip
TOLD = ["refs/heads/z\u00fcrich-\u65e5\u672c", "refs/heads/\U0001f600", "refs/heads/\ufffd", "refs/heads/100%E9"]


def test_no_input_of_git_costs_the_event(tmp_path: Path, hub: StandIn) -> None:
    """GW-11: the hub takes no other text than UTF-8, so the hook gave the event of such a ref or folder up."""
    name = os.fsdecode(b"caf\xe9 \xc3\xa9")
    repository = Repository(tmp_path, hub.url, name)
    repository.config("pushseconds", "60")  # of so many events some would wait for the next push
    refs = [*UNTOLD, *(ref.encode() for ref in TOLD)]
    repository.hook(b"".join(b"%s %s %s\n" % (ZEROS.encode(), ID.encode(), ref) for ref in refs))
    subjects = [decode_header_value(request.headers["ce-subject"]) for request in hub.requests]
    for request in hub.requests:
        values = {name: request.headers[f"ce-{name}"] for name in (*REQUIRED, "subject", "oldrev", "newrev")}
        check_attributes({name: decode_header_value(value) for name, value in values.items()})
    assert (len(subjects), subjects[-len(TOLD) :]) == (len(refs), TOLD)
    assert (subjects[0], subjects[-len(TOLD) - 1]) == ("refs/heads/caf%E9", "refs/heads/%25%E9")
    assert {request.key for request in hub.requests} == {"caf%E9%20%C3%A9"}


def test_whatever_a_ref_holds_it_arrives_and_is_never_executed(tmp_path: Path, hub: StandIn):
    """B-54."""
    repository = Repository(tmp_path, hub.url)
    repository.config("pushseconds", "60")
    repository.hook(b"".join(b"%s %s %s\n" % (ZEROS.encode(), ID.encode(), ref) for ref in HOSTILE))
    assert [request.subject for request in hub.requests] == [AS_TEXT.get(ref, ref) for ref in HOSTILE]
    assert all(
        value.isascii() and " " not in value for r in hub.requests for n, value in r.headers.items() if "ce" in n
    )
    assert not list(tmp_path.rglob("pwned"))


def test_a_repositorys_name_is_data_as_well(tmp_path: Path, hub: StandIn):
    repository = Repository(tmp_path, hub.url)
    name = "a b&c\\n$(touch pwned)ü\"'%"
    repository.hook(f"{ZEROS} {ID} refs/heads/main\n".encode(), HOOKWIRE_REPOSITORY=name)
    (request,) = hub.requests
    assert (request.key, unquote_to_bytes(request.headers["ce-source"]).decode()) == (name, f"/git/{name}")
    assert not list(tmp_path.rglob("pwned"))


def test_real_git_with_a_ref_that_is_deleted(tmp_path: Path, hub: StandIn):
    repository = Repository(tmp_path, hub.url)
    commit = repository.commit("hello")
    repository.push("main", "main:refs/heads/it's-$(gone)")
    repository.push("--delete", "it's-$(gone)")
    last = hub.requests[-1]
    assert (last.subject, last.headers["ce-oldrev"], last.headers["ce-newrev"]) == (
        b"refs/heads/it's-$(gone)", commit, ZEROS,
    )  # fmt: skip


@pytest.mark.parametrize("lines", [b"", b"\n", b"no such line\n", f"{ZEROS} {ID}\n".encode()])
def test_an_empty_push_is_no_event(tmp_path: Path, hub: StandIn, lines: bytes):
    """B-54."""
    repository = Repository(tmp_path, hub.url)
    repository.config("pushseconds", "60")
    assert (repository.hook(lines), hub.requests, repository.spooled()) == ("", [], 0)


def test_ten_thousand_refs_are_one_event(tmp_path: Path, hub: StandIn):
    """B-54."""
    repository = Repository(tmp_path, hub.url)
    repository.config("pushseconds", "60")
    repository.hook(b"".join(f"{ZEROS} {ID} refs/tags/{number}\n".encode() for number in range(10_000)))
    (request,) = hub.requests
    assert (request.headers["ce-refcount"], request.subject) == ("10000", b"")


def test_a_hub_that_is_down_delays_nothing_and_loses_nothing(tmp_path: Path, hub: StandIn, free_port: int):
    """F47: the next push sends first what had to wait, under the same ids."""
    repository = Repository(tmp_path, f"http://127.0.0.1:{free_port}")
    repository.commit("one")
    said = repository.push()
    ids = [_id(path) for path in sorted((repository.bare / "hookwire-spool").iterdir())]
    repository.config("url", hub.url)
    repository.commit("two")
    repository.push()
    assert ("1 event(s) wait" in said, repository.spooled()) == (True, 0)
    assert ([r.headers["ce-id"] for r in hub.requests][:1], len(hub.requests)) == (ids, 2)
    assert hub.requests[0].headers["ce-newrev"] == hub.requests[1].headers["ce-oldrev"]


def _id(event: Path) -> str:
    return next(line for line in event.read_text().splitlines() if line.startswith("ce-id: ")).removeprefix("ce-id: ")


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503])
def test_a_hub_that_refuses_for_now_is_asked_again_with_the_next_push(tmp_path: Path, hub: StandIn, status: int):
    """F47."""
    repository = Repository(tmp_path, hub.url)
    repository.config("token", "s3cret")
    hub.status = status
    said = repository.hook(f"{ZEROS} {ID} refs/heads/a\n{ZEROS} {ID} refs/heads/b\n".encode())
    asked = len(hub.requests)
    hub.status = 202
    again = repository.hook(b"")
    assert ("2 event(s) wait" in said, "s3cret" in said, asked, again, repository.spooled()) == (True, False, 1, "", 0)
    assert [(r.subject, r.headers["authorization"]) for r in hub.requests[1:]] == [
        (b"refs/heads/a", "Bearer s3cret"), (b"refs/heads/b", "Bearer s3cret"),
    ]  # fmt: skip


def test_an_event_that_is_refused_for_good_does_not_hold_up_the_others(tmp_path: Path, hub: StandIn):
    repository = Repository(tmp_path, hub.url)
    hub.status = 422
    said = repository.hook(f"{ZEROS} {ID} refs/heads/a\n{ZEROS} {ID} refs/heads/b\n".encode())
    refused = repository.bare / "hookwire-spool" / "refused"
    assert (said.count("refused an event (422)"), len(list(refused.iterdir())), repository.spooled()) == (2, 2, 0)


def test_a_hub_that_is_slow_holds_up_a_push_for_a_few_seconds_only(tmp_path: Path, hub: StandIn):
    """F47, EG: the answer that came too late belongs to an event that keeps its id."""
    repository = Repository(tmp_path, hub.url)
    repository.commit("one")
    hub.delay_seconds = 30
    begun = time.monotonic()
    said = repository.push()
    assert (time.monotonic() - begun < PUSH_SECONDS_MAX, "1 event(s) wait" in said) == (True, True)
    hub.delay_seconds = 0
    repository.hook(b"")
    first, second = hub.requests
    assert (first.headers["ce-id"], repository.spooled()) == (second.headers["ce-id"], 0)


def test_many_events_and_a_sluggish_hub_hold_up_a_push_for_a_few_seconds_only(tmp_path: Path, hub: StandIn):
    repository = Repository(tmp_path, hub.url)
    hub.delay_seconds = 0.5
    begun = time.monotonic()
    repository.hook(b"".join(f"{ZEROS} {ID} refs/tags/{number}\n".encode() for number in range(100)))
    assert time.monotonic() - begun < PUSH_SECONDS_MAX
    assert repository.spooled() + len(hub.requests) == 100


def test_a_hub_without_a_name_in_the_dns_is_a_hub_that_is_down(tmp_path: Path):
    """F47."""
    repository = Repository(tmp_path, "http://hub.invalid")
    begun = time.monotonic()
    said = repository.hook(f"{ZEROS} {ID} refs/heads/main\n".encode())
    assert (time.monotonic() - begun < PUSH_SECONDS_MAX, repository.spooled()) == (True, 1)
    assert "1 event(s) wait" in said


def test_a_spool_has_an_end(tmp_path: Path, free_port: int):
    repository = Repository(tmp_path, f"http://127.0.0.1:{free_port}")
    repository.config("spoolmax", "2")
    line = f"{ZEROS} {ID} refs/heads/main\n".encode()
    said = [repository.hook(line) for _ in range(3)]
    assert (["is full" in words for words in said], repository.spooled()) == ([False, False, True], 2)


def test_another_hook_is_left_alone(tmp_path: Path):
    repository = Repository(tmp_path, "http://127.0.0.1:1")
    hook = repository.bare / "hooks" / "post-receive"
    hook.write_text("#!/bin/sh\n")
    done = subprocess.run([EXAMPLE / "setup.sh", repository.bare], capture_output=True, check=False, timeout=60)
    assert (done.returncode, hook.read_text()) == (1, "#!/bin/sh\n")
