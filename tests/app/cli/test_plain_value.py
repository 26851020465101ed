"""Values on the command line that are read without pydantic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
import typer._coercion
from typer.testing import CliRunner

from app.cli.lines.plain_value import PlainCommand


def command(
    text: Annotated[str, typer.Argument()] = "none",
    words: Annotated[list[str] | None, typer.Argument()] = None,
    count: Annotated[int, typer.Option(min=1, max=60)] = 3,
    seconds: Annotated[float, typer.Option(min=0.5)] = 1,
    number: Annotated[int | None, typer.Option()] = None,
    status: Annotated[list[int] | None, typer.Option()] = None,
    file: Annotated[Path | None, typer.Option()] = None,
    upper: Annotated[str, typer.Option(parser=str.upper)] = "a",
    is_on: Annotated[bool, typer.Option()] = False,
) -> None:
    """Print each value with its type."""
    typer.echo([text, words, count, seconds, number, status, file, upper, is_on])


def said(cls: Any, words: list[str]) -> tuple[int, str]:
    application = typer.Typer(add_completion=False)
    application.command(cls=cls)(command)
    done = CliRunner().invoke(application, words)
    return done.exit_code, done.output


@pytest.mark.parametrize("option", ["--count", "--seconds", "--number", "--status"])
@pytest.mark.parametrize(
    "value",
    ["5", "05", "+5", "-5", " 5", "5.0", "5.5", ".5", "0", "61", "1e3", "1_0", "\u0665", "x", "", "9" * 30, "inf"],
)
def test_a_number_is_read_or_refused_as_typer_does_it(option: str, value: str) -> None:
    assert said(PlainCommand, [option, value]) == said(None, [option, value])


@pytest.mark.parametrize(
    "words",
    [
        "", "a", "a b c", "--upper x", "--file /tmp", "--is-on", "--status 1 --status 2", "--nonsense",
        "a --count 7 --seconds 0.5",
    ],
)  # fmt: skip
def test_other_values_too(words: str) -> None:
    assert said(PlainCommand, words.split()) == said(None, words.split())


def test_a_value_that_needs_no_conversion_is_not_given_to_typer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given: the option with a parser of its own, and several arguments."""
    given, convert = [], typer._coercion.build_runtime_param
    monkeypatch.setattr("typer.core.build_runtime_param", lambda one: (given.append(one.annotation), convert(one))[1])
    done = said(PlainCommand, ["a", "b", "--count", "60", "--seconds", "0.5", "--number", "123456789"])
    assert (done, given) == ((0, "['a', ['b'], 60, 0.5, 123456789, None, None, 'A', False]\n"), [list[str], str])
