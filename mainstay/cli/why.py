"""`mainstay why`: why an object is not as it should be, in one sentence; and how that is known.

Also `kubectl why`, if `kubectl-why` is on the path: kubectl takes it for its own.
"""

import json
from collections.abc import Sequence

import click

from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import Opened, Source, elsewhere, explain, explain_options, object_argument
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Form, Output, OutputType
from mainstay.cli.yaml_text import yaml_text
from mainstay.explain.why.answer import Answer, Verdict
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why as asked_why
from mainstay.explain.why.text import text_of

EXITS = {
    Verdict.SATISFIED: Exit.SATISFIED,
    Verdict.WAITING: Exit.WAITING,
    Verdict.BLOCKED: Exit.BLOCKED,
    Verdict.INCOMPLETE: Exit.INCOMPLETE,
}


@click.command(cls=Command)
@object_argument
@namespace_option
@click.option(
    "-o",
    "--output",
    type=OutputType(Form.WIDE, Form.JSON, Form.YAML),
    default=Output(),
    metavar="FORM",
    help="wide: every node and all evidence; json, yaml: the answer in full.",
)
@click.option("--generation", type=int, default=None, metavar="N", help="What became of this generation of it.")
@explain_options
def why(words: tuple[str, ...], namespace: str, output: Output, generation: int | None, source: Source) -> int:
    """Say why an object is not as it should be, or what became of it.

    \b
        mainstay why pod/web-1                 why has it no node, or is not ready?
        mainstay why deploy/web                why is the rollout stuck?
        mainstay why job/report -n batch       why has it failed?
        mainstay why node/n1                   why does it take no pods?
        mainstay why pod/web-1 --at 10m        and ten minutes ago?

    The first line is the cause; then comes the way to it, link by link, each with the decision or the revision that it
    is known from. Also of objects that are gone, or that the server has refused.

    \b
    Exit code:
        0  it is as it should be           3  it waits for what may come by itself
        1  there was an error              4  the records that would say why are missing
        2  somebody has to change something
    """
    return explain(source, lambda opened, screen: show_why(opened, screen, words, namespace, output, generation))


async def show_why(
    opened: Opened,
    screen: Screen,
    words: Sequence[str],
    namespace: str = "",
    output: Output | None = None,
    generation: int | None = None,
) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    asked = opened.object(words, namespace)
    moment = await opened.moment()
    answer = await asked_why(moment, asked.kind, asked.name, asked.namespace, generation)
    _show(screen, answer, output or Output())
    hint = await elsewhere(moment, asked) if answer.cause is Cause.NO_SUCH_OBJECT else ""
    for note in (hint, *opened.notes):
        if note:
            screen.note(f"mainstay: {note}")
    return exit_of(answer)


def exit_of(answer: Answer) -> Exit:
    return EXITS[answer.verdict]


def _show(screen: Screen, answer: Answer, output: Output) -> None:
    match output.form:
        case Form.JSON:
            screen.say(json.dumps(answer.as_object(), indent=4, ensure_ascii=False))
        case Form.YAML:
            screen.say(yaml_text(answer.as_object()))
        case form:
            screen.say(text_of(answer, wide=form is Form.WIDE))
