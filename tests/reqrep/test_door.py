"""Who may come in: the rights of each user of a broker with keys, and what is refused in production."""

import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from hookwire.services.client import Client
from hookwire.services.error import NoReply
from hookwire.services.transport import Curve, Socket, SocketOptions, curve_from, open_socket
from reqrep.frames import Frames
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.door import Door
from reqrep.majordomo.inside import Inside
from reqrep.majordomo.open_door import refusal_of, warning_of
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import CurvePlan
from reqrep.rights import RightsFile, RightsRefused
from reqrep.transport import make_keys
from tests.reqrep.majordomo_peers import C1, W1, E, disconnect_of
from tests.reqrep.running import PATIENT_BROKER, WAIT_SECONDS, client_of, running_broker, running_worker
from tests.reqrep.test_broker_command import run
from tests.waiting import block_until

INSIDE = frozenset({b"titanic.request", b"titanic.reply", b"titanic.close", b"hub.publish"})
NUMBER = b"\x00hookwire-number:12345678"
RIGHTS = """
[alice]
publish = ["orders.*"]
call = ["pay.*", "report"]
[worker]
serve = ["pay.*"]
"""


def door(folder: Path, text: str = RIGHTS) -> tuple[Broker, RightsFile]:
    (folder / "users.toml").write_text(text)
    file = RightsFile(folder / "users.toml")
    return Broker(BrokerOptions(), inside=Inside(INSIDE), door=Door(file)), file


def ask(broker: Broker, user: str, service: bytes, *body: bytes) -> list[Frames]:
    return broker.receive(0.0, [b"c", E, C1, service, *body], user)[0]


@pytest.mark.parametrize(
    ("user", "service", "body", "answer"),
    [
        ("alice", b"pay.card", [b"x"], None),
        ("alice", b"other", [b"x"], []),
        ("worker", b"pay.card", [b"x"], []),
        ("mallory", b"pay.card", [b"x"], []),
        ("mallory", b"mmi.list", [b""], []),
        ("mallory", b"titanic.reply", [b"0" * 32], [b"400"]),
        ("alice", b"mmi.call", [b"report", b"x"], None),
        ("alice", b"mmi.call", [b"other", b"x"], [b"403", b"other", b"not-allowed"]),
        ("alice", b"titanic.request", [b"report", b"x"], None),
        ("alice", b"titanic.request", [b"other", b"x"], [b"400"]),
        ("alice", b"titanic.request", [NUMBER, b"other", b"x"], [NUMBER, b"400"]),
        ("alice", b"titanic.request", [b"hub.publish", b"secret.x", b"x"], [b"400"]),
        ("alice", b"mmi.call", [b"titanic.request", b"other", b"x"], [b"403", b"titanic.request", b"not-allowed"]),
        ("alice", b"titanic.reply", [b"0" * 32], None),
        ("alice", b"hub.publish", [b"orders.new", b"x"], None),
        ("alice", b"hub.publish", [NUMBER, b"orders.new", b"x"], None),
        ("alice", b"hub.publish", [b"secret.new", b"x"], [b"400"]),
        ("alice", b"hub.publish", [b"orders.*", b"x"], [b"400"]),
        ("worker", b"hub.publish", [b"orders.new", b"x"], [b"400"]),
    ],
)  # fmt: skip
def test_a_user_may_ask_what_the_file_says(
    user: str, service: bytes, body: Frames, answer: Frames | None, tmp_path: Path
) -> None:
    """GS-02: None means that the request is taken; a refusal has a status where the protocol has one."""
    broker, _ = door(tmp_path)
    sent = ask(broker, user, service, *body)
    if answer is None:
        assert (broker.counters.drops["not-allowed"], broker.counters.totals["requests"]) == (0, 1)
    else:
        assert sent == ([[b"c", E, C1, service, *answer]] if answer else [])
        assert (broker.counters.drops["not-allowed"], broker.counters.totals["requests"]) == (1, 0)


@pytest.mark.parametrize(
    ("user", "service", "is_taken"),
    [("worker", b"pay.card", True), ("worker", b"report", False), ("alice", b"pay.card", False), ("", b"pay.x", False)],
)
def test_a_user_may_serve_what_the_file_says(user: str, service: bytes, is_taken: bool, tmp_path: Path) -> None:
    """GS-02: a stranger got the requests of HTTP callers and answered them."""
    broker, _ = door(tmp_path)
    sent, events = broker.receive(0.0, [b"w", E, W1, b"\x01", service], user)
    assert (sent, b"w" in broker.workers) == (([], True) if is_taken else ([disconnect_of(b"w")], False))
    if not is_taken:
        assert [event.detail for event in events] == [f"the user {user!r} may not READY {service.decode()}"]


def test_the_file_counts_from_its_change_on_and_one_with_a_mistake_changes_nothing(tmp_path: Path) -> None:
    """GS-02."""
    broker, file = door(tmp_path)
    refused = ask(broker, "bob", b"mmi.service", b"x")
    (tmp_path / "users.toml").write_text(RIGHTS + "[bob]\n")
    file.reload()
    taken = ask(broker, "bob", b"mmi.service", b"x")
    (tmp_path / "users.toml").write_text("[bob]\nserf = []\n")
    file.reload()
    assert (refused, taken, ask(broker, "bob", b"mmi.service", b"x")) == (
        [],
        [[b"c", E, C1, b"mmi.service", b"404"]],
        taken,
    )


def test_a_worker_that_may_not_serve_any_more_is_disconnected_with_its_next_heartbeat(tmp_path: Path) -> None:
    """GS-02: the right counted at READY only, so the worker went on for as long as it liked."""
    broker, file = door(tmp_path)
    broker.receive(0.0, [b"w", E, W1, b"\x01", b"pay.card"], "worker")
    (tmp_path / "users.toml").write_text(RIGHTS.replace('serve = ["pay.*"]', "serve = []"))
    file.reload()
    assert broker.deadline() == 2.5
    assert (broker.tick(2.5)[0], broker.workers) == ([disconnect_of(b"w")], {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[alice", "cannot be read"),
        ("alice = 3", "'alice' is no table of rights"),
        ("[alice]\nserf = []", "has no right 'serf'; choose from publish, call, serve"),
        ('[alice]\ncall = "pay"', "call of 'alice' is no list of patterns"),
        ('[alice]\npublish = ["a b"]', "publish of 'alice'"),
    ],
)
def test_a_file_with_a_mistake_is_refused_at_the_start(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text(text)
    with pytest.raises(RightsRefused, match=words):
        RightsFile(tmp_path / "users.toml")


# --- with real keys -------------------------------------------------------------------------------------------------


@pytest.fixture
def users(tmp_path: Path) -> dict[str, Curve]:
    """A folder ``keys`` with three users, and the server's secret key beside it."""
    public, _ = make_keys(tmp_path / "server", "broker")
    (tmp_path / "keys").mkdir()
    found = {}
    for name in ("alice", "worker", "mallory"):
        key, secret = make_keys(tmp_path / name, name)
        (tmp_path / "keys" / f"{name}.key").write_bytes(key.read_bytes())
        found[name] = curve_from(public, secret)
    return found


def test_each_key_has_the_rights_of_its_user(users: dict[str, Curve], tmp_path: Path) -> None:
    """GS-02: over real sockets."""
    file = tmp_path / "keys" / "users.toml"
    file.write_text('[alice]\ncall = ["echo"]\n[worker]\nserve = ["echo"]\n')
    plan = CurvePlan(tmp_path / "server" / "broker.key_secret", tmp_path / "keys", RightsFile(file))
    with (
        running_broker(curve=plan) as broker,
        running_worker(*broker.endpoints, curve=users["worker"]),
        client_of(*broker.endpoints, curve=users["alice"]) as alice,
        client_of(*broker.endpoints, curve=users["mallory"], timeout_seconds=0.3, tries=1) as mallory,
    ):
        assert alice.call("echo", b"hello") == b"hello"
        with pytest.raises(NoReply):
            mallory.call("echo", b"hello")
        file.write_text(file.read_text() + '[mallory]\ncall = ["*"]\n')
        block_until(lambda: answers(mallory), WAIT_SECONDS)


def answers(client: Client) -> bool:
    try:
        return client.call("echo", b"hello") == b"hello"
    except NoReply:
        return False


PRODUCTION = 'profile = "production"\ndatabase_url = "postgresql://nobody@127.0.0.1:1/none"\n'


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--bind", "tcp://*:0"), "whoever reaches tcp://*:0 could publish events, read requests and answer them"),
        (("--bind", "tcp://127.0.0.1:*", "--bind", "tcp://0.0.0.0:*"), "whoever reaches tcp://0.0.0.0:* could"),
        (
            ("--bind", "tcp://127.0.0.1:*", "KEYS"),
            "in production users.toml beside the keys says what each user may do",
        ),
    ],
)
def test_production_refuses_an_open_door_to_the_hubs_database(
    words: tuple[str, ...], sentence: str, users: dict[str, Curve], tmp_path: Path
) -> None:
    """GS-02: a warning let strangers publish, ask and answer."""
    config = tmp_path / "hookwire.toml"
    config.write_text(PRODUCTION)
    keys = ("--keys", str(tmp_path / "keys"), "--server-key", str(tmp_path / "server" / "broker.key_secret"))
    given = tuple(one for word in words for one in (keys if word == "KEYS" else (word,)))
    code, said = run("--titanic", "database", "--config", str(config), *given)
    assert (code, sentence in said) == (2, True), said


def test_production_refuses_keys_without_rights_on_any_store(
    users: dict[str, Curve], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GS-02: there each user could call and serve everything."""
    monkeypatch.setenv("HOOKWIRE_PROFILE", "production")
    keys = ("--keys", str(tmp_path / "keys"), "--server-key", str(tmp_path / "server" / "broker.key_secret"))
    code, said = run("--bind", "tcp://127.0.0.1:*", "--titanic", "memory", *keys)
    assert (code, "could call and serve everything; in production users.toml beside the keys" in said) == (2, True), (
        said
    )


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:*", "tcp://[::1]:*", "tcp://localhost:*", "ipc:///tmp/x"])
def test_loopback_needs_no_keys_in_production_and_no_warning(endpoint: str) -> None:
    assert refusal_of([endpoint], None, is_on_database=True) is None
    assert warning_of([endpoint], None, is_on_database=True) is None


def test_the_warning_says_what_a_stranger_could_do() -> None:
    """GS-02: it said less than was possible."""
    warned = warning_of(["tcp://*:5555"], None, is_on_database=True)
    assert warned is not None
    assert "publish events to the hub, and get requests that were made over HTTP" in warned
    everybody = warning_of(["tcp://*:5555"], CurvePlan(Path("b"), Path("keys")), is_on_database=False)
    assert everybody is not None
    assert everybody.startswith("every user in keys may call and serve every service; users.toml")


def test_a_user_does_not_get_the_requests_of_another_users_worker(users: dict[str, Curve], tmp_path: Path) -> None:
    """GS-02, MD-28: with keys, a connection that takes a worker's identity gets nothing that is sent to it."""
    plan = CurvePlan(tmp_path / "server" / "broker.key_secret", tmp_path / "keys")
    with running_broker(options=PATIENT_BROKER, curve=plan) as broker:
        sockets = {}
        for name in ("worker", "mallory"):
            sockets[name] = open_socket("dealer", SocketOptions(curve=users[name], identity=b"w"))
            sockets[name].connect(*broker.endpoints)
            sockets[name].send([E, W1, b"\x01", b"echo"])
            if name == "worker":
                block_until(lambda: broker.broker.workers, WAIT_SECONDS)
        with client_of(*broker.endpoints, curve=users["alice"]) as alice:
            alice.call("mmi.list", b"")  # time for the thief's connection
            threading.Thread(target=serve_one, args=(sockets["worker"],)).start()
            assert alice.call("echo", b"hello") == b"hello"
        assert sockets["mallory"].receive() is None
        for socket in sockets.values():
            socket.close()


def test_a_user_does_not_get_the_identity_of_a_worker_that_has_left(users: dict[str, Curve], tmp_path: Path) -> None:
    """GS-02, MD-28: for up to three intervals it got the requests of the worker whose connection had just ended."""
    plan = CurvePlan(tmp_path / "server" / "broker.key_secret", tmp_path / "keys")
    with running_broker(options=PATIENT_BROKER, curve=plan) as broker, ExitStack() as sockets:
        workers = broker.broker.workers
        worker = open_socket("dealer", SocketOptions(curve=users["worker"], identity=b"w"))
        worker.connect(*broker.endpoints)
        worker.send([E, W1, b"\x01", b"echo"])
        block_until(lambda: workers, WAIT_SECONDS)
        seen = workers[b"w"].expires_at
        worker.close()

        def answered() -> tuple[Socket, Frames | None] | None:
            """Send a heartbeat. ZeroMQ ignores a connection that comes before the worker's has ended."""
            mallory = open_socket("dealer", SocketOptions(curve=users["mallory"], identity=b"w"))
            sockets.callback(mallory.close)
            mallory.connect(*broker.endpoints)
            mallory.send([E, W1, b"\x04"])
            found = None
            with suppress(TimeoutError):
                found = block_until(mallory.receive, 1.0)
            if found or (workers and workers[b"w"].expires_at != seen):
                return mallory, found
            mallory.close()
            return None

        mallory, first = block_until(answered)
        with (
            client_of(*broker.endpoints, curve=users["alice"], timeout_seconds=0.3, tries=1) as alice,
            pytest.raises(NoReply),
        ):
            alice.call("echo", b"secret")
        assert [first, *iter(mallory.receive, None)] == [[E, W1, b"\x05"]]


def serve_one(socket: Socket) -> None:
    """Answer one request with its own body."""
    block_until(lambda: (frames := socket.receive()) and socket.send([E, W1, b"\x03", *frames[3:]]) is None)
