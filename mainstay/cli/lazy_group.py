"""A group of commands that imports each of them when it is called.

A table says which commands there are, so that help and completion import none of them: `mainstay --help` takes a tenth
of a second, and a server runs without NumPy. The table repeats the first line of each command's help
(tests/cli/test_help.py compares them).
"""

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command of a table."""

    section: str
    """The heading in the help of its group."""
    name: str
    summary: str
    place: str
    """`module:attribute`."""


class LazyGroup(click.Group):
    def __init__(self, *args: Any, table: Sequence[CommandEntry], **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = {entry.name: entry for entry in table}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, self.table, n=1)
            ctx.fail(f"unknown command {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.table))
        for section in dict.fromkeys(entry.section for entry in self.table.values()):
            with formatter.section(section):
                # Padded to one width, so that the summaries of all sections begin in one column.
                formatter.write_dl(
                    [
                        (name.ljust(width), entry.summary)
                        for name, entry in self.table.items()
                        if entry.section == section
                    ]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]
