"""`mainstay timeline`: show what happened to an object, across all controllers, with causes."""

from collections.abc import Sequence

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option, parse_since, show_answer, since_option
from mainstay.cli.journal_access import (
    JournalChoice,
    OpenJournal,
    explain,
    explain_options,
    not_found_error,
    object_argument,
)
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output


@click.command(cls=Command)
@object_argument
@namespace_option
@answer_option("all records, decisions")
@click.option(
    "--generation", type=click.IntRange(min=1), default=None, metavar="N", help="Show the rollout of this generation"
)
@since_option()
@explain_options
def timeline(
    words: tuple[str, ...], namespace: str, output: Output, generation: int | None, since: str, source: JournalChoice
) -> int:
    """Show what happened to an object.

    \b
        mainstay timeline deploy/web                   with its ReplicaSets and pods
        mainstay timeline deploy/web --generation 42   one rollout
        mainstay timeline pod/web-1 --since 10m
        mainstay timeline pod/web-1 -o wide            routine records too

    Shows who wrote what, which component decided what from which view, and what caused what. Times count from the first
    line. Each line has a number in brackets; the numbers after an arrow are its causes. "(verified)" means that a
    replay without this cause had another outcome. "@" is a revision: `mainstay get … --at REVISION` shows the cluster
    at that time. --generation of a pod is that of its workload.

    \b
    Exit codes: 0 complete, 1 error, 4 incomplete (the last lines say what is missing)
    """
    return explain(
        source,
        lambda opened, screen: show_timeline(opened, screen, words, namespace, output, generation or 0, since),
    )


async def show_timeline(
    opened: OpenJournal,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    generation: int = 0,
    since: str = "",
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.story.text import story_text
    from mainstay.explain.story.timeline import NothingKnown
    from mainstay.explain.story.timeline import timeline as build_story
    from mainstay.registry import REGISTRY

    asked = opened.object(words, namespace)
    moment = await opened.moment()
    if generation and since:
        raise click.UsageError("--generation and --since exclude each other: remove one")
    try:
        story = await build_story(
            moment,
            REGISTRY,
            asked.kind,
            asked.name,
            asked.namespace,
            generation=generation,
            since=parse_since(moment, since),
        )
    except NothingKnown as error:
        raise await not_found_error(error, moment, asked) from None
    show_answer(screen, story, output or Output(), lambda is_wide: story_text(story, is_wide=is_wide))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return Exit.SATISFIED if story.is_complete else Exit.INCOMPLETE
