"""Showing objects, and what changes about them: as rows of a table, or whole.

What is asked for comes page by page, and a watch goes on from there. Tables are the server's: columns and cells are
printed as they come, so every kind shows what is worth showing of it, also one that a user has defined.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.tables.texts import labels as labels_text
from mainstay.cli.cluster_access import Screen, explained
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import Asked, KnownKind
from mainstay.cli.object_selection import Selection
from mainstay.cli.output import Form, Output, complete, print_objects
from mainstay.cli.table_text import TableText
from mainstay.client.client import Client
from mainstay.client.errors import Expired, NotFound, Unavailable
from mainstay.env import tasks

_AS_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
_PAGE: Final = 500
_WATCH_AGAIN_MAX: Final = 5
_WATCH_AGAIN_AFTER: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOptions:
    """What is shown, of which objects."""

    selection: Selection = field(default_factory=Selection)
    output: Output = field(default_factory=Output)
    watch: bool = False
    watch_only: bool = False
    no_headers: bool = False
    show_labels: bool = False
    label_columns: tuple[str, ...] = ()
    ignore_not_found: bool = False
    show_managed_fields: bool = False


class Showing:
    """What showing tables and showing objects have in common."""

    def __init__(self, client: Client, screen: Screen, options: GetOptions) -> None:
        self.client = client
        self.screen = screen
        self.options = options
        self.revision = ""
        """Of what was shown. Changes after it are still to come."""

    async def show(self, asked: Sequence[Asked]) -> int:
        raise NotImplementedError

    def changed(self, kind: KnownKind, found: Any) -> None:
        raise NotImplementedError

    async def follow(self, asked: Asked) -> int:
        """Show changes until interrupted."""
        accept = _AS_TABLE if self.options.output.is_table else ""
        selection = self.options.selection
        fields = f"metadata.name={asked.names[0]}" if asked.names else selection.fields
        failures = 0
        while True:
            watch = self.client.watch(
                asked.kind.name,
                selection.of(asked.kind.name.namespaced),
                resource_version=self.revision,
                labels=selection.labels,
                fields=fields,
                accept=accept,
            )
            try:
                async with watch:
                    async for event in watch:
                        failures = 0
                        self._take(asked.kind, event.type, msgspec.json.decode(event.object))
                # Servers end watches now and then. One that ends them all at once must not be asked all the time.
                await tasks.sleep(_WATCH_AGAIN_AFTER)
            except Expired:
                self.screen.note("mainstay: the changes since the last one shown are gone: run this again")
                return Exit.INCOMPLETE
            except Unavailable as error:
                failures += 1
                if failures > _WATCH_AGAIN_MAX:
                    self.screen.note(f"mainstay: {explained(error, self.client.config)}")
                    return Exit.INCOMPLETE
                await tasks.sleep(_WATCH_AGAIN_AFTER)

    def _take(self, kind: KnownKind, event: str, found: Any) -> None:
        revision = found.get("metadata", {}).get("resourceVersion")
        for row in found.get("rows") or ():
            revision = row.get("object", {}).get("metadata", {}).get("resourceVersion") or revision
        self.revision = revision or self.revision
        if event != "BOOKMARK":
            self.changed(kind, found)

    async def named(self, asked: Asked, **headers: str) -> AsyncIterator[Any]:
        """The objects of these names, or tables of one row. What is not there is `None`, after a note."""
        kind = asked.kind.name
        for name in asked.names:
            path = kind.path(self.options.selection.of(kind.namespaced), name)
            try:
                answer = await self.client.request("GET", path, headers=headers)
            except NotFound as error:
                if not self.options.ignore_not_found:
                    self.screen.note(f"mainstay: {error}")
                yield None
            else:
                yield msgspec.json.decode(answer.body)

    async def pages(self, asked: Asked, **headers: str) -> AsyncIterator[Any]:
        """All that are selected: lists, or tables of many rows."""
        kind, selection = asked.kind.name, self.options.selection
        query = [("limit", str(_PAGE))]
        if selection.labels:
            query.append(("labelSelector", selection.labels))
        if selection.fields:
            query.append(("fieldSelector", selection.fields))
        more = ""
        while True:
            page = [*query, ("continue", more)] if more else query
            path = kind.path(selection.of(kind.namespaced))
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


class Objects(Showing):
    async def show(self, asked: Sequence[Asked]) -> int:
        found: list[tuple[KnownKind, Object]] = []
        is_missing = False
        for each in asked:
            if each.names:
                async for one in self.named(each):
                    is_missing = is_missing or one is None
                    if one is not None:
                        found.append((each.kind, self._complete(each.kind, one)))
                        self.revision = one["metadata"].get("resourceVersion", "")
            else:
                async for page in self.pages(each):
                    found += [(each.kind, self._complete(each.kind, one)) for one in page.get("items") or ()]
        is_single = len(asked) == 1 and len(asked[0].names) == 1
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
        if self.options.output.form is Form.YAML:
            self.screen.say("---")
        print_objects(self.screen, self.options.output, [(kind, found)], is_single=True)


class Tables(Showing):
    def __init__(self, client: Client, screen: Screen, options: GetOptions) -> None:
        super().__init__(client, screen, options)
        self._text: TableText | None = None
        """None until it is known which columns there are."""
        self._shown: list[int] = []
        """Which of the columns are shown."""
        self._needs_titles = not options.no_headers
        self._with_kind = False

    async def show(self, asked: Sequence[Asked]) -> int:
        self._with_kind = len(asked) > 1
        is_missing = is_any = False
        for each in asked:
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
            self._say_nothing_found(asked)
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
        is_wide = self.options.output.form is Form.WIDE
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

    def _say_nothing_found(self, asked: Sequence[Asked]) -> None:
        namespace = self.options.selection.namespace
        is_in_one = namespace and any(each.kind.name.namespaced for each in asked)
        self.screen.note(f"No resources found in {namespace} namespace." if is_in_one else "No resources found")
