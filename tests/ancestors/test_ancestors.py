"""Programs written from the ZeroMQ guide alone, exchanged with ours in each place of their pattern.

Each file beside this one is such a program. Its docstring cites the paragraph of the guide that it implements.
"""

import ast
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.ancestors.harness import OURS_OR_GUIDE, PROGRAMS, ancestor, ended
from tests.reqrep.test_broker_command import broker_process
from tests.reqrep.test_examples import PATIENT, endpoint, program, run

GUIDES_HEARTBEAT = ("--heartbeat-ms", "2500")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_ancestor_knows_the_guide_only(path: Path) -> None:
    """It cites the guide, and imports the standard library, pyzmq and other ancestors."""
    tree = ast.parse(path.read_text())
    names = {
        name if name.startswith("tests.ancestors.") else name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    allowed = sys.stdlib_module_names | {"zmq"} | {f"tests.ancestors.{one.stem}" for one in PROGRAMS}
    assert names <= allowed
    assert 'ZeroMQ guide, chapter 4, "' in (ast.get_docstring(tree) or "")


@pytest.mark.parametrize("server", OURS_OR_GUIDE)
@pytest.mark.parametrize("client", OURS_OR_GUIDE)
def test_lazy_pirates_exchange_client_and_server(client: str, server: str) -> None:
    """LP-01 to LP-05."""
    address = endpoint()
    with ExitStack() as stack:
        if server == "ours":
            stack.enter_context(program("lpserver", "--bind", address, "--work-seconds", "0"))
        else:
            stack.enter_context(ancestor("lpserver", address))
        assert lazy_lines(client, address) == ["ok"] * 3


def lazy_lines(client: str, address: str) -> list[str]:
    """What a client says of three requests, reduced to "ok" for a right reply."""
    if client == "guide":
        return ended("lpclient", address)
    code, lines = run("lpclient", "--connect", address, *PATIENT)
    return ["ok"] * len(lines) if code == 0 else lines


@pytest.mark.parametrize("kind", ["sp", "pp"])
@pytest.mark.parametrize("worker", OURS_OR_GUIDE)
@pytest.mark.parametrize("queue", OURS_OR_GUIDE)
@pytest.mark.parametrize("client", OURS_OR_GUIDE)
def test_simple_and_paranoid_pirates(client: str, queue: str, worker: str, kind: str) -> None:
    """SP-01 to SP-06, PP-01 to PP-09."""
    front, back = endpoint(), endpoint()
    with ExitStack() as stack:
        if queue == "ours":
            stack.enter_context(program(f"{kind}queue", "--frontend", front, "--backend", back))
        else:
            stack.enter_context(ancestor(f"{kind}queue", front, back))
        if worker == "ours":
            stack.enter_context(program(f"{kind}worker", "--connect", back, "--work-seconds", "0"))
        else:
            stack.enter_context(ancestor(f"{kind}worker", back))
        assert lazy_lines(client, front) == ["ok"] * 3


@contextmanager
def majordomo(broker: str, worker: str) -> Iterator[str]:
    """A broker with a worker of ``echo``; the endpoint."""
    with ExitStack() as stack:
        if broker == "ours":
            _, address = stack.enter_context(broker_process("--titanic", "memory", *GUIDES_HEARTBEAT))
        else:
            address = endpoint()
            stack.enter_context(ancestor("mdbroker", address))
        if worker == "ours":
            stack.enter_context(program("mdworker", "--connect", address))
        else:
            stack.enter_context(ancestor("mdworker", address, "echo"))
        yield address


@pytest.mark.parametrize("worker", OURS_OR_GUIDE)
@pytest.mark.parametrize("broker", OURS_OR_GUIDE)
def test_majordomo_with_a_client_of_the_guide(broker: str, worker: str) -> None:
    """MD-01 to MD-09, MM-02: one request at a time, then many at once."""
    with majordomo(broker, worker) as address:
        assert ended("mdclient", address, "echo") == ["ok"] * 3
        assert ended("mdclient2", address, "echo", "500") == ["sent", "500 replies, 500 different"]
        assert ended("mmiecho", address, "echo", "none") == ["echo: [b'200']", "none: [b'404']"]


@pytest.mark.parametrize("worker", OURS_OR_GUIDE)
@pytest.mark.parametrize("broker", OURS_OR_GUIDE)
def test_majordomo_with_a_client_of_ours(broker: str, worker: str) -> None:
    """MD-01 to MD-09, MM-02."""
    with majordomo(broker, worker) as address:
        code, (line,) = run("mdclient", "--connect", address, "--count", "50")
        assert (code, line.split(",")[0]) == (0, "50 replies received")
        assert run("mmiecho", "--connect", address) == (0, ["lookup echo service: 200"])


@pytest.mark.parametrize("client", OURS_OR_GUIDE)
@pytest.mark.parametrize("store", ["ours", "ours at the guide's broker", "guide", "guide at our broker"])
def test_titanic_exchanges_store_broker_and_client(client: str, store: str, tmp_path: Path) -> None:
    """TI-01 to TI-05: Titanic inside our broker, ours as a worker, and one of the guide, each with both clients."""
    with ExitStack() as stack:
        if store in {"ours", "guide at our broker"}:
            words = ("--titanic", "memory") if store == "ours" else ()
            _, address = stack.enter_context(broker_process(*words, *GUIDES_HEARTBEAT))
        else:
            address = endpoint()
            stack.enter_context(ancestor("mdbroker", address))
        if store.startswith("guide"):
            stack.enter_context(ancestor("titanic", address, str(tmp_path / "requests")))
        elif store != "ours":
            stack.enter_context(program("titanic", "--connect", address, "--folder", str(tmp_path)))
        stack.enter_context(ancestor("mdworker", address, "echo"))
        if client == "guide":
            assert ended("ticlient", address, "echo", "hello") == ["[b'200', b'hello'] [b'200'] [b'400']"]
        else:
            code, lines = run("ticlient", "--connect", address)
            assert (code, lines[-1]) == (0, "reply: Hello world")
