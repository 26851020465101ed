"""Explorer: every state that a model can reach, breadth first, so that the trace of a broken rule is the shortest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["Broken", "Model", "NotAllowed", "TooLarge", "explore", "replay"]

_StateT = TypeVar("_StateT", bound=Hashable)


class Model(Protocol[_StateT]):
    """A system of states and steps. ``steps`` yields each step that a state allows, with the state behind it.

    ``broken`` names the rule that a state breaks; empty: none.
    """

    def start(self) -> _StateT: ...

    def steps(self, state: _StateT) -> Iterator[tuple[str, _StateT]]: ...

    def broken(self, state: _StateT) -> str: ...


class Broken(AssertionError, Generic[_StateT]):
    """A rule is broken. ``trace`` has the steps from the start; the text prints them, one a line."""

    def __init__(self, rule: str, trace: Sequence[str], state: _StateT) -> None:
        lines = [f"{number:3}  {step}" for number, step in enumerate(trace, 1)]
        super().__init__("\n".join([f"{rule}, after {len(trace)} steps:", *lines, f"     {state}"]))
        self.rule = rule
        self.trace = list(trace)


class NotAllowed(AssertionError):
    """A recorded step that the model does not allow where it stands."""


class TooLarge(AssertionError):
    """More states than the bound: nothing is shown, because some were not visited."""


def explore(model: Model[_StateT], states_max: int = 60_000) -> int:
    """Visit all states; return their number. Raise :class:`Broken` at the first that breaks a rule."""
    start = model.start()
    came_from: dict[_StateT, tuple[_StateT, str] | None] = {start: None}
    layer = [start]
    while layer:
        following = []
        for state in layer:
            for step, after in model.steps(state):
                if after in came_from:
                    continue
                came_from[after] = (state, step)
                if rule := model.broken(after):
                    raise Broken(rule, _trace(came_from, after), after)
                following.append(after)
        if len(came_from) > states_max:
            raise TooLarge(f"more than {states_max} states")
        layer = following
    return len(came_from)


def replay(model: Model[_StateT], steps: Iterable[str]) -> _StateT:
    """Take recorded steps; return the last state. Raise :class:`NotAllowed` or :class:`Broken`."""
    state, taken = model.start(), list[str]()
    for step in steps:
        allowed = dict(model.steps(state))
        if step not in allowed:
            raise NotAllowed(f"after {taken}: {step!r} is not allowed; allowed are {sorted(allowed)}")
        state = allowed[step]
        taken.append(step)
        if rule := model.broken(state):
            raise Broken(rule, taken, state)
    return state


def _trace(came_from: dict[_StateT, tuple[_StateT, str] | None], state: _StateT) -> list[str]:
    steps = []
    while (before := came_from[state]) is not None:
        state, step = before
        steps.append(step)
    return steps[::-1]
