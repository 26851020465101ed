"""Model: the base of what the hub answers with (:mod:`hookwire.models`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, Final, Self

from hookwire.error import HookwireError

__all__ = ["Content", "Model"]

_OURS: Final = frozenset({"extra", "nested", "moments"})


@dataclass(frozen=True, kw_only=True)
class Model:
    """Members of an answer. ``extra`` holds those that this version of the client does not know."""

    nested: ClassVar[Mapping[str, type[Model]]] = {}
    moments: ClassVar[frozenset[str]] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Self:
        """Make a model of the members of a JSON object. Raise :class:`HookwireError` if a member is missing."""
        values: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        known = cls.__dataclass_fields__
        for name, value in members.items():
            if name not in known or name in _OURS:
                extra[name] = value
            elif name in cls.moments and isinstance(value, str):
                values[name] = datetime.fromisoformat(value)
            elif name in cls.nested and value is not None:
                inner = cls.nested[name]
                values[name] = [inner.of(one) for one in value] if isinstance(value, list) else inner.of(value)
            else:
                values[name] = value
        missing = [
            one.name for one in fields(cls)
            if one.name not in values and one.default is MISSING and one.default_factory is MISSING
        ]  # fmt: skip
        if missing:
            raise HookwireError(
                f"an answer has no {', '.join(missing)}: the hub is older than this client; update the hub, or install "
                "the version of hookwire that the hub has"
            )
        return cls(**values, extra=extra)


@dataclass(frozen=True, slots=True)
class Content:
    """An answer that is no JSON of the hub: a body as it was published or replied."""

    status: int
    content_type: str | None
    body: bytes
    headers: Mapping[str, str]
