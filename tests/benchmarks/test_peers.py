"""`python -m benchmarks.peers`: the null hub, the receiver, and how bursts become a table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import program, receiver, table
from benchmarks.peers.burst import Burst, Load, run_burst
from benchmarks.peers.mark import MARK
from benchmarks.peers.product import Product, read_products
from runtime.port import free_port
from tests.waiting import until

QUICK = Load(seconds=0.2, clients=4, patience_seconds=1.0)


@pytest.fixture
def ports() -> tuple[int, int]:
    """Two ports: of the null hub and of the receiver."""
    return free_port(), free_port()


async def test_the_null_hub_stores_and_sends_what_it_acknowledges(ports: tuple[int, int], tmp_path: Path) -> None:
    hub, sink = ports
    callbacks = [f"http://127.0.0.1:{sink}/{number}" for number in range(2)]
    async with receiver(sink) as client:
        with program("null_hub", str(hub), str(tmp_path / "log"), *callbacks) as pid:
            product = Product("null hub", f"http://127.0.0.1:{hub}/", [pid], copies=2)
            await until(lambda: answers(product))
            found = await run_burst(product, client, QUICK)
            owed = await run_burst(Product("owes", product.url, [pid], copies=3), client, QUICK)
    stored = MARK.findall((tmp_path / "log").read_bytes())

    assert (found.acknowledged > 0, found.refused, found.lost, found.twice) == (True, 0, 0, 0)
    assert (owed.lost, owed.twice) == (owed.acknowledged, 0)
    assert len(set(stored)) == len(stored) == found.acknowledged + owed.acknowledged + 1
    assert (found.processor_ms is not None, found.memory_bytes > 1_000_000) == (True, True)


async def answers(product: Product) -> bool:
    """Whether it takes an event."""
    try:
        return await product.clients().post(product.request("0" * 8, 0, 100)) == 202
    except ConnectionError:
        return False


async def test_a_product_that_refuses_has_no_figures_and_loses_nothing() -> None:
    product = Product("gone", f"http://127.0.0.1:{free_port()}/", [os.getpid()])
    async with receiver(free_port()) as client:
        found = await run_burst(product, client, Load(seconds=0.05, rate=100, patience_seconds=0.1))

    assert (found.acknowledged, found.refused, found.lost, found.received_p50) == (0, 5, 0, None)
    assert "nothing came" in "\n".join(table("100/s", {"gone": [found]}))


def burst(rate: float, milliseconds: float) -> Burst:
    return Burst(100, 0, rate, milliseconds, rate, milliseconds, milliseconds, milliseconds, 1_000_000, 0, 0)


def test_the_table_names_what_the_first_wins_and_what_it_loses() -> None:
    bursts = {
        "ours": [burst(200, 4.0), burst(400, 2.0), burst(300, 3.0)],
        "slow": [burst(150, 1.5)],
        "other": [burst(100, 6.0)],
        "null hub": [burst(600, 1.0)],
    }

    *lines, ratios, limit = table("32 clients", bursts)

    assert "200 / 300 / 400" in lines[1]
    assert limit.startswith("  ours : null hub   copies/s 0.50x")
    assert ratios.endswith("copies/s 2.00x, ack p50 0.50x, received p50 0.50x, cpu 0.50x")


def test_an_event_stands_in_the_envelope_and_may_be_found_again(tmp_path: Path) -> None:
    file = tmp_path / "products.toml"
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    file.write_text(
        "[[product]]\nname = 'a'\nurl = 'http://127.0.0.1:1/p?q=1'\nheaders = {authorization = 'Bearer x'}\n"
        f"envelope = '{{\"data\": EVENT}}'\nprocesses = ['{tmp_path / 'pid'}']\n"
    )

    [product] = read_products(file)
    head, _, content = product.request("0011aabb", 7, 200).partition(b"\r\n\r\n")

    assert head.startswith(b"POST /p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:1\r\n")
    assert (b"authorization: Bearer x" in head, MARK.findall(content)) == (True, [(b"0011aabb", b"7")])
    assert (product.roots, len(content), product.memory_bytes() > 0) == ([os.getpid()], len('{"data": }') + 200, True)


@pytest.mark.parametrize(
    ("line", "reason"), [("colour = 'red'", "colour"), ("envelope = '{}'", "EVENT"), ("processes = ['/none']", "/none")]
)
def test_a_product_that_cannot_be_read_is_named(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "products.toml").write_text(f"[[product]]\nname = 'odd'\nurl = 'http://h/'\n{line}\n")

    with pytest.raises(ValueError, match=f"product odd: .*{reason}"):
        read_products(tmp_path / "products.toml")
