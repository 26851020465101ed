"""What the README tells a newcomer to do from Python alone, without doing it (`make dist-tests` does)."""

from __future__ import annotations

from pathlib import Path

from scripts import newcomer
from scripts.images import newcomer as image_newcomer


def test_a_newcomer_needs_no_more_commands_than_are_promised() -> None:
    """`make dist-tests` runs them; the count is the README's."""
    programs = [command.split()[0] for command in newcomer.commands()]

    assert len(programs) == newcomer.COMMANDS_MAX
    assert programs[0] == "python3"
    assert "`make dist-tests` runs these six commands" in (Path(__file__).parents[2] / "README.md").read_text()
    assert "whsec_..." in newcomer.application()


def test_a_newcomer_with_the_image_needs_no_more_commands_than_are_promised() -> None:
    """`make images` runs them; curl and docker are all that they call."""
    commands = image_newcomer.commands()

    assert len(commands) == image_newcomer.COMMANDS_MAX
    assert {command.split("(")[-1].split()[0] for command in commands} == {"docker", "curl"}
    assert "`make images` runs these five commands" in (Path(__file__).parents[2] / "README.md").read_text()
