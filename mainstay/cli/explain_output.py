"""How the explaining commands print answers, and their options `-o` and `--since`.

Each answer is a value with `as_object()` for programs; the lines for people come from explain/.
"""

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import click

from mainstay.cli.cluster_access import Screen
from mainstay.cli.exits import Exit
from mainstay.cli.output import Output, OutputFormat, OutputType

if TYPE_CHECKING:
    from mainstay.explain.moment import Moment
    from mainstay.explain.why.answer import Verdict

F = TypeVar("F", bound=Callable[..., Any])

# Users who may write objects must not control the terminals of users who read them.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class PrintableAnswer(Protocol):
    def as_object(self) -> dict[str, Any]:
        """Render the answer for JSON and YAML."""


def answer_option(wide: str) -> Callable[[F], F]:
    """`-o wide|json|yaml`; `wide` is what wide output adds, in 26 characters."""
    return click.option(
        "-o",
        "--output",
        type=OutputType(OutputFormat.WIDE, OutputFormat.JSON, OutputFormat.YAML),
        default=Output(),
        metavar="FORMAT",
        help=f"json, yaml, wide ({wide})",
    )


def since_option() -> Callable[[F], F]:
    return click.option("--since", default="", metavar="TIME", help="Start at a time (RFC 3339) or 10m ago")


def exit_for(verdict: "Verdict") -> Exit:
    """Choose the exit code for what `why` or `plan` found."""
    from mainstay.explain.why.answer import Verdict

    return {
        Verdict.SATISFIED: Exit.SATISFIED,
        Verdict.WAITING: Exit.WAITING,
        Verdict.BLOCKED: Exit.BLOCKED,
        Verdict.INCOMPLETE: Exit.INCOMPLETE,
    }[verdict]


def parse_since(moment: "Moment", text: str) -> datetime | None:
    """Parse `--since`: a time, or a duration before the moment. Raises `click.UsageError`."""
    from mainstay.api import times

    if not text:
        return None
    try:
        return moment.at - times.parse_duration(text)
    except ValueError:
        pass
    try:
        return times.parse_time(text)
    except ValueError:
        raise click.UsageError(f"--since must be a time (RFC 3339) or a duration (10m), not {text!r}") from None


def show_answer(
    screen: Screen, answer: PrintableAnswer, output: Output, lines: Callable[[bool], Iterable[str]]
) -> None:
    """Print an answer in its output format. `lines` renders the text, wide or not."""
    match output.form:
        case OutputFormat.JSON:
            screen.say(json.dumps(answer.as_object(), indent=4, ensure_ascii=False))
        case OutputFormat.YAML:
            from mainstay.cli.yaml_text import yaml_text

            screen.say(yaml_text(answer.as_object()))
        case form:
            for line in lines(form is OutputFormat.WIDE):
                screen.say(escape_controls(line))


def escape_controls(text: str) -> str:
    return _CONTROL.sub(lambda found: f"^{chr((ord(found.group()) + 64) % 128)}", text)
