"""27/ZAP on its machine, and CURVE with a folder of public keys on real sockets (XX-03)."""

import ctypes
from pathlib import Path

import pytest

from hookwire.services.error import NoReply
from hookwire.services.transport import curve_from
from reqrep.key_folder import KeyFolder, KeyFolderRefused
from reqrep.majordomo.options import BrokerOptions, ServicePolicy
from reqrep.majordomo.program import CurvePlan
from reqrep.transport import Transport, make_keys, raw_key
from reqrep.zap import Gatekeeper
from tests.reqrep.running import client_of, running_broker, running_worker
from tests.waiting import block_until

KEY = b"k" * 32


def ask(gatekeeper: Gatekeeper, mechanism: bytes, *words: bytes, address: bytes = b"10.0.0.7") -> tuple[bytes, bytes]:
    """The status and the user of the answer."""
    answer = gatekeeper.answer([b"id", b"", b"1.0", b"7", b"hookwire", address, b"", mechanism, *words])
    assert answer is not None
    assert answer[:4] == [b"id", b"", b"1.0", b"7"]
    return answer[4], answer[6]


@pytest.mark.parametrize(
    ("gatekeeper", "question", "expected"),
    [
        (Gatekeeper(), (b"NULL",), (b"400", b"")),
        (Gatekeeper(accepts_anonymous=True), (b"NULL",), (b"200", b"")),
        (Gatekeeper(passwords={"alice": "s3"}), (b"PLAIN", b"alice", b"s3"), (b"200", b"alice")),
        (Gatekeeper(passwords={"alice": "s3"}), (b"PLAIN", b"alice", b"s4"), (b"400", b"")),
        (Gatekeeper(passwords={"alice": "s3"}), (b"PLAIN", b"bob", b""), (b"400", b"")),
        (Gatekeeper(passwords={"alice": ""}), (b"PLAIN", b"alice", b""), (b"400", b"")),
        (Gatekeeper(user_of_key={KEY: "alice"}.get), (b"CURVE", KEY), (b"200", b"alice")),
        (Gatekeeper(user_of_key={KEY: "alice"}.get), (b"CURVE", b"x" * 32), (b"400", b"")),
        (Gatekeeper(user_of_key={KEY: "alice"}.get), (b"PLAIN", b"alice", b"s3"), (b"400", b"")),
        (Gatekeeper(user_of_key={KEY: "alice"}.get), (b"GSSAPI", b"x"), (b"400", b"")),
    ],
)
def test_a_connection_is_judged_by_the_rules_that_exist(
    gatekeeper: Gatekeeper, question: tuple[bytes, ...], expected: tuple[bytes, bytes]
) -> None:
    """XX-03: a mechanism without a rule is refused."""
    assert ask(gatekeeper, *question) == expected


@pytest.mark.parametrize(
    ("address", "status"), [(b"10.0.0.7", b"200"), (b"11.0.0.7", b"400"), (b"", b"400"), (b"x", b"400")]
)
def test_only_allowed_networks_may_connect(address: bytes, status: bytes) -> None:
    gatekeeper = Gatekeeper(allowed_networks=["10.0.0.0/8"], accepts_anonymous=True)
    assert ask(gatekeeper, b"NULL", address=address)[0] == status


@pytest.mark.parametrize("frames", [[], [b"id", b""], [b"id", b"x", b"1.0", b"7", b"d", b"a", b"i", b"NULL"]])
def test_a_malformed_question_is_counted(frames: list[bytes]) -> None:
    gatekeeper = Gatekeeper(accepts_anonymous=True)
    assert (gatekeeper.answer(frames), dict(gatekeeper.counters.drops)) == (None, {"malformed-zap-request": 1})


def test_a_key_counts_from_the_moment_its_file_is_there_until_it_is_removed(tmp_path: Path) -> None:
    alice, _ = make_keys(tmp_path, "alice")
    folder = KeyFolder(tmp_path)
    key = raw_key(alice.read_text().split('public-key = "')[1][:40])
    bob, _ = make_keys(tmp_path, "bob")
    other = raw_key(bob.read_text().split('public-key = "')[1][:40])
    found = [folder.user_of(key), folder.user_of(other)]
    alice.unlink()
    assert [*found, folder.user_of(key), folder.user_of(other)] == ["alice", "bob", None, "bob"]


def test_a_folder_that_cannot_be_used_is_refused_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(KeyFolderRefused, match="none cannot be read"):
        KeyFolder(tmp_path / "none")
    (tmp_path / "bad.key").write_text("nothing")
    with pytest.raises(KeyFolderRefused, match=r"bad\.key holds no line public-key"):
        KeyFolder(tmp_path)


def test_a_secret_key_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    _, secret = make_keys(tmp_path, "server")
    assert secret.stat().st_mode & 0o777 == 0o600


def test_only_holders_of_a_known_key_call_and_serve_and_the_service_sees_the_user(tmp_path: Path) -> None:
    """XX-03: everything is encrypted, and the user's name comes from the key."""
    server_public, server_secret = make_keys(tmp_path / "server", "broker")
    keys = tmp_path / "keys"
    pairs = {name: make_keys(tmp_path / name, name) for name in ("alice", "worker", "stranger")}
    keys.mkdir()
    for name in ("alice", "worker"):
        (keys / f"{name}.key").write_bytes(pairs[name][0].read_bytes())
    curves = {name: curve_from(server_public, secret) for name, (_, secret) in pairs.items()}
    options = BrokerOptions(
        heartbeat_seconds=0.2, policy=ServicePolicy(user_frame=True), controllers=frozenset({"alice"})
    )
    with (
        running_broker(options=options, curve=CurvePlan(server_secret, keys)) as broker,
        running_worker(*broker.endpoints, curve=curves["worker"]),
        client_of(*broker.endpoints, curve=curves["alice"]) as alice,
    ):
        assert alice.call_frames("echo", [b"hello"]) == [b"alice", b"hello"]
        assert alice.call("mmi.disable", b"echo") == b"200"
        for curve in (curves["stranger"], None):
            stranger = client_of(*broker.endpoints, curve=curve, timeout_seconds=0.3, tries=1)
            with stranger as client, pytest.raises(NoReply):
                client.call("mmi.service", b"echo")
    assert broker.state_and_counts()["drops"]["connection-refused"] >= 1  # type: ignore[index]


def test_the_identities_that_zeromq_makes_cannot_be_foreseen() -> None:
    """MD-28: they began with 0x006b8b4567 in each process, so a stranger could wait for another's identity."""
    assert first_identity() != first_identity()


def first_identity() -> bytes:
    """The identity of the first peer, in a process whose numbers were seeded as in each other process."""
    ctypes.CDLL(None).srand(1)
    transport, found = Transport(), list[bytes]()
    router, dealer = transport.socket("router"), transport.socket("dealer")
    dealer.connect(router.bind("tcp://127.0.0.1:*"))
    dealer.send([b"hello"])
    block_until(lambda: found.extend(router.receive() or []) or found)
    transport.close()
    return found[0]
