"""Binary Star and Freelance: programs written from the ZeroMQ guide alone, exchanged with ours in each place."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack

import pytest

from tests.ancestors.harness import OURS_OR_GUIDE, ancestor, begun, ended
from tests.reqrep.running import WAIT_SECONDS
from tests.reqrep.test_examples import OK_3, endpoint, program, program_in_background, run

INTERVAL = ("--state-ms", "200")
CALLS = 20


def side(
    whose: str, role: str, own: tuple[str, str], peers_state: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A server of the pair, by the endpoint of its clients and that of its state."""
    if whose == "guide":
        return ancestor("bstarsrv", role, *own, peers_state, *INTERVAL)
    words = ("--bind", own[0], "--state-bind", own[1], "--state-peer", peers_state, *INTERVAL)
    return program("bstarsrv", *(("--backup",) if role == "backup" else ()), *words)


def answers_to_both_clients(servers: tuple[str, str]) -> dict[str, list[str]]:
    """What a client of the guide and one of ours print, which ask at the same time."""
    patience = ("--count", "3", "--timeout-seconds", "1", "--settle-seconds", "0.5", "--tries", "20")
    with (
        begun("bstarcli", *servers, "--settle-ms", "500", "--tries", "20") as guide,
        program_in_background("bstarcli", "--connect", ",".join(servers), *patience) as ours,
    ):
        clients = {"guide": guide, "ours": ours}
        return {name: client.communicate(timeout=WAIT_SECONDS)[0].splitlines() for name, client in clients.items()}


@pytest.mark.parametrize(("primary", "backup"), [("ours", "guide"), ("guide", "ours")])
def test_binary_star_exchanges_each_side_of_the_pair_and_the_client(primary: str, backup: str) -> None:
    """BS-03, BS-06, BS-07, BS-13: the backup takes over from a primary that is killed; this one comes back passive."""
    front, state = (endpoint(), endpoint()), (endpoint(), endpoint())
    said: list[object] = []
    with ThreadPoolExecutor() as pool, side(backup, "backup", (front[1], state[1]), state[0]) as second:
        with side(primary, "primary", (front[0], state[0]), state[1]) as first:
            said += [answers_to_both_clients(front), next_word(second, pool)]
            first.kill()
            said += [answers_to_both_clients(front)]
        with side(primary, "primary", (front[0], state[0]), state[1]) as first:
            said += [next_word(first, pool)]
    assert said == [{"guide": ["ok"] * 3, "ours": OK_3}, "passive"] * 2


def next_word(server: subprocess.Popen[str], pool: ThreadPoolExecutor) -> str:
    """The first word of the next line that a server prints; each tells a change of its state."""
    assert server.stdout is not None
    return pool.submit(server.stdout.readline).result(WAIT_SECONDS).split()[0]


def freelance_server(model: int, whose: str) -> tuple[AbstractContextManager[subprocess.Popen[str]], str]:
    address = endpoint()
    if whose == "guide":
        return ancestor(f"flserver{model}", address), address
    return program(f"flserver{model}", "--endpoint" if model == 3 else "--bind", address), address


def freelance_answer(model: int, client: str, dead: str, live: str) -> str:
    """ "ok" if the client got its replies from the live one of two servers, else what it printed."""
    if client == "guide":
        lines = ended(f"flclient{model}", *(() if model == 1 else (str(CALLS),)), dead, live)
        wanted = f"Hello world from {live}" if model == 1 else f"{CALLS} of {CALLS} answered"
        return "ok" if lines == [wanted] else repr(lines)
    code, lines = run(
        f"flclient{model}", "--connect", f"{dead},{live}", *(() if model == 1 else ("--count", str(CALLS)))
    )
    return "ok" if code == 0 and (model == 2 or live in lines[-1]) else repr(lines)


@pytest.mark.parametrize("model", [1, 2, 3])
def test_freelance_exchanges_client_and_server(model: int) -> None:
    """FL-01 to FL-08: in each of the three models, the first of two servers is dead."""
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor())
        found = {}
        for whose in OURS_OR_GUIDE:
            server, live = freelance_server(model, whose)
            stack.enter_context(server)
            for client in OURS_OR_GUIDE:
                found[client, whose] = pool.submit(freelance_answer, model, client, endpoint(), live)
        said = {pair: answer.result() for pair, answer in found.items()}
    assert said == {(client, server): "ok" for client in OURS_OR_GUIDE for server in OURS_OR_GUIDE}
