"""What a journal must tell of each write: its decision, with what it was made on, its cause, and its identifiers.

The checks of the scenario decision-paths, which says what they hold. They judge by the journal alone. `SampledJournal`
keeps of decisions what the rules of a SamplingPolicy say, and beside it what it was given.
"""

from typing import Any, Final

import msgspec

from mainstay.api.annotations import DECISION, TRACE
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import COMPONENT_STATES, EVENTS, LEASES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.explain.declared import Declared, find_declared
from mainstay.explain.moment import Moment
from mainstay.explain.placements import node_chosen
from mainstay.explain.story.timeline import timeline
from mainstay.journal.keys import build_key, parse_kind
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import ChangeRecord, DecisionRecord, Ending
from mainstay.journal.sampling import Sampler, parse_rules
from mainstay.journal.trace_id import derive_trace_id
from mainstay.registry import REGISTRY
from mainstay.sim.checkers import Violated

RULES: Final[dict[str, Any]] = {
    "rules": [
        {"name": "failures", "when": {"failures": True}},
        {"name": "noops", "when": {"noops": True}, "keep": "nothing"},
        {"name": "rest", "keep": "summary"},
    ]
}
BESIDE: Final = (EVENTS.text, LEASES.text, COMPONENT_STATES.text)
"""Which every component may write."""
_decode = msgspec.json.Decoder(Object).decode


class SampledJournal(MemoryJournal):
    """Keeps of decisions what the rules say, and beside it what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.sampler = Sampler(parse_rules(RULES))
        self.made: list[DecisionRecord] = []

    def decided(self, record: DecisionRecord) -> None:
        self.made.append(record)
        kept = self.sampler.sampled(record)
        if kept is not None:
            super().decided(kept)


async def require_paths(journal: SampledJournal) -> None:
    """Each write leads to its decision, and that to its view, its cause and what it declares; what failed is whole."""
    _require_sampled(journal)
    past = _Past((await journal.changes()).records)
    for change in past.changes:
        record = await journal.decision(change.decision)
        if parse_kind(change.key) == EVENTS.text:
            await _require_identified(journal, change)
        elif change.decision and record is None:
            raise Violated("decision path", f"{_name(change)} names {change.decision}, which is not recorded")
        elif record is not None:
            _require_declared(record, change)
            _require_caused(past, record, change)
        _require_path(past, record, change)


def _require_sampled(journal: SampledJournal) -> None:
    kept = {each.id: each for each in journal.records()}
    for record in journal.made:
        has_failed = record.outcome.ending in (Ending.RETRY, Ending.GIVE_UP, Ending.REFUSED)
        if has_failed or any(write.error for write in record.writes):
            found = kept.get(record.id)
            if found is None or msgspec.structs.replace(found, kept="") != record:
                raise Violated("sampling", f"{record.id} failed ({record.outcome.reason}), but is not kept in full")
    missing = sum(each.id not in kept for each in journal.made)
    counted = sum(each.records for each in journal.sampler.told())
    if missing != counted:
        raise Violated("sampling", f"{missing} decisions are left out, but {counted} are counted")


async def _require_identified(journal: SampledJournal, change: ChangeRecord) -> None:
    if change.value is None:
        return
    event = _decode(change.value)
    said: dict[str, str] = event["metadata"].get("annotations") or {}
    record = await journal.decision(said.get(DECISION, ""))
    if record is None:
        raise Violated("identifiers", f"{_name(change)} ({event['reason']}) names no decision that is recorded")
    named = (said.get(TRACE), event["involvedObject"].get("uid"), change.decision)
    expected = (derive_trace_id(record.id), record.subject.uid, record.id)
    if named != expected:
        raise Violated("identifiers", f"{_name(change)} is identified by {named}, its decision by {expected}")


async def require_links(journal: MemoryJournal, kind: KindName, key: ObjectKey) -> None:
    """The timeline of a workload tells what led to each of its pods."""
    story = await timeline(await Moment.now(journal), REGISTRY, kind, key.name, key.namespace)
    for line in story.lines:
        if line.about.kind == PODS.text and str(line.what) in ("created", "bound"):
            is_linked = any(0 < link.line < line.number for link in line.causes)
            if not (line.who.component and line.decision and is_linked):
                raise Violated("causes", f"the timeline does not tell what led to: {line.about.words} {line.text}")


class _Past:
    """The versions of all objects."""

    def __init__(self, changes: tuple[ChangeRecord, ...]) -> None:
        self.changes = changes
        self._values = {(each.key, each.revision): each.value for each in changes}
        self._before: dict[tuple[str, int], bytes | None] = {}
        latest: dict[str, bytes | None] = {}
        for each in changes:
            self._before[each.key, each.revision] = latest.get(each.key)
            latest[each.key] = each.value

    def get(self, key: str, revision: int) -> Object | None:
        value = self._values.get((key, revision))
        return None if value is None else _decode(value)

    def before(self, change: ChangeRecord) -> Object | None:
        value = self._before[change.key, change.revision]
        return None if value is None else _decode(value)


def _require_path(past: _Past, record: DecisionRecord | None, change: ChangeRecord) -> None:
    if change.value is None:
        return
    obj, kind = _decode(change.value), parse_kind(change.key)
    if record is not None and (late := [each for each in record.view if each.revision >= change.revision]):
        raise Violated("decision path", f"{_name(change)} was decided on a view that has seen it: {late}")
    before = past.before(change) or {"spec": {}}
    observed, was_observed = _observed(obj), _observed(before)
    is_own = record is not None and record.subject.kind == kind and record.subject.uid == obj["metadata"]["uid"]
    if record is not None and is_own and observed != was_observed and observed != record.subject.generation:
        text = f"{_name(change)} observes {observed}, its decision was about {record.subject.generation}"
        raise Violated("decision path", text)
    node = obj["spec"].get("nodeName", "") if kind == PODS.text else ""
    if not node or before["spec"].get("nodeName"):
        return
    if record is None or not is_own or node_chosen(record) != node:
        chosen = "no decision" if record is None else f"{record.id} about {record.subject.name}"
        raise Violated("decision path", f"{_name(change)} is bound to {node} by {chosen}")


def _observed(obj: Object) -> int:
    return int((obj.get("status") or {}).get("observedGeneration") or 0)


def _require_caused(past: _Past, record: DecisionRecord, change: ChangeRecord) -> None:
    subject = record.subject
    named, _, version = change.cause.rpartition("@")
    cause = past.get(build_key(subject.kind, subject.namespace, subject.name), int(version or 0))
    is_named = named == f"{subject.kind}/{subject.namespace}/{subject.name}" and int(version) < change.revision
    if not is_named or cause is None or cause["metadata"]["uid"] != subject.uid:
        raise Violated("causes", f"{_name(change)} follows from {change.cause!r}, which was not there before")
    if cause["metadata"].get("generation", 0) != subject.generation and subject.generation:
        raise Violated("decision path", f"{record.id} is about generation {subject.generation}, not that of its cause")


def _require_declared(record: DecisionRecord, change: ChangeRecord) -> None:
    declared = _find_declared(record.component)
    kind = parse_kind(change.key)
    if kind not in (*declared.writes, *BESIDE):
        raise Violated("coupling", f"{record.component} writes {kind}, which it does not declare")
    for seen in record.view:
        if seen.kind not in (*declared.reads, *BESIDE):
            raise Violated("coupling", f"{record.component} reads {seen.kind}, which it does not declare")


def _find_declared(component: str) -> Declared:
    found = find_declared(REGISTRY.declared(), "agents" if component == "agent" else component)
    if found is None:
        raise Violated("coupling", f"{component} declares nothing")
    return found


def _name(change: ChangeRecord) -> str:
    return f"revision {change.revision} of {change.key}"
