"""Print objects and their changes: as rows of a table, or in full.

Lists are read page by page, and a watch continues from there. The server makes the tables: columns and cells are
printed as they come, so every kind has its own, also one that a user defined.
"""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.tables.texts import labels as labels_text
from mainstay.cli.cluster_access import Screen, describe_error
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import KindSelection, KnownKind
from mainstay.cli.object_selection import GetOptions
from mainstay.cli.output import OutputFormat, complete, print_objects
from mainstay.cli.table_text import TableText
from mainstay.client.client import Client
from mainstay.client.errors import Expired, NotFound, Unavailable
from mainstay.env import tasks

_AS_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PAGE: Final = 500
_WATCH_AGAIN_MAX: Final = 5
_WATCH_AGAIN_AFTER: Final = timedelta(seconds=1)


class Printer:
    """What printing tables and printing objects share."""

    def __init__(self, client: Client, screen: Screen, options: GetOptions) -> None:
        self.client = client
        self.screen = screen
        self.options = options
        self.revision = ""
        """The revision of what was printed. The watch starts there."""

    async def show(self, selected: Sequence[KindSelection]) -> int:
        raise NotImplementedError

    def changed(self, kind: KnownKind, found: Any) -> None:
        raise NotImplementedError

    async def follow(self, selected: KindSelection) -> int:
        """Print changes until interrupted."""
        accept = _AS_TABLE if self.options.output.is_table else ""
        selection = self.options.selection
        fields = f"metadata.name={selected.names[0]}" if selected.names else selection.fields
        failures = 0
        while True:
            watch = self.client.watch(
                selected.kind.name,
                selection.namespace_for(selected.kind.name),
                resource_version=self.revision,
                labels=selection.labels,
                fields=fields,
                accept=accept,
            )
            try:
                async with watch:
                    async for event in watch:
                        failures = 0
                        self._take(selected.kind, event.type, msgspec.json.decode(event.object))
                # Servers end watches now and then. Do not hammer one that ends them at once.
                await tasks.sleep(_WATCH_AGAIN_AFTER)
            except Expired:
                self.screen.note("mainstay: the watch has expired: run the command again")
                return Exit.INCOMPLETE
            except Unavailable as error:
                failures += 1
                if failures > _WATCH_AGAIN_MAX:
                    self.screen.note(f"mainstay: {describe_error(error, self.client.config)}")
                    return Exit.INCOMPLETE
                await tasks.sleep(_WATCH_AGAIN_AFTER)

    def _take(self, kind: KnownKind, event: str, found: Any) -> None:
        revision = found.get("metadata", {}).get("resourceVersion")
        for row in found.get("rows") or ():
            revision = row.get("object", {}).get("metadata", {}).get("resourceVersion") or revision
        self.revision = revision or self.revision
        if event != "BOOKMARK":
            self.changed(kind, found)

    async def named(self, selected: KindSelection, **headers: str) -> AsyncIterator[Any]:
        """Read the objects of these names, or tables of one row. A missing object is `None`, after a note."""
        kind = selected.kind.name
        for name in selected.names:
            path = kind.path(self.options.selection.namespace_for(kind), name)
            try:
                answer = await self.client.request("GET", path, headers=headers)
            except NotFound as error:
                if not self.options.ignore_not_found:
                    self.screen.note(f"mainstay: {error}")
                yield None
            else:
                yield msgspec.json.decode(answer.body)

    async def pages(self, selected: KindSelection, **headers: str) -> AsyncIterator[Any]:
        """Read all selected objects: lists, or tables of many rows."""
        kind, selection = selected.kind.name, self.options.selection
        query = [("limit", str(_PAGE))]
        if selection.labels:
            query.append(("labelSelector", selection.labels))
        if selection.fields:
            query.append(("fieldSelector", selection.fields))
        more = ""
        while True:
            page = [*query, ("continue", more)] if more else query
            path = kind.path(selection.namespace_for(kind))
            answer = await self.client.request("GET", path, query=page, headers=headers)
            listed = msgspec.json.decode(answer.body)
            metadata = listed.get("metadata") or {}
            self.revision = metadata.get("resourceVersion") or self.revision
            yield listed
            more = metadata.get("continue") or ""
            if not more:
                return

    def missing(self, is_missing: bool) -> int:
        return Exit.ERROR if is_missing and not self.options.ignore_not_found else Exit.SATISFIED


class ObjectPrinter(Printer):
    async def show(self, selected: Sequence[KindSelection]) -> int:
        found: list[tuple[KnownKind, Object]] = []
        is_missing = False
        for each in selected:
            if each.names:
                async for one in self.named(each):
                    is_missing = is_missing or one is None
                    if one is not None:
                        found.append((each.kind, self._complete(each.kind, one)))
                        self.revision = one["metadata"].get("resourceVersion", "")
            else:
                async for page in self.pages(each):
                    found += [(each.kind, self._complete(each.kind, one)) for one in page.get("items") or ()]
        is_single = len(selected) == 1 and len(selected[0].names) == 1
        if self.options.watch:
            for kind, one in () if self.options.watch_only else found:
                self._print(kind, one)
        elif found or not is_missing:
            print_objects(self.screen, self.options.output, found, is_single=is_single)
        return self.missing(is_missing)

    def changed(self, kind: KnownKind, found: Any) -> None:
        self._print(kind, self._complete(kind, found))

    def _complete(self, kind: KnownKind, found: Object) -> Object:
        return complete(kind, found, with_managers=self.options.show_managed_fields)

    def _print(self, kind: KnownKind, found: Object) -> None:
        if self.options.output.form is OutputFormat.YAML:
            self.screen.say("---")
        print_objects(self.screen, self.options.output, [(kind, found)], is_single=True)


class TablePrinter(Printer):
    def __init__(self, client: Client, screen: Screen, options: GetOptions) -> None:
        super().__init__(client, screen, options)
        self._text: TableText | None = None
        """None until the columns are known."""
        self._shown: list[int] = []
        """The places of the columns to print."""
        self._needs_titles = not options.no_headers
        self._with_kind = False

    async def show(self, selected: Sequence[KindSelection]) -> int:
        self._with_kind = len(selected) > 1
        is_missing = is_any = False
        for each in selected:
            columns: list[Object] = []
            rows: list[Object] = []
            tables = self.named(each, Accept=_AS_TABLE) if each.names else self.pages(each, Accept=_AS_TABLE)
            async for table in tables:
                if table is None:
                    is_missing = True
                    continue
                columns = columns or table.get("columnDefinitions") or []
                rows += table.get("rows") or ()
                if each.names:
                    self.revision = table.get("metadata", {}).get("resourceVersion", "")
            self._begin(each.kind, columns)
            if not rows or self.options.watch_only:
                continue
            if is_any:
                self.screen.say("")
            is_any = True
            self._print(each.kind, rows)
        if not is_any and not is_missing and not self.options.watch and not self.options.ignore_not_found:
            self._say_nothing_found(selected)
        return self.missing(is_missing)

    def changed(self, kind: KnownKind, found: Any) -> None:
        if self._text is None:
            self._begin(kind, found.get("columnDefinitions") or [])
        self._print(kind, found.get("rows") or [])

    def _begin(self, kind: KnownKind, columns: list[Object]) -> None:
        self._text = None
        self._needs_titles = not self.options.no_headers
        if not columns:
            return
        is_wide = self.options.output.form is OutputFormat.WIDE
        self._shown = [place for place, each in enumerate(columns) if is_wide or not each.get("priority")]
        titles = [columns[place]["name"] for place in self._shown]
        if self._has_namespaces(kind):
            titles.insert(0, "Namespace")
        titles += [label.rpartition("/")[2] for label in self.options.label_columns]
        if self.options.show_labels:
            titles.append("Labels")
        self._text = TableText(titles, is_coloured=self.screen.is_coloured)

    def _print(self, kind: KnownKind, rows: Sequence[Object]) -> None:
        assert self._text is not None
        for line in self._text.lines([self._row(kind, row) for row in rows], with_titles=self._needs_titles):
            self.screen.say(line)
        self._needs_titles = False

    def _row(self, kind: KnownKind, row: Object) -> list[Any]:
        metadata = (row.get("object") or {}).get("metadata") or {}
        cells = [row["cells"][place] for place in self._shown]
        if self._with_kind:
            cells[0] = kind.shown(str(cells[0]))
        if self._has_namespaces(kind):
            cells.insert(0, metadata.get("namespace", ""))
        labels = metadata.get("labels") or {}
        cells += [labels.get(label, "") for label in self.options.label_columns]
        if self.options.show_labels:
            cells.append(labels_text(labels))
        return cells

    def _has_namespaces(self, kind: KnownKind) -> bool:
        return self.options.selection.is_everywhere and kind.name.namespaced

    def _say_nothing_found(self, selected: Sequence[KindSelection]) -> None:
        namespace = self.options.selection.namespace
        is_in_one = namespace and any(each.kind.name.namespaced for each in selected)
        self.screen.note(f"No resources found in {namespace} namespace." if is_in_one else "No resources found")
