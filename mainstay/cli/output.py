"""The output formats: `-o wide|json|yaml|name|jsonpath=…`, as kubectl has them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mainstay.cli.cluster_access import Screen
from mainstay.cli.kinds import KnownKind

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.cli.jsonpath_template import Template

F = TypeVar("F", bound=Callable[..., Any])

_JSONPATH: Final = "jsonpath="


class OutputFormat(StrEnum):
    TABLE = ""
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    JSONPATH = "jsonpath"


@dataclass(frozen=True, slots=True)
class Output:
    form: OutputFormat = OutputFormat.TABLE
    template: "Template | None" = None

    @property
    def is_table(self) -> bool:
        return self.form in (OutputFormat.TABLE, OutputFormat.WIDE)


class OutputType(click.ParamType[Output]):
    """An `-o` option."""

    name = "output"

    def __init__(self, *forms: OutputFormat) -> None:
        self._forms = forms

    def convert(self, value: str | Output, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        if isinstance(value, Output):
            return value
        if value.startswith(_JSONPATH) and OutputFormat.JSONPATH in self._forms:
            from mainstay.cli.jsonpath_template import BadTemplate, compile_template

            try:
                return Output(OutputFormat.JSONPATH, compile_template(value.removeprefix(_JSONPATH)))
            except BadTemplate as error:
                self.fail(str(error), param, ctx)
        if value in self._forms and value != OutputFormat.JSONPATH:
            return Output(OutputFormat(value))
        words = ["jsonpath=TEMPLATE" if form is OutputFormat.JSONPATH else str(form) for form in self._forms]
        return self.fail(f"{value!r} is not one of {', '.join(words)}", param, ctx)


def complete(kind: KnownKind, found: "Object", *, with_managers: bool = False) -> "Object":
    """Add what lists leave out to an object, and remove what only servers need."""
    metadata = {
        name: value for name, value in found.get("metadata", {}).items() if with_managers or name != "managedFields"
    }
    return {**found, "apiVersion": kind.name.group_version, "kind": kind.name.kind, "metadata": metadata}


def print_objects(
    screen: Screen, output: Output, found: "Sequence[tuple[KnownKind, Object]]", *, is_single: bool
) -> None:
    """Print objects in full: a single one as it is, several as a `List`."""
    if output.form is OutputFormat.NAME:
        for kind, each in found:
            screen.say(kind.shown(each["metadata"]["name"]))
        return
    whole: Any
    if is_single:
        if not found:
            return
        whole = found[0][1]
    else:
        whole = {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {"resourceVersion": ""},
            "items": [each for _, each in found],
        }
    match output.form:
        case OutputFormat.JSON:
            screen.say(json.dumps(whole, indent=4, ensure_ascii=False, sort_keys=True))
        case OutputFormat.YAML:
            from mainstay.cli.yaml_text import yaml_text

            screen.say(yaml_text(whole))
        case _:
            from mainstay.cli.jsonpath_template import BadTemplate

            assert output.template is not None
            try:
                screen.write(output.template.filled(whole).encode())
            except BadTemplate as error:
                raise click.ClickException(f"-o jsonpath: {error}") from None
