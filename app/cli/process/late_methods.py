"""Late methods: what a dataclass generates is compiled at its first use, not when its module is imported.

On Python 3.11 and 3.12 ``dataclasses`` compiles six functions for each frozen class, one by one. A start imports 220
such classes and makes objects of a fifth of them. Later versions compile a class at once, and are left as they are.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = ["compile_late"]

_COMPILES_AT_ONCE: Final = (3, 13)


class _LateMethod:
    """Stands for a method until somebody looks it up; then the function takes its place in the class."""

    __slots__ = ("__name__", "_compiled")

    def __init__(self, name: str, compiled: Callable[[], Any]) -> None:
        self.__name__ = name
        self._compiled = compiled

    def __get__(self, instance: object, owner: type) -> Any:
        function = self._compiled()
        for cls in owner.__mro__:
            if cls.__dict__.get(self.__name__) is self:
                function.__qualname__ = f"{cls.__qualname__}.{self.__name__}"
                setattr(cls, self.__name__, function)
        return function.__get__(instance, owner)

    def __call__(self, *args: object) -> Any:
        """Call the function itself: ``__repr__`` is wrapped by dataclasses and is no attribute of the class."""
        function = self._compiled()
        self._compiled = lambda: function
        return function(*args)


def compile_late() -> None:
    """Let dataclasses that are made from now on compile their methods at the first use. A second call does nothing."""
    if sys.version_info >= _COMPILES_AT_ONCE:
        return
    compile_now = dataclasses._create_fn  # type: ignore[attr-defined]  # of these versions alone
    if compile_now.__module__ == dataclasses.__name__:

        def late(name: str, *args: Any, **options: Any) -> _LateMethod:
            return _LateMethod(name, lambda: compile_now(name, *args, **options))

        dataclasses._create_fn = late  # type: ignore[attr-defined]
