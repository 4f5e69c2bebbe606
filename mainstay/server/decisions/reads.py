"""Decisions as objects: get, list and watch, from the journal and not from the store.

    kubectl get decisions -A --field-selector subject.kind=Pod,subject.name=web-1
    kubectl get decisions -n shop --field-selector outcome=Refused -w

A list has the latest, newest first, and no more than `limit`: a journal has millions, and who wants to see all of them
asks for its pages (pages.py). So there is no next page; a client that is given fewer than there are is warned. What a
reader may not see is left out (redaction.py).

`DecisionReads` stands in for server/storage/reads.py, and for the store of a watch (server/watch/session.py).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from mainstay.api import fields, labels
from mainstay.api.errors import StatusError, not_found
from mainstay.api.fields import FieldSelector, FieldTerm
from mainstay.api.kind import Kind
from mainstay.api.kinds import BUILTIN
from mainstay.api.kinds.decisions import DECISION, NAMESPACE
from mainstay.env import Clock
from mainstay.journal import wire
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.record import DecisionRecord, moment
from mainstay.server.auth.authorization import Authorizer, User
from mainstay.server.decisions.journal import ServerJournal, unreachable
from mainstay.server.decisions.objects import KIND_BY_TEXT, TEXTS_BY_KIND, find_namespace, rendered
from mainstay.server.decisions.redaction import MayGet, find_rights, redacted
from mainstay.server.request.representation import ResponseForm
from mainstay.server.request.target import Options, RequestTarget
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.storage.reads import Listed
from mainstay.server.storage.selection import Selection, parse_selection
from mainstay.server.storage.stored import stored
from mainstay.server.watch.session import Outgoing, Watching
from mainstay.store.interface import Entry, RangePage

LISTED: Final = 500  # Where nothing is said. kubectl asks for as many at a time.
LISTED_MAX: Final = 10_000
LOOKED_AT_ONCE: Final = 2_000  # Of which some are then left out.
LOOKED_AT_MAX: Final = 40_000

_decode = msgspec.json.Decoder().decode
_NAMESPACED: Final = {kind.reference.text: kind.namespaced for kind in BUILTIN}
_KIND_BY_WORD: Final = {
    word.lower(): kind.kind
    for kind in reversed(BUILTIN)
    for word in (kind.kind, kind.plural, kind.singular, kind.reference.text, *kind.short_names)
}


def journal_off() -> StatusError:
    text = "this server has no journal, and so no decisions: see `mainstay server --journal`"
    return StatusError(404, wire.OFF, text, {})


def decision_selection(target: RequestTarget, options: Options) -> Selection:
    """What is asked for. A kind may be named like on the command line: `Pod`, `pods`, `po`. Raises `StatusError`."""
    text = options.get("fieldSelector")
    if not text.strip():
        return parse_selection(target, options)
    terms = [
        FieldTerm(term.field, _KIND_BY_WORD.get(term.value.lower(), term.value), term.is_equal)
        if term.field == "subject.kind"
        else term
        for term in fields.parse(text).terms
    ]
    return parse_selection(target, options, field_text=str(FieldSelector(tuple(terms))))


class DecisionReads:
    """For one server. Without a journal there is nothing to read, and clients are told so."""

    def __init__(self, journal: ServerJournal | None, authorizer: Authorizer, clock: Clock, jitter: Random) -> None:
        self._journal = journal
        self._authorizer = authorizer
        self._watching = None if journal is None else Watching(_Latest(journal), journal.feed, clock, jitter)

    async def stop(self) -> None:
        if self._watching is not None:
            await self._watching.stop()

    def seen_by(self, user: User) -> "SeenDecisions":
        """What this reader is shown of them. Raises `StatusError` (404)."""
        if self._journal is None:
            raise journal_off()
        return SeenDecisions(self._journal, find_rights(user, self._authorizer))

    def watch(
        self, user: User, selection: Selection, form: ResponseForm, options: Options
    ) -> Callable[[Outgoing], Awaitable[None]]:
        """What runs the stream of a watch. Raises `StatusError`."""
        if self._watching is None:
            raise journal_off()
        may_get = find_rights(user, self._authorizer)
        if may_get is not None:
            selection = replace(selection, reader=f"{user.name} {user.groups}", shown=partial(_shown, may_get))
        return self._watching.open(selection, form, options)


class SeenDecisions:
    """What one reader sees."""

    def __init__(self, journal: ServerJournal, may_get: MayGet | None) -> None:
        self._journal = journal
        self._may_get = may_get

    async def get(self, kind: Kind, namespace: str, name: str, options: Options) -> Entry:
        """Raises `StatusError` (404), also if it is one that the reader may not see."""
        await self._journal.catch_up()
        try:
            record = await self._journal.journal.decision(name)
        except JournalUnreachable as error:
            raise unreachable(error) from None
        entry = None if record is None or find_namespace(record) != namespace else self._entry(record)
        if entry is None:
            raise not_found(kind.plural, kind.group, name)
        return entry

    async def list(self, selection: Selection, options: Options) -> Listed:
        """The latest of those that are selected, newest first."""
        wanted = min(options.number("limit") or LISTED, LISTED_MAX)
        revision = self._journal.feed.revision
        await self._journal.catch_up()
        entries: list[Entry] = []
        warnings: tuple[str, ...] = ()
        silent: dict[str, None] = {}
        async for record in _selected(self._journal, selection, wanted + 1, silent):
            if record is None:
                warnings = (f"only the latest {LOOKED_AT_MAX} decisions were looked at: select by object to see older",)
            elif len(entries) >= wanted:
                warnings = (f"only the latest {wanted} decisions are shown: select fewer to see older ones",)
                break
            elif (entry := self._entry(record)) is not None:
                entries.append(entry)
        return Listed(entries, {"resourceVersion": str(revision)}, (*warnings, *silent))

    def _entry(self, record: DecisionRecord) -> Entry | None:
        entry = rendered(record, record.at)
        return entry if self._may_get is None else _shown(self._may_get, entry)


class _Latest:
    """What a watch takes for a store: the latest decisions, in the order in which they were made."""

    def __init__(self, journal: ServerJournal) -> None:
        self._journal = journal

    async def revision(self) -> int:
        return self._journal.feed.revision

    async def range(self, prefix: str) -> RangePage:
        revision = self._journal.feed.revision
        await self._journal.catch_up()
        selection = Selection(DECISION, prefix, "", "", None)
        records = [each async for each in _selected(self._journal, selection, LISTED, {}) if each is not None]
        return RangePage([rendered(each, each.at) for each in reversed(records)], revision, 0)


def _shown(may_get: MayGet, entry: Entry) -> Entry | None:
    found = redacted(_decode(entry.value), may_get)
    return None if found is None else Entry(entry.key, stored(found), entry.created, entry.revision, entry.version)


async def _selected(
    served: ServerJournal, selection: Selection, wanted: int, silent: dict[str, None]
) -> AsyncIterator[DecisionRecord | None]:
    """What is selected, newest first; None in the end if there may be more that was not looked at. Notes which servers
    gave no answer. Raises `StatusError` (424) if only such a one can know."""
    if selection.label_text.strip() and not labels.parse(selection.label_text).matches({}):
        return  # They have no labels.
    selector = fields.parse(selection.field_text) if selection.field_text.strip() else fields.EVERYTHING
    place = selection.prefix.removeprefix(build_prefix(DECISION))
    namespace, _, name = place.partition("/")
    name = name or selector.required_value("metadata.name") or ""
    if name:
        try:
            record = await served.journal.decision(name)
        except JournalUnreachable as error:
            raise unreachable(error) from None
        if record is not None and _is_in(record, namespace) and selector.matches(partial(_field, record)):
            yield record
        return
    asked = _asked(selector, namespace)
    at_once = max(LOOKED_AT_ONCE, wanted)
    looked_at: set[str] = set()
    before: datetime | None = None
    while len(looked_at) < LOOKED_AT_MAX:
        page = await served.journal.decisions(**asked, before=before, limit=at_once)
        silent.update((str(each), None) for each in page.damages if each.is_server)
        new = [each for each in reversed(page.records) if each.id not in looked_at]
        for record in new:
            looked_at.add(record.id)
            if _is_in(record, namespace) and selector.matches(partial(_field, record)):
                yield record
        if len(page.records) < at_once or not new:
            return
        # Of the same moment there may be others that this page had no room for.
        before = moment(page.records[0].at + 1)
    yield None


def _asked(selector: FieldSelector, namespace: str) -> dict[str, Any]:
    """What the journal itself can look for: it has an index for objects."""
    asked: dict[str, Any] = {}
    for field, name in _ASKED.items():
        if (value := selector.required_value(field)) is not None:
            asked[name] = value
    kind = selector.required_value("subject.kind")
    if kind:
        texts = TEXTS_BY_KIND.get(kind, (kind,))
        if len(texts) == 1:
            asked["kind"] = texts[0]
    if "namespace" not in asked and namespace:
        is_namespaced = _NAMESPACED.get(asked.get("kind", ""))
        if namespace != NAMESPACE or is_namespaced:
            asked["namespace"] = namespace
        elif is_namespaced is False:
            asked["namespace"] = ""
    return asked


_ASKED: Final = {
    "subject.name": "name",
    "subject.namespace": "namespace",
    "subject.uid": "uid",
    "component": "component",
}


def _is_in(record: DecisionRecord, namespace: str) -> bool:
    return not namespace or find_namespace(record) == namespace


def _field(record: DecisionRecord, field: str) -> str:
    """What a field selector looks at, without making an object of the record. As `DECISION.selectable` has it."""
    subject = record.subject
    match field:
        case "metadata.name":
            return record.id
        case "metadata.namespace":
            return find_namespace(record)
        case "subject.kind":
            return KIND_BY_TEXT.get(subject.kind, subject.kind)
        case "subject.name":
            return subject.name
        case "subject.namespace":
            return subject.namespace
        case "subject.uid":
            return subject.uid
        case "component":
            return record.component
        case "outcome":
            return str(record.outcome.ending)
        case "reason":
            return record.outcome.reason
        case other:
            raise AssertionError(f"{other} is not a selectable field")
