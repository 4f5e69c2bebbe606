"""The help of every command: grouped, short summaries, an example, and quick to print."""

import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from mainstay.cli.lazy_group import LazyGroup
from mainstay.cli.main import cli, run

SUMMARY_MAX = 45
SECTIONS = ["Cluster", "Fleet", "Objects", "Explain", "Incident", "Test", "Components"]
HEAVY = ["numpy", "grpc", "cryptography", "prometheus_client", "yaml", "uvloop", "asyncio", "ssl"]


def all_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its path, groups included."""
    waiting: list[tuple[str, click.Command]] = [("mainstay", cli)]
    while waiting:
        path, command = waiting.pop(0)
        yield path, command
        if isinstance(command, LazyGroup):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                waiting.append((f"{path} {name}", found))


COMMANDS = dict(all_commands())
GROUPS = {path: command for path, command in COMMANDS.items() if isinstance(command, LazyGroup)}
each_command = pytest.mark.parametrize(("path", "command"), COMMANDS.items(), ids=COMMANDS)


def first_line(command: click.Command) -> str:
    return (command.help or "").splitlines()[0].removesuffix(".")


def test_every_command_is_in_one_section():
    assert list(dict.fromkeys(entry.section for entry in cli.table.values())) == SECTIONS
    for command in GROUPS.values():
        assert len({entry.name for entry in command.table.values()}) == len(command.table)


@pytest.mark.parametrize("path", GROUPS)
def test_the_table_of_a_group_has_the_first_lines_of_its_commands(path):
    for name, entry in GROUPS[path].table.items():
        command = COMMANDS[f"{path} {name}"]
        assert entry.summary == first_line(command)
        assert command.name == name


@each_command
def test_summaries_are_short(path: str, command: click.Command):
    options = [param for param in command.params if isinstance(param, click.Option)]
    summaries = [first_line(command), *(re.split(r"  \[", option.help or "")[0] for option in options)]
    for summary in filter(None, summaries):
        assert len(summary) <= SUMMARY_MAX, summary
        assert not summary.endswith(("...", "…."))
    if path not in GROUPS:
        assert [option.name for option in options if not option.help] == []


@each_command
def test_help_has_an_example_and_cuts_nothing_off(path: str, command: click.Command, capsys):
    assert run([*path.split()[1:], "--help"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"^ +(bash: +)?{path}\b", text, re.MULTILINE), "no example"
    assert "...\n" not in text.partition("\n")[2]


def test_the_help_of_the_root_has_all_commands_in_their_sections(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for section in SECTIONS:
        names = [entry.name for entry in cli.table.values() if entry.section == section]
        _, _, below = text.partition(f"\n{section}:\n")
        lines = below.split("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == names


def test_the_version_names_the_build(capsys):
    assert run(["--version"]) == 0
    assert re.fullmatch(r"mainstay \S+ \(build [0-9a-f]{8}, Python 3\.\d+\.\d+\)\n", capsys.readouterr().out)


def test_an_unknown_command_is_rejected_with_the_nearest_one(capsys):
    assert run(["gte"]) == 64
    assert capsys.readouterr().err == (
        "mainstay: unknown command 'gte'; did you mean 'get'?\nSee 'mainstay --help' for usage and examples.\n"
    )


def test_wrong_usage_is_reported_in_lower_case_without_a_period(capsys):
    assert run(["get", "--nope"]) == 64
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"mainstay: no such option:? '?--nope'?", first)
    assert second == "See 'mainstay get --help' for usage and examples."


@pytest.mark.parametrize("words", ["--help", "get --help", "why --help", "sim --help", "server --help", "agent --help"])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys; from mainstay.cli.main import run; run(sys.argv[1:]);"
        f"sys.stderr.write(' '.join(name for name in {HEAVY} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words.split()], capture_output=True, text=True, check=True)
    assert done.stderr == ""
