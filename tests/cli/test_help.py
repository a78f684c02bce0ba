"""Help texts: two examples for every command, rare options only on request."""

from __future__ import annotations

import shlex

import pytest
import typer

from unseen.cli import main
from unseen.cli.application import COMMANDS, examples, load_command, spread_lists


def command_names() -> list[str]:
    """Return the words of every command that does something."""
    found = []
    for name in COMMANDS:
        inner = getattr(load_command(name), "commands", {})
        found += [f"{name} {each}" for each in inner] or [name]
    return found


NAMES = [*command_names(), "results"]
EXAMPLES = examples()


def test_every_command_has_two_examples_and_every_example_has_a_command() -> None:
    assert set(EXAMPLES) == set(NAMES)
    for name, lines in EXAMPLES.items():
        assert len(set(lines)) == 2
        assert all(line.startswith(f"unseen {name}") for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_help_ends_with_the_examples_and_fits_sixty_lines(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.rstrip().splitlines()
    assert [line.strip() for line in lines[-2:]] == EXAMPLES[name]
    assert len(lines) <= 60, f"{name}: {len(lines)} lines; mark rare options with option(..., rare=True)"


@pytest.mark.parametrize("example", [line for pair in EXAMPLES.values() for line in pair])
def test_examples_have_commands_and_options_that_exist(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", lambda *_: None)
    words = shlex.split(example)[1:]
    if words[0] == "results" and words[1].startswith("--"):  # a group that is a command itself
        load_command("results").make_context("results", words[1:])
    else:
        assert main(words) == 0


def test_help_all_shows_rare_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--help"]) == 0
    assert "--part-size" not in capsys.readouterr().out
    assert main(["probe", "--help-all"]) == 0
    assert "--part-size" in capsys.readouterr().out


def test_a_rare_option_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "nothing/", "--models", "random:test_resnet", "--part-size", "many"]) == 2
    assert "part_size" in capsys.readouterr().err


def test_lists_after_one_option() -> None:
    assert spread_lists(["--models", "a", "b", "--seed", "1"], {"--models"}) == [
        "--models", "a", "--models", "b", "--seed", "1",
    ]  # fmt: skip
