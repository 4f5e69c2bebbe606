"""How `timeline`, `debug`, `blame`, `coupling` and `diff` print what they have found, and how they are asked from when.

Each answer is a value with `as_object()` for programs; the lines for people are made beside it (explain/*_text.py).
"""

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

import click

from mainstay.api import times
from mainstay.cli.cluster_access import Screen
from mainstay.cli.output import Form, Output, OutputType
from mainstay.cli.yaml_text import yaml_text
from mainstay.explain.moment import Moment

F = TypeVar("F", bound=Callable[..., Any])

# Who may write objects must not be able to write on the terminals of those who look at them.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Answer(Protocol):
    def as_object(self) -> dict[str, Any]:
        """As JSON and YAML have it."""


def answer_option(wide: str) -> Callable[[F], F]:
    """`-o wide|json|yaml`; `wide` says what is more then."""
    return click.option(
        "-o",
        "--output",
        type=OutputType(Form.WIDE, Form.JSON, Form.YAML),
        default=Output(),
        metavar="FORM",
        help=f"wide: {wide}; json, yaml: the answer in full.",
    )


def since_option(what: str) -> Callable[[F], F]:
    return click.option(
        "--since", default="", metavar="TIME", help=f"{what}: 10m (before now, or before --at), 2026-11-16T05:49:00Z."
    )


def since_of(moment: Moment, text: str) -> datetime | None:
    """When that is. Raises `click.UsageError`."""
    if not text:
        return None
    try:
        return moment.at - times.parse_duration(text)
    except ValueError:
        pass
    try:
        return times.parse_time(text)
    except ValueError:
        raise click.UsageError(f"--since {text!r} is neither a length of time (10m) nor a time.") from None


def show_answer(screen: Screen, answer: Answer, output: Output, lines: Callable[[bool], Iterable[str]]) -> None:
    """Print an answer in the form that is wanted. `lines` makes the text, wide or not."""
    match output.form:
        case Form.JSON:
            screen.say(json.dumps(answer.as_object(), indent=4, ensure_ascii=False))
        case Form.YAML:
            screen.say(yaml_text(answer.as_object()))
        case form:
            for line in lines(form is Form.WIDE):
                screen.say(harmless(line))


def harmless(text: str) -> str:
    return _CONTROL.sub(lambda found: f"^{chr((ord(found.group()) + 64) % 128)}", text)
