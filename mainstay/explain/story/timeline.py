"""What happened to an object, across all controllers: its story (lines.py), put together from the journal.

    story = await timeline(moment, DEPLOYMENTS, "risk-api", "risk", generation=42)

Followed are the object, what it owns (a Deployment's ReplicaSets and their pods), the writes that led to its being
there, and what mattered to the decisions about it: quotas, nodes, policies and reservations that woke them, that they
had not seen, or whose change turned them. Each line names who, by which decision, at which revision, and what led to
it. What a scheduler refused is told filter by filter, by deciding again.

A generation's story begins with the write that made it and ends when the workload was complete. For a pod it is that of
the workload it belongs to.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mainstay.api.annotations import REPLACES
from mainstay.api.holds import parse_hold
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import EVENTS, HOLDS, NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.progress import ProgressVerdict, read_progress
from mainstay.explain.moment import Moment, NoSuchMoment
from mainstay.explain.placements import is_placement
from mainstay.explain.registry import Rooms
from mainstay.explain.story.lines import Story, StoryLine, StoryLink, StoryObject, merged, numbered
from mainstay.explain.story.order import in_order
from mainstay.explain.story.render import (
    line_of_event,
    lines_of_decision,
    lines_of_placement,
    lines_of_version,
    queued_line,
    seen_lines,
)
from mainstay.explain.story.scope import Family, FollowedObject, ancestors
from mainstay.explain.words import LineKind
from mainstay.explain.writers import UNKNOWN_WHO, JournalLookup, Version, with_revision
from mainstay.journal.keys import parse_object_key
from mainstay.journal.record import ChangeRecord, DecisionRecord, moment

PODS_MAX: Final = 60
"""Of a workload, are followed one by one: those in trouble first."""
EVENTS_MAX: Final = 500
NODES_MAX: Final = 10
NODE_WATCHERS: Final = ("node-health", "pod-garbage", "repair")
"""Those who remove pods because of their nodes."""
_EVENTS_NAMESPACE: Final = "default"  # Of Events about what has none.

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class NothingKnown(Exception):
    """The journal knows nothing of such an object. Says what to do."""


async def timeline(
    moment: Moment,
    rooms: Rooms,
    kind: KindName,
    name: str,
    namespace: str = "",
    *,
    generation: int = 0,
    since: datetime | None = None,
    pods_max: int = PODS_MAX,
) -> Story:
    """The story of an object up to a moment. Raises `NothingKnown`."""
    telling = _Telling(moment, rooms, StoryObject(kind.text, name, namespace), pods_max)
    return await telling.tell(generation, since)


class _Telling:
    """One story in the making."""

    def __init__(self, moment: Moment, rooms: Rooms, about: StoryObject, pods_max: int) -> None:
        self._moment = moment
        self._rooms = rooms
        self._known = JournalLookup(moment.journal, moment.revision)
        self._about = about
        self._pods_max = pods_max
        self._lines: dict[tuple[object, ...], StoryLine] = {}
        self._records: dict[FollowedObject, list[DecisionRecord]] = {}
        """The placements of each pod, in order."""
        self._names: dict[str, str] = {}
        """Of pods, by uid."""
        self._nodes: dict[str, str] = {}
        """By the name of a pod: the node it was on."""
        self._replaced: dict[str, str] = {}
        """By the name of a pod: the uid of the one it replaces."""
        self._owners: dict[StoryObject, str] = {}
        """In words."""

    async def tell(self, generation: int, since: datetime | None) -> Story:
        about = self._about
        versions = await self._known.versions(about.kind, about.namespace, about.name)
        obj = versions[-1].object if versions else await self._there()
        if obj is None:
            where = f" in namespace {about.namespace}" if about.namespace else ""
            raise NothingKnown(
                f"{about.words}{where} not found in the journal: `mainstay get {about.kind}` shows what exists now; "
                "use -n for another namespace, or --at for a time before it was removed"
            )
        who = FollowedObject(about.kind, about.namespace, about.name, obj["metadata"].get("uid", ""))
        # Another object of that name has another story.
        versions = [each for each in versions if each.object["metadata"].get("uid") == who.uid]
        begins, ends = await self._window(versions, obj, generation, since)
        # A decision about the first write may have been recorded by a clock that is a little behind.
        self._family = Family(self._known, begins.revision, begins.at - timedelta(seconds=1) if begins.at else None)
        await self._follow(who, obj, versions, begins)
        await self._tell_placements(begins)
        await self._tell_nodes(begins)
        await self._tell_holds(begins)
        return self._story(generation, begins, ends)

    async def _there(self) -> Object | None:
        """The object without its history: it was written before the journal began."""
        kind = self._about.kind
        states, _ = await self._known.past.objects({kind: self._moment.revision})
        stored = states[kind].get(ObjectKey(self._about.namespace, self._about.name))
        return None if stored is None else stored.decoded()

    # From when to when.

    async def _window(
        self, versions: Sequence[Version], obj: Object, generation: int, since: datetime | None
    ) -> "tuple[_Bound, _Bound]":
        end = _Bound(self._moment.revision, None)
        if generation:
            workload = await self._workload(obj, versions)
            first = next((each for each in workload if _generation(each) == generation), None)
            if first is None:
                known = sorted({_generation(each) for each in workload if _generation(each)})
                which = f"{known[0]} to {known[-1]}" if known else "none"
                raise NothingKnown(f"generation {generation} of {self._about.words} not found: the journal has {which}")
            return _Bound(first.revision - 1, first.at), _completed(workload, first, generation) or end
        if since is not None:
            try:
                return _Bound((await Moment.at_time(self._moment.journal, since)).revision, since), end
            except NoSuchMoment as error:
                self._known.notes[str(error)] = None
        if versions and versions[0].before is None and not versions[0].is_first_known:
            return _Bound(versions[0].revision - 1, versions[0].at), end
        return _Bound(0, None), end

    async def _workload(self, obj: Object, versions: Sequence[Version]) -> Sequence[Version]:
        """The versions of whose generation is meant: a pod's own says nothing."""
        if self._about.kind != PODS.text:
            return versions
        owners = await Family(self._known, 0, None).owners(obj, self._about.namespace)
        if not owners:
            return versions
        top = owners[-1]
        return [
            each
            for each in await self._known.versions(top.kind, top.namespace, top.name)
            if each.object["metadata"].get("uid") == top.uid
        ]

    # What is followed.

    async def _follow(self, who: FollowedObject, obj: Object, versions: Sequence[Version], begins: "_Bound") -> None:
        self._tell_versions([each for each in versions if each.revision > begins.revision])
        first = next((each for each in versions if each.revision > begins.revision), None)
        if first is not None:
            self._tell_versions(await ancestors(self._known, first), spec_only=True)
        uids = {who.uid: None}
        for owner in await self._family.owners(obj, who.namespace):
            uids[owner.uid] = None
            owned_by = await self._known.versions(owner.kind, owner.namespace, owner.name, after=begins.revision)
            self._tell_versions(owned_by, spec_only=True)
        await self._tell_decisions(who)
        pods: list[FollowedObject] = [who] if who.kind == PODS.text else []
        owners = [who]
        while owners:
            found = [each for owner in owners for each in await self._family.owned(owner)]
            pods += [each for each in found if each.kind == PODS.text]
            owners = [each for each in found if each.kind != PODS.text]
            for each in owners:
                uids[each.uid] = None
                self._tell_versions(await self._find_versions(each, begins))
                await self._tell_decisions(each)
        for pod in await self._chosen(pods):
            uids[pod.uid] = None
            if pod != who:
                self._tell_versions(await self._find_versions(pod, begins))
                await self._tell_decisions(pod)
        await self._tell_events(who.namespace or _EVENTS_NAMESPACE, uids, begins)

    async def _find_versions(self, who: FollowedObject, begins: "_Bound") -> list[Version]:
        await self._family.decisions(who)  # All at once, rather than one by one when a write names them.
        found = await self._known.versions(who.kind, who.namespace, who.name, after=begins.revision)
        return [each for each in found if each.object["metadata"].get("uid") == who.uid]

    async def _chosen(self, pods: Sequence[FollowedObject]) -> list[FollowedObject]:
        if len(pods) <= self._pods_max:
            return list(pods)
        states, _ = await self._known.past.objects({PODS.text: self._moment.revision})
        running: dict[str, None] = {}
        for stored in states[PODS.text].values():
            pod = stored.decoded()
            conditions = (pod.get("status") or {}).get("conditions") or ()
            if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
                running[pod["metadata"].get("uid", "")] = None
        chosen = sorted(pods, key=lambda each: (each.uid in running, each.name))[: self._pods_max]
        text = f"only {len(chosen)} of {len(pods)} pods are followed, not ready ones first: name others to see them"
        self._known.notes[text] = None
        return chosen

    def _tell_versions(self, versions: Iterable[Version], *, spec_only: bool = False) -> None:
        for version in versions:
            obj = version.object
            about = StoryObject(version.kind, version.key.name, version.key.namespace)
            for reference in obj["metadata"].get("ownerReferences") or ():
                if reference.get("controller"):
                    self._owners[about] = f"{reference['kind'].lower()} {reference['name']}"
            if version.kind == PODS.text:
                self._names[obj["metadata"].get("uid", "")] = version.key.name
                if node := (obj.get("spec") or {}).get("nodeName"):
                    self._nodes[version.key.name] = node
                if replaced := (obj["metadata"].get("annotations") or {}).get(REPLACES):
                    self._replaced[version.key.name] = replaced
            for line in lines_of_version(version, spec_only=spec_only):
                self._add(line)

    def _add(self, line: StoryLine) -> None:
        self._lines.setdefault((line.about, line.what, line.revision, line.text, line.decision, line.at), line)

    # Decisions.

    async def _tell_decisions(self, who: FollowedObject) -> None:
        is_first = True
        for record in await self._family.decisions(who):
            if record.subject.uid and record.subject.uid != who.uid:
                continue
            if not is_placement(record):
                for line in lines_of_decision(record):
                    self._add(line)
                continue
            self._records.setdefault(who, []).append(record)
            if is_first and record.attempts <= 1:
                self._add(queued_line(record))
            is_first = False

    async def _tell_placements(self, begins: "_Bound") -> None:
        every = [record for records in self._records.values() for record in records]
        relevance = self._rooms.story().find_relevance(self._known, every)
        await relevance.policies(begins.revision, every)
        for records in self._records.values():
            refused: DecisionRecord | None = None
            for record in records:
                causes: list[StoryLink] = []
                words: tuple[str, ...] = ()
                is_refusal = not any(reason.startswith("node=") for reason in record.reasons)
                if is_refusal:
                    words = await relevance.refusals(record)
                    refused = record
                elif refused is not None:
                    causes = await relevance.turned(refused, record)
                    refused = None
                stale = await relevance.stale(record, is_refusal=is_refusal)
                for line in lines_of_placement(record, words, stale, causes):
                    self._add(line)
        for version in relevance.related.values():
            self._tell_versions([version], spec_only=version.kind != PODS.text)
            for line in seen_lines(version, every):
                self._add(line)

    async def _tell_nodes(self, begins: "_Bound") -> None:
        """What became of nodes whose pods were judged by it."""
        judged = [line.about.name for line in self._lines.values() if line.who.component in NODE_WATCHERS]
        nodes = sorted({self._nodes[name] for name in judged if name in self._nodes})
        if len(nodes) > NODES_MAX:
            self._known.notes[f"only {NODES_MAX} of {len(nodes)} nodes that pods were evicted from are shown"] = None
        for node in nodes[:NODES_MAX]:
            for version in await self._known.versions(NODES.text, "", node, after=begins.revision):
                for line in lines_of_version(version):
                    if line.what in (LineKind.WRITTEN, LineKind.CONDITION, LineKind.REMOVED) and not line.is_detail:
                        self._add(line)

    async def _tell_holds(self, begins: "_Bound") -> None:
        """What was held meanwhile, if it concerns anything in the story."""
        answer = await self._moment.journal.changes(kind=HOLDS.text, after=begins.revision, until=self._moment.revision)
        components = {line.who.component for line in self._lines.values() if line.who.component}
        names = {(line.about.namespace, line.about.name) for line in self._lines.values()}
        for change in answer.records:
            version = await self._known.version(HOLDS.text, "", parse_object_key(change.key).name, change.revision)
            held = parse_hold(version.object) if version is not None else None
            if version is None or held is None:
                continue
            is_concerned = (
                (held.namespace, held.target) in names
                or any(each == held.target or each.startswith(f"{held.target}-") for each in components if held.target)
                or (not held.target and held.namespace in ("", self._about.namespace))
            )
            if is_concerned:
                self._tell_versions([version], spec_only=True)

    # Others.

    async def _tell_events(self, namespace: str, uids: dict[str, None], begins: "_Bound") -> None:
        answer = await self._moment.journal.changes(
            kind=EVENTS.text, namespace=namespace, after=begins.revision, until=self._moment.revision
        )
        marks = [uid.encode() for uid in uids if uid]
        mine = [each for each in answer.records if each.value and any(mark in each.value for mark in marks)]
        if len(mine) > EVENTS_MAX:
            self._known.notes[f"{len(mine) - EVENTS_MAX} older Events are left out"] = None
        for change in mine[-EVENTS_MAX:]:
            version = event_version(change)
            line = line_of_event(version)
            if line is not None:
                self._add(line)

    # The end.

    def _story(self, generation: int, begins: "_Bound", ends: "_Bound") -> Story:
        lines = [each for each in self._lines.values() if ends.at is None or each.at <= ends.at]
        lines = [replace(each, owner=self._owners.get(each.about, "")) for each in lines]
        lines = in_order(self._joined(lines))
        lines = self._going_on(lines, ends)
        told = numbered(merged(lines))
        gaps = tuple(str(gap) for gap in self._known.gaps)
        return Story(
            about=self._about,
            generation=generation,
            begins=told[0].at if told else begins.at,
            ends=told[-1].until or told[-1].at if told else ends.at,
            revision=ends.revision,
            lines=told,
            is_complete=not gaps,
            gaps=gaps,
            notes=tuple(self._known.notes),
        )

    def _joined(self, lines: Sequence[StoryLine]) -> list[StoryLine]:
        """What one decision did is told once: a choice with its binding, a refusal with the condition it leaves."""
        decided = {each.decision: each for each in lines if each.what is LineKind.DECIDED}
        bound = {each.decision for each in lines if each.what is LineKind.BOUND}
        refused = {each.decision for each in lines if each.what is LineKind.REFUSED}
        ends = {each.about.name: each for each in reversed(in_order(lines)) if each.what in _ENDS}
        made = []
        for line in lines:
            choice = decided.get(line.decision)
            if line.what is LineKind.BOUND and choice is not None:
                line = replace(
                    line,
                    causes=tuple(dict.fromkeys((*line.causes, *choice.causes))),
                    view=choice.view,
                    stale=choice.stale,
                    queue_wait_ms=choice.queue_wait_ms,
                    attempts=choice.attempts,
                )
            elif line.what is LineKind.CREATED and (
                end := ends.get(self._names.get(self._replaced.get(line.about.name, ""), ""))
            ):
                link = StoryLink(f"{end.about.words}@{end.revision}", revision=end.revision)
                line = replace(line, causes=(*line.causes, link))
            elif line.who.component in NODE_WATCHERS and line.about.kind == PODS.text and not line.is_detail:
                line = replace(line, causes=(*line.causes, *self._node_links(line, lines)))
            elif line.what is LineKind.DECIDED and line.decision in bound:
                line = replace(line, is_detail=True)
            elif line.what is LineKind.CONDITION:
                is_others_verdict = line.about != self._about and line.is_verdict
                line = replace(line, is_detail=line.is_detail or is_others_verdict or line.decision in refused)
            made.append(line)
        return made

    def _node_links(self, line: StoryLine, lines: Sequence[StoryLine]) -> list[StoryLink]:
        """What had last become of its node when a pod was judged by that."""
        node = self._nodes.get(line.about.name, "")
        before = [
            each
            for each in lines
            if (each.about.kind, each.about.name) == (NODES.text, node) and 0 < each.revision < line.revision
        ]
        last = max(before, key=lambda each: each.revision, default=None)
        return [] if last is None else [StoryLink(f"{last.about.words}@{last.revision}", revision=last.revision)]

    def _going_on(self, lines: list[StoryLine], ends: "_Bound") -> list[StoryLine]:
        """Mark what has not been cured: the last refusal or failure of an object after which nothing better came."""
        if ends.at is not None:
            return lines
        last: dict[StoryObject, int] = {}
        for place, line in enumerate(lines):
            if line.what in (
                LineKind.REFUSED,
                LineKind.FAILED,
                LineKind.BOUND,
                LineKind.STARTED,
                LineKind.READY,
                LineKind.REMOVED,
                LineKind.DECIDED,
            ):
                last[line.about] = place
        return [
            replace(line, is_going_on=True)
            if last.get(line.about) == place and line.what in (LineKind.REFUSED, LineKind.FAILED)
            else line
            for place, line in enumerate(lines)
        ]


class _Bound:
    """A revision, and its time if it is known."""

    def __init__(self, revision: int, at: datetime | None) -> None:
        self.revision = revision
        self.at = at


_ENDS: Final = (LineKind.DELETED, LineKind.FAILED, LineKind.REMOVED)
"""After which a pod is replaced."""


def event_version(change: ChangeRecord) -> Version:
    value = None if change.value is None else with_revision(_decode(change.value), change.revision)
    where = parse_object_key(change.key)
    return Version(EVENTS.text, where, change.revision, moment(change.at), None, value, UNKNOWN_WHO, change.cause)


def _generation(version: Version) -> int:
    return int((version.after or {}).get("metadata", {}).get("generation") or 0)


def _completed(versions: Sequence[Version], first: Version, generation: int) -> _Bound | None:
    """When the workload was complete for the first time since it had that generation."""
    for version in versions:
        said = read_progress(version.after or {}) if version.revision > first.revision else None
        if said is not None and said.verdict is ProgressVerdict.COMPLETE and said.observed_generation >= generation:
            return _Bound(version.revision, version.at)
    return None
