"""Product: where to POST an event, in which envelope, and whose processor time and memory count as its own.

Products are read from a TOML file; a product that needs a database, a queue or a cache names their processes, too::

    [[product]]
    name = "svix"
    url = "http://127.0.0.1:8071/api/v1/app/bench/msg/"
    headers = {authorization = "Bearer ..."}
    envelope = '{"eventType": "bench", "payload": EVENT}'
    processes = [4711, "/run/postgresql/15-main.pid", "/run/redis/redis.pid"]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.harness import postgres_cpu_seconds, process_tree
from benchmarks.peers.clients import Clients, post_request
from benchmarks.peers.mark import body

__all__ = ["Product", "read_products"]

_EVENT = "EVENT"
_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Product:
    """A product that runs.

    ``envelope`` holds the word EVENT, in whose place the event's JSON stands. ``roots`` are the process ids whose trees
    are the product's. ``copies``: how many deliveries an event makes.
    """

    name: str
    url: str
    roots: Sequence[int]
    headers: Mapping[str, str] = field(default_factory=dict)
    envelope: str = _EVENT
    copies: int = 1

    def request(self, burst: str, number: int, size: int) -> bytes:
        """Return the POST of an event."""
        parts = urlsplit(self.url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        content = self.envelope.encode().replace(_EVENT.encode(), body(burst, number, size), 1)
        headers = {"content-type": "application/json", **self.headers}
        return post_request(path, content, parts.netloc, headers.items())

    def clients(self) -> Clients:
        """Return connections to it."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None, self.url
        return Clients(parts.hostname, parts.port or 80)

    def cpu_seconds(self) -> float:
        """Return the processor time of all its processes so far."""
        return sum(map(postgres_cpu_seconds, self.roots))

    def memory_bytes(self) -> int:
        """Return the memory of all its processes; a page that several share counts once."""
        return sum(map(_memory_bytes, {pid for root in self.roots for pid in process_tree(root)}))


def _memory_bytes(pid: int) -> int:
    try:
        return 1024 * int(_PSS.findall(Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii"))[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except PermissionError:
        raise SystemExit(f"the memory of process {pid} cannot be read: run this as its user, or as root") from None


def read_products(path: Path) -> list[Product]:
    """Return the products of a file. ValueError: a table that is none, with its name and the reason."""
    tables = tomllib.loads(path.read_text(encoding="utf-8")).get("product", [])
    return [_product(table) for table in tables]


def _product(table: dict[str, Any]) -> Product:
    name = table.pop("name", "?")
    processes = table.pop("processes", [])
    try:
        product = Product(name, roots=[_pid(one) for one in processes], **table)
    except (TypeError, ValueError, LookupError, OSError) as error:
        raise ValueError(f"product {name}: {error}") from error
    if _EVENT not in product.envelope:
        raise ValueError(f"product {name}: its envelope has no place for the {_EVENT}")
    return product


def _pid(process: int | str) -> int:
    """Return a process id: the number itself, or the first line of that file."""
    return process if isinstance(process, int) else int(Path(process).read_text(encoding="utf-8").split()[0])
