"""Print objects as they were at a moment: `mainstay get … --at`, from the journal instead of the server.

Selection and printing are those of the present (object_printer.py); only the source of objects and tables differs. The
tables are those that a server would have made then, with the ages of that moment.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from mainstay.api import fields, labels
from mainstay.api.errors import StatusError
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_names import DEFINITIONS
from mainstay.api.kinds import BUILTIN
from mainstay.api.tables import Table, custom_table
from mainstay.cli.cluster_access import Screen
from mainstay.cli.kinds import KindSelection, KnownKind
from mainstay.cli.object_printer import ObjectPrinter, Printer, TablePrinter
from mainstay.cli.object_selection import GetOptions
from mainstay.explain.moment import Moment

_KINDS: Final[dict[tuple[str, str], Kind]] = {(kind.group, kind.kind): kind for kind in BUILTIN}
SECRETS: Final = "secrets"


class BadSelector(Exception):
    """A selector that cannot be parsed, or that the kind does not support. The message says why."""


class _PastPrinter(Printer):
    """Reads objects from the journal."""

    def __init__(self, moment: Moment, screen: Screen, options: GetOptions) -> None:
        # There is no client: every method that would call one is overridden, and `get` rejects -w with --at.
        super().__init__(None, screen, options)  # type: ignore[arg-type]
        self._moment = moment

    async def named(self, selected: KindSelection, **headers: str) -> AsyncIterator[Any]:
        namespace = self.options.selection.namespace_for(selected.kind.name)
        for name in selected.names:
            found = await self._moment.get(selected.kind.name, name, namespace)
            if found is None:
                if not self.options.ignore_not_found:
                    self.screen.note(
                        f'mainstay: {selected.kind.name.text} "{name}" not found at revision {self._moment.revision}; '
                        f"`mainstay timeline {selected.kind.singular}/{name}` shows when it existed"
                    )
                yield None
            else:
                self._warn(selected.kind)
                yield await self._form(selected.kind, [found], is_single=True)

    async def pages(self, selected: KindSelection, **headers: str) -> AsyncIterator[Any]:
        self._warn(selected.kind)
        kind, selection = selected.kind.name, self.options.selection
        namespace = selection.namespace_for(kind)
        matches = build_filter(selected.kind, selection.labels, selection.fields)
        found = [
            each
            for each in await self._moment.all(kind)
            if (not namespace or each["metadata"].get("namespace") == namespace) and matches(each)
        ]
        yield await self._form(selected.kind, found, is_single=False)

    async def _form(self, kind: KnownKind, found: list[Object], *, is_single: bool) -> Any:
        raise NotImplementedError

    def _warn(self, kind: KnownKind) -> None:
        if kind.name.text == SECRETS:
            self.screen.note("mainstay: the journal does not contain the values of Secrets")


class PastObjectPrinter(_PastPrinter, ObjectPrinter):
    async def _form(self, kind: KnownKind, found: list[Object], *, is_single: bool) -> Any:
        return found[0] if is_single else {"items": found}


class PastTablePrinter(_PastPrinter, TablePrinter):
    def __init__(self, moment: Moment, screen: Screen, options: GetOptions) -> None:
        TablePrinter.__init__(self, None, screen, options)  # type: ignore[arg-type]
        self._moment = moment

    async def _form(self, kind: KnownKind, found: list[Object], *, is_single: bool) -> Any:
        table = await self._table(kind)
        columns = [{"name": column.name, "priority": column.priority} for column in table.columns]
        rows = [{"cells": table.cells(each, self._moment.at), "object": each} for each in found]
        return {"columnDefinitions": columns, "rows": rows, "metadata": {}}

    async def _table(self, kind: KnownKind) -> Table:
        built_in = _KINDS.get((kind.name.group, kind.name.kind))
        if built_in is not None and built_in.cells is not None:
            return Table(built_in.columns, built_in.cells)
        for definition in await self._moment.all(DEFINITIONS):
            spec = definition.get("spec") or {}
            if (spec.get("group"), (spec.get("names") or {}).get("kind")) == (kind.name.group, kind.name.kind):
                for version in spec.get("versions") or ():
                    if version.get("name") == kind.name.version:
                        return custom_table(version.get("additionalPrinterColumns") or ())
        return custom_table(())


def build_filter(kind: KnownKind, label_text: str, field_text: str) -> Callable[[Object], bool]:
    """Build the filter of label and field selectors. Raises `BadSelector`."""
    built_in = _KINDS.get((kind.name.group, kind.name.kind))
    selectable = built_in.selectable if built_in is not None else {}
    try:
        by_label = labels.parse(label_text) if label_text else None
        by_field = fields.parse(field_text) if field_text else None
        if by_field is not None:
            fields.check_supported(by_field, selectable)
    except StatusError as error:
        raise BadSelector(str(error)) from None

    def matches(obj: Object) -> bool:
        metadata = obj["metadata"]

        def read_field(field: str) -> str:
            if field in fields.ALWAYS_SUPPORTED:
                return str(metadata.get(field.removeprefix("metadata.")) or "")
            return (selectable or {})[field](obj)

        if by_label is not None and not by_label.matches(metadata.get("labels") or {}):
            return False
        return by_field is None or by_field.matches(read_field)

    return matches
