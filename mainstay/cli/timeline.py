"""`mainstay timeline`: what happened to an object, across all controllers, and what led to what."""

from collections.abc import Sequence

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, show_answer, since_of, since_option
from mainstay.cli.journal_access import Opened, Source, explain, explain_options, nothing_known, object_argument
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output
from mainstay.explain.story.text import story_text
from mainstay.explain.story.timeline import NothingKnown
from mainstay.explain.story.timeline import timeline as told


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("everything that happened, with revisions, decisions and views")
@click.option(
    "--generation",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="From the write that made this generation until it was complete. Of a pod: that of its workload.",
)
@since_option("Only what happened since")
@explain_options
def timeline(
    words: tuple[str, ...], namespace: str, output: Output, generation: int | None, since: str, source: Source
) -> int:
    """Tell the story of an object: who wrote what, who decided what on which picture, what led to what.

    \b
        mainstay timeline deploy/web                   it, its ReplicaSets, its pods, what mattered to them
        mainstay timeline deploy/web --generation 42   one rollout
        mainstay timeline pod/web-1 --since 10m
        mainstay timeline pod/web-1 -o wide            with all that is usual, too

    Times count from the first line. A number in brackets is a line's own; after an arrow stand those that led to it,
    and "(verified)" means that without it the outcome would have been another: that was tried. "@" is a revision: what
    the cluster was like then is `mainstay get … --at REVISION`.

    \b
    Exit codes: 0 all of it is there, 1 error, 4 something is missing, which the last lines say.
    """
    return explain(
        source,
        lambda opened, screen: show_timeline(opened, screen, words, namespace, output, generation or 0, since),
    )


async def show_timeline(
    opened: Opened,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    generation: int = 0,
    since: str = "",
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    asked = opened.object(words, namespace)
    moment = await opened.moment()
    if generation and since:
        raise click.UsageError("--generation and --since do not go together: leave out one of them.")
    try:
        story = await told(
            moment, asked.kind, asked.name, asked.namespace, generation=generation, since=since_of(moment, since)
        )
    except NothingKnown as error:
        raise await nothing_known(error, moment, asked) from None
    show_answer(screen, story, output or Output(), lambda is_wide: story_text(story, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return Exit.SATISFIED if story.is_complete else Exit.INCOMPLETE
