"""No test sleeps or polls by itself: it waits for a condition with `until` (HO-09)."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HARNESS = {
    "tests/hostile/server.py": "servers that drip and stall; the pace is what they do",
    "tests/faults/held_peer.py": "a program of its own; it polls a file",
    "tests/faults/job_workers.py": "a program of its own; its work takes that long",
    "tests/ancestors/mdworker.py": "a program of its own; it waits and works as the guide's worker",
    "tests/ancestors/bstarcli.py": "a program of its own; it waits until the pair has failed over",
    "tests/ancestors/ticlient.py": "a program of its own; it asks again after a pause",
    "tests/ancestors/titanic.py": "a program of its own; it looks at a folder",
    "tests/faults/titanic_worker.py": "a program of its own; it polls a file",
}
"""Where a sleep with a literal is allowed, and why; tests/waiting.py has none."""

SERVERS = ("kafka", "mortal_kafka", "mariadb", "postgres15", "postgres18", "prosody", "rabbitmq")
SERVER_VERBS = (
    "close_all_connections", "ctl", "delete_queue", "restart", "set_vm_memory_high_watermark", "start", "start_app",
    "stop", "stop_app", "sync_declarations", "wait_ready",
)  # fmt: skip
"""The fixtures of the root conftest.py, and those methods of a server that wait for a program."""


def sleeps(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each call of a `sleep` whose argument holds a number above 0."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "sleep" and node.args:
            numbers = (part.value for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant))
            if any(isinstance(number, int | float) and number > 0 for number in numbers):
                yield node.lineno


def hand_made_waits(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each loop that only looks, polls and ends, or sleeps in the database: `until` does that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While):
            waits = [is_poll(step) for step in node.body]
            looks = all(wait or only_looks(step) for wait, step in zip(waits, node.body, strict=True))
            if (any(waits) and looks) or "pg_sleep" in ast.unparse(node):
                yield node.lineno


def is_poll(step: ast.stmt) -> bool:
    if not isinstance(step, ast.Expr):
        return False
    call = step.value.value if isinstance(step.value, ast.Await) else step.value
    if not isinstance(call, ast.Call) or ast.unparse(call) == "asyncio.sleep(0)":
        return False
    return called(call) in ("poll", "block_poll", "sleep")


def called(call: ast.Call) -> str:
    """Return the last name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def blocking(tree: ast.AST) -> Iterator[int]:
    """Yield the line of each call in a coroutine, or in a lambda of one, that blocks its event loop for long."""
    for coroutine in ast.walk(tree):
        if isinstance(coroutine, ast.AsyncFunctionDef):
            yield from (node.lineno for node in own_nodes(coroutine) if isinstance(node, ast.Call) and blocks(node))


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs in a coroutine's loop: no function that is defined in it, and no lambda but one of `until`."""
    polls = isinstance(node, ast.Call) and called(node) == "until"
    for child in ast.iter_child_nodes(node):
        if polls or not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from own_nodes(child)


def blocks(call: ast.Call) -> bool:
    """Return whether a call waits for a server's program, or for a condition, without an event loop."""
    if called(call) not in SERVER_VERBS or not isinstance(call.func, ast.Attribute):
        return called(call) == "block_until"
    receiver = ast.unparse(call.func.value)
    return receiver in SERVERS or receiver.endswith(".server")


def only_looks(step: ast.stmt) -> bool:
    """Return whether a step keeps a value, asserts, or leaves the loop without an error of its own."""
    if isinstance(step, ast.If):
        return all(only_looks(inner) for inner in [*step.body, *step.orelse])
    return isinstance(step, ast.Assign | ast.AnnAssign | ast.Assert | ast.Return | ast.Break)


Rule = Callable[[ast.AST], Iterator[int]]
WORDS: dict[Rule, re.Pattern[str]] = {
    sleeps: re.compile(r"\bsleep\("), hand_made_waits: re.compile(r"\bwhile\b[\s\S]*?(?:poll|sleep)\("),
    blocking: re.compile(rf"\bblock_until\(|\b(?:{'|'.join(SERVERS)}|server)\.(?:{'|'.join(SERVER_VERBS)})\("),
}  # fmt: skip
"""What a file has at least in which a rule finds anything. Most files have none of it."""


def found_in(folder: Path, rule: Rule = sleeps) -> list[str]:
    return [
        f"{name}:{line}"
        for path in sorted((folder / "tests").rglob("*.py"))
        if (name := path.relative_to(folder).as_posix()) not in {*HARNESS, "tests/waiting.py"}
        if WORDS[rule].search(text := path.read_text(encoding="utf-8"))
        for line in rule(ast.parse(text))
    ]


def test_no_test_waits_in_a_loop_of_its_own() -> None:
    assert found_in(ROOT, hand_made_waits) == []


@pytest.mark.parametrize(
    "loop",
    [
        "while not done():\n        await poll()",
        "while True:\n        if found := await look():\n            return found\n        await asyncio.sleep(0.01)",
        "while not done():\n        assert time.monotonic() < deadline\n        block_poll()",
        "while await sql.fetchval('SELECT count(*) FROM t, pg_sleep(0.1)'):\n        pass",
    ],
)
def test_a_planted_wait_is_found(loop: str) -> None:
    assert list(hand_made_waits(ast.parse(f"async def f():\n    {loop}\n"))) == [2]


def test_a_loop_that_acts_is_no_wait() -> None:
    acting = "async def f():\n    while not done():\n        await fold()\n        await poll()\n"
    assert list(hand_made_waits(ast.parse(acting))) == []


def test_no_coroutine_of_a_test_blocks_its_loop() -> None:
    """GU-20: the hub or client under test runs in that loop, and its deadlines pass meanwhile."""
    assert found_in(ROOT, blocking) == []


@pytest.mark.parametrize(
    "call",
    [
        "await until(lambda: 'q' in corner.server.ctl('list_queues'))",
        "rabbitmq.start()",
        "block_until(lambda: done())",
    ],
)
def test_a_planted_call_that_blocks_is_found(call: str) -> None:
    assert list(blocking(ast.parse(f"async def f():\n    {call}\n"))) == [2]


def test_a_call_in_a_thread_blocks_no_loop() -> None:
    in_threads = (
        "async def f():\n    await asyncio.to_thread(rabbitmq.start)\n\n    def harm():\n        rabbitmq.start()\n"
    )
    assert list(blocking(ast.parse(in_threads))) == []


def test_a_file_that_kills_rabbitmq_has_its_declarations_synced_before() -> None:
    """GU-20: RabbitMQ answers `declare` before it is on the disk (docs/adr/0019-own-test-servers.md)."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    killing = {name for name, text in texts.items() if "rabbitmq" + ".kill" in text}
    assert {name for name in killing if "sync_declarations" not in texts[name]} == set()


def test_no_test_sleeps_for_a_literal_time() -> None:
    assert found_in(ROOT) == []


@pytest.mark.parametrize("call", ["time.sleep(0.1)", "await asyncio.sleep(1)", "sleep(chance.uniform(0, 2))"])
def test_a_planted_sleep_is_found(tmp_path: Path, call: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_planted.py").write_text(f"async def test_it():\n    {call}\n", encoding="utf-8")
    assert found_in(tmp_path) == ["tests/test_planted.py:2"]


def test_giving_way_to_other_tasks_is_no_sleep() -> None:
    assert list(sleeps(ast.parse("async def f():\n    await asyncio.sleep(0)\n"))) == []


def test_each_exception_still_sleeps() -> None:
    assert [name for name in HARNESS if not list(sleeps(ast.parse((ROOT / name).read_text("utf-8"))))] == []
