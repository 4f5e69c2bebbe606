"""`mainstay why`: explain the state of an object in one sentence, with the evidence.

Also a kubectl plugin: `kubectl why` runs it if `kubectl-why` is on the PATH.
"""

from collections.abc import Sequence

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.explain_output import answer_option, exit_for, show_answer
from mainstay.cli.journal_access import (
    JournalChoice,
    OpenJournal,
    explain,
    explain_options,
    find_elsewhere,
    object_argument,
)
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("all nodes, all evidence")
@click.option("--generation", type=int, default=None, metavar="N", help="Explain this generation of the object")
@explain_options
def why(words: tuple[str, ...], namespace: str, output: Output, generation: int | None, source: JournalChoice) -> int:
    """Explain the state of an object.

    \b
        mainstay why pod/web-1                 why is it pending, or not ready?
        mainstay why deploy/web                why is the rollout stuck?
        mainstay why job/report -n batch       why has it failed?
        mainstay why node/n1                   why does it accept no pods?
        mainstay why pod/web-1 --at 10m        and ten minutes ago?

    The first line is the cause. The lines below are the evidence, each with its decision or revision. Deleted objects
    and objects that the server rejected are explained as well.

    \b
    Exit codes:
        0  healthy                     3  waiting for something that may happen by itself
        1  error                       4  incomplete: records that would tell are missing
        2  blocked until a user acts
    """
    return explain(source, lambda opened, screen: show_why(opened, screen, words, namespace, output, generation))


async def show_why(
    opened: OpenJournal,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    generation: int | None = None,
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.why.causes import Cause
    from mainstay.explain.why.dispatch import why as find_answer
    from mainstay.explain.why.text import render_answer
    from mainstay.registry import REGISTRY

    asked = opened.object(words, namespace)
    moment = await opened.moment()
    answer = await find_answer(moment, REGISTRY, asked.kind, asked.name, asked.namespace, generation)
    show_answer(screen, answer, output or Output(), lambda is_wide: render_answer(answer, wide=is_wide).splitlines())
    hint = await find_elsewhere(moment, asked) if answer.cause is Cause.NO_SUCH_OBJECT else ""
    for note in (hint, *opened.notes):
        if note:
            screen.note(f"mainstay: {note}")
    return exit_for(answer.verdict)
