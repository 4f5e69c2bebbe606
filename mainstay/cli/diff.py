"""`mainstay diff`: what differs between two moments, field by field, and who did it.

Its exit codes are those of diff and of `kubectl diff`, which scripts rely on, and not those of the other commands: 1
means that something differs. So errors are 2 here.
"""

from collections.abc import Sequence
from enum import IntEnum

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.explain_output import answer_option, show_answer
from mainstay.cli.journal_access import Opened, Source, explain, explain_options, moment_at
from mainstay.cli.object_selection import complete_objects, everywhere_option, namespace_option
from mainstay.cli.output import Output
from mainstay.explain.blame_text import diff_text
from mainstay.explain.diff import diff as compared


class DiffExit(IntEnum):
    """What the exit codes of this command mean. Scripts rely on them: only add."""

    SAME = 0
    DIFFERS = 1
    ERROR = 2
    INCOMPLETE = 4
    """Nothing differs in what is there, and something is missing."""


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="[TYPE[/NAME]]", shell_complete=complete_objects)
@click.option(
    "--from", "begins", default="", metavar="TIME|REVISION", help="The first moment: a time, 10m (ago), 4711."
)
@click.option("--to", "ends", default="", metavar="TIME|REVISION", help="The second.  [default: now]")
@namespace_option
@everywhere_option
@answer_option("also what only reports: the status, and decisions")
@explain_options
def diff(
    words: tuple[str, ...],
    begins: str,
    ends: str,
    namespace: str,
    everywhere: bool,
    output: Output,
    source: Source,
) -> int:
    """Show what differs between two moments: objects that came, went and changed, and who did it.

    \b
        mainstay diff --from 10m                              in the namespace of the kubeconfig, since ten minutes ago
        mainstay diff --from 4711 --to 4800 -A
        mainstay diff --from 2026-11-16T03:10:00Z deploy/web
        mainstay diff --from 1h nodes

    Leases, Events and ComponentStates are left out unless a type is named. A field that was changed and changed back is
    no difference; `mainstay blame` has its history.

    \b
    Exit codes, as those of `kubectl diff`, and other than those of the other commands: 0 nothing differs, 1 something
    does, 2 error, 4 nothing does in what is there, and something is missing; 64 wrong usage.
    """
    try:
        return explain(
            source,
            lambda opened, screen: show_diff(
                opened,
                screen,
                words,
                begins=begins,
                ends=ends,
                namespace=namespace,
                everywhere=everywhere,
                output=output,
            ),
        )
    except click.UsageError:
        raise
    except click.ClickException as error:
        click.echo(f"mainstay: {error.format_message()}", err=True)
        return DiffExit.ERROR


async def show_diff(
    opened: Opened,
    screen: Screen,
    words: Sequence[str] = (),
    *,
    begins: str,
    ends: str = "",
    namespace: str = "",
    everywhere: bool = False,
    output: Output | None = None,
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    if not begins:
        raise click.UsageError("say from when: --from 10m, --from 2026-11-16T03:10:00Z, --from REVISION.")
    if ends and opened.at:
        raise click.UsageError("--to and --at are the same here: leave out one of them.")
    before = await moment_at(opened.journal, begins, "--from")
    after = await moment_at(opened.journal, ends or opened.at, "--to" if ends else "--at")
    if before.revision > after.revision:
        raise click.UsageError(f"--from is after --to: {before.revision} comes after {after.revision}.")
    where = None if everywhere else namespace or opened.namespace
    if not words:
        found = await compared(before, after, namespace=where)
    else:
        asked = opened.kinds.asked(words)
        if len(asked) > 1 or len(asked[0].names) > 1:
            raise click.UsageError("say one type, or one object: TYPE[/NAME].")
        kind = asked[0].kind.name
        name = asked[0].names[0] if asked[0].names else ""
        if name and everywhere and kind.namespaced:
            raise click.UsageError(
                "an object cannot be found by its name in all namespaces: leave out -A, or the name."
            )
        found = await compared(before, after, kind=kind, namespace=where if kind.namespaced else "", name=name)
    show_answer(screen, found, output or Output(), lambda is_wide: diff_text(found, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    if found.objects:
        return DiffExit.DIFFERS
    return DiffExit.INCOMPLETE if found.gaps else DiffExit.SAME
