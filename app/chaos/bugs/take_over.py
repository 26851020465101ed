"""The seeded bug of a take-over on one host: a death without a proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from app.bridges import claim_record
from app.chaos.bugs.replacing import replace

__all__ = ["TAKE_OVER_BUGS"]


def _death_by_pid() -> None:
    """In a new container the process has the number of the old one, so the number proves every other process dead."""

    def judge(descriptor: int) -> bool:
        return descriptor >= 0

    replace(claim_record, "_lock", "(descriptor)", lambda _: judge)


TAKE_OVER_BUGS: Final[Mapping[str, Callable[[], None]]] = MappingProxyType({"death-by-pid": _death_by_pid})
