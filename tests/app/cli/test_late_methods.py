"""Late methods: a dataclass that compiles them at their first use is the same as one that does so at once."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.cli.process.late_methods import compile_late


@pytest.fixture
def compiles_late(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(dataclasses, "_create_fn"):  # put back after the test
        monkeypatch.setattr(dataclasses, "_create_fn", dataclasses._create_fn)
    compile_late()


def make_classes(**options: bool) -> tuple[Any, Any]:
    @dataclasses.dataclass(**options)
    class Place:
        """A class with a default, a factory, and a step after its construction."""

        name: str
        floor: int = 0
        notes: list[str] = dataclasses.field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            self.notes.append("made")

    @dataclasses.dataclass(**options)
    class Room(Place):
        """A class with a base."""

        seats: int = dataclasses.field(default=1, kw_only=True)

    return Place, Room


def outcome(act: Callable[[], object]) -> object:
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - the error is what is compared
        return type(error), str(error)


def behaviour(place: Any, room: Any) -> Iterator[object]:
    first, second, below = place("a"), place("a", notes=["other"]), room("a", 2, seats=3)
    yield repr(first), repr(below), first == second, first == below, first == "a"
    yield outcome(lambda: hash(first) == hash(second))
    yield outcome(lambda: setattr(below, "seats", 4)), outcome(lambda: delattr(first, "name"))
    yield outcome(lambda: first < second), outcome(lambda: place()), outcome(lambda: room("a", 1, [], 5))
    yield repr(dataclasses.replace(below, floor=7)), dataclasses.asdict(below), repr(copy.copy(below))
    yield str(inspect.signature(place)), str(inspect.signature(room)), place.__init__.__qualname__
    yield below.notes, first.notes, second.notes


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("order", [False, True])
def test_a_class_with_late_methods_is_as_any_other(
    request: pytest.FixtureRequest, *, frozen: bool, slots: bool, order: bool
) -> None:
    at_once = list(behaviour(*make_classes(frozen=frozen, slots=slots, order=order)))
    request.getfixturevalue("compiles_late")
    assert list(behaviour(*make_classes(frozen=frozen, slots=slots, order=order))) == at_once


@dataclasses.dataclass(frozen=True, slots=True)
class Pickled:
    """A class that pickle finds by its name."""

    n: int


def test_an_object_is_pickled(compiles_late: None, monkeypatch: pytest.MonkeyPatch) -> None:
    remade = dataclasses.dataclass(frozen=True, slots=True)(type("Pickled", (), {"__annotations__": {"n": int}}))
    remade.__module__, remade.__qualname__ = __name__, "Pickled"
    monkeypatch.setattr(sys.modules[__name__], "Pickled", remade)
    assert pickle.loads(pickle.dumps(remade(3))) == remade(3)


def test_a_second_call_changes_nothing(compiles_late: None) -> None:
    late = getattr(dataclasses, "_create_fn", None)
    compile_late()
    place, room = make_classes()
    assert (getattr(dataclasses, "_create_fn", None), repr(place("a")), room("a", seats=2).seats) == (
        late, "make_classes.<locals>.Place(name='a', floor=0, notes=['made'])", 2,
    )  # fmt: skip


def test_a_method_is_compiled_when_it_is_first_used_and_then_is_a_function(compiles_late: None) -> None:
    place, _ = make_classes()
    before = type(vars(place)["__init__"]).__name__
    place("a")
    late = "_LateMethod" if sys.version_info < (3, 13) else "function"  # later versions compile a class at once
    assert (before, type(vars(place)["__init__"]).__name__) == (late, "function")
