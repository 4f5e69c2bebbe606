"""What to do about nodes that send no heartbeats: little at first, and more only with more evidence.

The states of a node, and what leads from one to the next, are a table (states.py).

What each sign may lead to stands in one table for all controllers (loop/evidence.py), which also says when silence is
more likely ours: when every zone is silent, or our own connection fails. Then nothing is released, and what was
released and has not happened yet is taken back. How many are released how fast is in zones.py. All of it is by what we
have heard ourselves (heartbeats.py), so a new leader judges no node before it has listened for as long as a lease
lasts; but what the last one has begun it takes from the Nodes, and brings to an end: nothing here waits for a *change*
of state.

Pods of a released node are removed when their tolerations say so (api/taints.py). They stay in the store, and keep
what they have, until their node says that they have ended; or until there is proof that they have: the Node is deleted
(controllers/repair/decide.py), an operator says that the machine is off (the taint `out-of-service`), or, for
at-most-one pods, the lease by which their agent runs them has passed to us (loop/fencing.py; acting is in actions.py).

While a Hold freezes evictions (api/holds.py) no node is released and no pod is evicted; what is done about traffic and
new placements goes on. Afterwards all goes on from where it is.

`decide` is a plain function of a `NodeSnapshot` and what it remembers. loop.py looks and acts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from mainstay.api.holds import HoldReason, ParsedHold, freezing
from mainstay.api.node_health import (
    NO_RECORD,
    NOT_READY,
    PRESSURES,
    RELEASED,
    SUSPECTED,
    TAINTS,
    UNHEARD,
    UNREACHABLE,
    HealthState,
    NodeHealthRecord,
)
from mainstay.api.taints import NO_EXECUTE, Taint
from mainstay.controllers.node_health import zones
from mainstay.controllers.node_health.evidence import Hearing, NodeHealthFacts, collect_evidence, judge_hearing, said
from mainstay.controllers.node_health.heartbeats import (
    Heard,
    Listening,
    extend_isolation,
    is_heard,
    listen_after_isolation,
    listening,
    silent_for,
)
from mainstay.controllers.node_health.plan import (
    HOLDER,
    HealthVerdict,
    NodeHealthMemory,
    NodeHealthPlan,
    NodeSnapshot,
    Say,
    Step,
    WriteNode,
)
from mainstay.controllers.node_health.pods import (
    EVICTIONS_MAX,
    RELEASES_MAX,
    evictions,
    marks,
    removals,
    replacements,
    taints_since,
)
from mainstay.controllers.node_health.states import STEPS, Sign
from mainstay.controllers.node_health.zones import Bucket
from mainstay.loop.evidence import Evidence, EvidenceResponse, Scope, Signal, Strength, ZoneSilence, allowed

NODE_WRITES_MAX: Final = 50
"""In one look: an outage of a thousand nodes must not become a storm of writes."""

_WAITS: Final = "waiting for a permit: the nodes of a zone are released one at a time"
_HOUR_NS: Final = 3_600_000_000_000


def doubtful(
    nodes: Mapping[str, NodeHealthFacts], heard: Mapping[str, Heard], memory: NodeHealthMemory, now_ns: int
) -> list[str]:
    """The nodes whose pods have to be looked at."""
    since_ns = now_ns if memory.listening is None else memory.listening.since_ns
    return [
        name
        for name, facts in nodes.items()
        if not facts.is_ready
        or any(taint.effect == NO_EXECUTE for taint in facts.taints)
        or heard[name].holder == HOLDER
        or judge_hearing(heard[name], since_ns, now_ns) in (Hearing.LATE, Hearing.SILENT)
    ]


def decide(snapshot: NodeSnapshot, memory: NodeHealthMemory) -> NodeHealthPlan:
    now_ns = snapshot.now_ns
    heard_so_far = listening(memory.listening, not snapshot.own, now_ns)
    if snapshot.own:
        why = _why_isolated(snapshot.own, ())
        memory = structs.replace(memory, listening=heard_so_far, isolated=why)
        stopped = zones.looked_at(memory.buckets, _silences(snapshot, heard_so_far), now_ns, is_stopped=True)
        return NodeHealthPlan((), structs.replace(memory, buckets=stopped))
    silences = _silences(snapshot, heard_so_far)
    isolated = _why_isolated((), silences)
    isolation = extend_isolation(memory.isolation, now_ns) if isolated else None
    if not isolated:
        heard_so_far = listen_after_isolation(heard_so_far, memory.isolation)
    buckets = zones.looked_at(memory.buckets, silences, now_ns, is_stopped=bool(isolated))
    verdicts = {
        name: _verdict(facts, snapshot.heard[name], heard_so_far.since_ns, now_ns, silences)
        for name, facts in snapshot.nodes.items()
    }
    verdicts, buckets = _released(snapshot, verdicts, buckets, bool(isolated), heard_so_far.since_ns)
    tainted = taints_since(snapshot, memory)
    memory = structs.replace(
        memory,
        listening=heard_so_far,
        buckets=buckets,
        taints_since=tainted,
        isolated=isolated,
        isolation=isolation,
        marked=memory.marked,
        frozen="; ".join([_frozen_by(held) for held in snapshot.frozen]),
    )
    marked_now = marks(snapshot, verdicts, memory, bool(isolated))
    marked = {uid: at for uid, at in memory.marked.items() if now_ns - at < _HOUR_NS}
    marked.update({mark.uid: now_ns for mark in marked_now})
    steps: list[Step] = [
        *_node_writes(snapshot, verdicts)[:NODE_WRITES_MAX],
        *marked_now,
        *evictions(snapshot, verdicts, tainted)[:EVICTIONS_MAX],
        *removals(snapshot)[:EVICTIONS_MAX],
        *replacements(snapshot, verdicts)[:RELEASES_MAX],
    ]
    return NodeHealthPlan(tuple(steps), structs.replace(memory, marked=marked))


def saying(before: NodeHealthMemory, after: NodeHealthMemory) -> list[Say]:
    """What people should be told after a decision."""
    found = []
    if after.isolated and not before.isolated:
        found.append(Say("EvictionStopped", f"no pods are evicted from silent nodes: {after.isolated}"))
    elif before.isolated and not after.isolated:
        text = "heartbeats resumed; nodes that stay silent will be released"
        found.append(Say("EvictionResumed", text))
    if after.frozen and after.frozen != before.frozen:
        found.append(Say(HoldReason.EVICTIONS_FROZEN, f"no pods are evicted: {after.frozen}"))
    elif before.frozen and not after.frozen:
        found.append(Say(HoldReason.EVICTIONS_THAWED, "no Hold freezes evictions any more; pods are evicted again"))
    return found


def _frozen_by(held: ParsedHold) -> str:
    where = f" of {held.namespace}" if held.namespace else ""
    return f"evictions{where} are frozen by Hold {held.name}: {held.words}"


# Judging.


def _silences(snapshot: NodeSnapshot, heard_so_far: Listening) -> tuple[ZoneSilence, ...]:
    """A node counts as silent when it is late: when our own ears fail, nodes become silent one after the other, and by
    the time the first one has been so for long all others are at least late."""
    nodes: dict[str, int] = {}
    silent: dict[str, int] = {}
    for name, facts in snapshot.nodes.items():
        hearing = judge_hearing(snapshot.heard[name], heard_so_far.since_ns, snapshot.now_ns)
        is_silent = hearing in (Hearing.LATE, Hearing.SILENT) or (
            hearing is Hearing.NOT_YET and facts.ready[:2] == ("Unknown", UNHEARD)
        )
        nodes[facts.zone] = nodes.get(facts.zone, 0) + 1
        silent[facts.zone] = silent.get(facts.zone, 0) + is_silent
    return tuple(ZoneSilence(zone, nodes[zone], silent[zone]) for zone in sorted(nodes))


def _why_isolated(own: Sequence[Evidence], silences: Sequence[ZoneSilence]) -> str:
    """Why nothing may be released; empty if nothing speaks against it."""
    if not own and not any(each.silent for each in silences):
        return ""  # As at most looks.
    anything = Evidence(Signal.MISSED_HEARTBEATS, Strength.SUSTAINED, Scope.NODE)
    refused = allowed([anything, *own], silences).refused
    return next((each.why for each in refused if each.response is EvidenceResponse.EVICT_FROM_NODE), "")


def _verdict(
    facts: NodeHealthFacts, heard: Heard, since_ns: int, now_ns: int, silences: Sequence[ZoneSilence]
) -> HealthVerdict:
    hearing = judge_hearing(heard, since_ns, now_ns)
    if hearing is Hearing.HEARD:
        return _WELL
    evidence = collect_evidence(facts.name, heard, since_ns, now_ns)
    may = allowed(evidence, silences, facts.zone)
    words = said(evidence, silent_for(heard, since_ns, now_ns))
    before = _state_before(facts)
    match hearing:
        case Hearing.NOT_YET:
            return HealthVerdict(hearing, may, before, facts.record.held)
        case Hearing.LATE:
            # One that was given up by a leader that had listened for longer, and that we have not heard ourselves
            # since, stays so: that it is late is no news.
            is_worse = before in (HealthState.UNKNOWN, HealthState.RELEASED) and not is_heard(heard, since_ns)
            if is_worse or EvidenceResponse.STOP_NEW_PLACEMENT not in may:
                return HealthVerdict(Hearing.NOT_YET, may, before, facts.record.held)
            return HealthVerdict(hearing, may, STEPS.next[before, Sign.LATE], "", words)
        case Hearing.SILENT:
            return HealthVerdict(hearing, may, STEPS.next[before, Sign.SILENT], "", words)


def _state_before(facts: NodeHealthFacts) -> HealthState:
    return HealthState(facts.record.state) if facts.record.state in list(HealthState) else HealthState.HEALTHY


_WELL: Final = HealthVerdict(Hearing.HEARD, allowed(()), HealthState.HEALTHY)


def _released(
    snapshot: NodeSnapshot,
    verdicts: Mapping[str, HealthVerdict],
    buckets: dict[str, Bucket],
    is_isolated: bool,
    since_ns: int,
) -> tuple[dict[str, HealthVerdict], dict[str, Bucket]]:
    """Those that are released, longest silent first, as far as permits go."""
    found = dict(verdicts)
    frozen = freezing(snapshot.frozen, "")
    silent = [name for name, verdict in verdicts.items() if verdict.hearing is Hearing.SILENT]
    for name in sorted(silent, key=lambda name: (-silent_for(snapshot.heard[name], since_ns, snapshot.now_ns), name)):
        verdict, facts = verdicts[name], snapshot.nodes[name]
        before = _state_before(facts)
        if EvidenceResponse.EVICT_FROM_NODE not in verdict.allowed:
            refusals = [
                each.why for each in verdict.allowed.refused if each.response is EvidenceResponse.EVICT_FROM_NODE
            ]
            found[name] = replace(verdict, held=refusals[0] if refusals else "")
        elif frozen is not None:
            state = STEPS.next[before, Sign.TAINTED] if RELEASED in facts.taints else verdict.state
            found[name] = replace(verdict, state=state, held=_frozen_by(frozen), hold=frozen.name)
        elif RELEASED in facts.taints:
            found[name] = replace(verdict, state=STEPS.next[before, Sign.TAINTED])
        elif not is_isolated and (before, Sign.PERMITTED) in STEPS.next and zones.has_permit(buckets[facts.zone]):
            # Only one that was said to be unknown before: its pods get no traffic by then.
            buckets = {**buckets, facts.zone: zones.taken(buckets[facts.zone])}
            found[name] = replace(verdict, state=STEPS.next[before, Sign.PERMITTED])
        else:
            found[name] = replace(verdict, held=_WAITS)
    return found, buckets


# Nodes.


def _node_writes(snapshot: NodeSnapshot, verdicts: Mapping[str, HealthVerdict]) -> list[WriteNode]:
    found = []
    for name, facts in snapshot.nodes.items():
        write = _node_write(facts, verdicts[name], snapshot.heard[name])
        if write is not None:
            found.append(write)
    # What is good news for users comes first, and then what is most urgent.
    return sorted(found, key=lambda write: (_ORDER[write.state], write.name))


_ORDER: Final = {HealthState.HEALTHY: 0, HealthState.RELEASED: 1, HealthState.UNKNOWN: 2, HealthState.SUSPECT: 3}


def _node_write(facts: NodeHealthFacts, verdict: HealthVerdict, heard: Heard) -> WriteNode | None:
    """What has to be written on a Node; None if it says all of it."""
    is_plain = not (facts.taints or facts.pressures or facts.is_suspect) and facts.record == NO_RECORD
    if verdict is _WELL and is_plain and facts.is_ready:
        return None  # As most of them are, at most times.
    state = verdict.state
    wanted = facts.pressures + _choose_taints(facts, verdict)
    add = tuple(taint for taint in wanted if taint not in facts.taints)
    remove = tuple(taint for taint in facts.taints if taint in TAINTS and taint not in wanted)
    record, ready = _choose_record(facts, verdict)
    is_suspect = state is HealthState.SUSPECT
    says_suspect = is_suspect if facts.is_suspect != is_suspect and (is_suspect or facts.has_suspect) else None
    if not add and not remove and record is None and ready is None and says_suspect is None:
        return None
    lease = None
    if RELEASED in add:
        lease = heard.lease.revision if heard.has_lease and heard.lease is not None else 0
    return WriteNode(facts.name, facts.uid, facts.version, state, add, remove, record, ready, says_suspect, lease)


def _choose_taints(facts: NodeHealthFacts, verdict: HealthVerdict) -> tuple[Taint, ...]:
    """Of those that are ours, without what the node says about itself."""
    if verdict.hearing is Hearing.NOT_YET:
        known = tuple(taint for _, taint in PRESSURES)
        return tuple(taint for taint in facts.taints if taint in TAINTS and taint not in known)
    said_itself = facts.record.ready[0] if facts.ready[1] == UNHEARD else facts.ready[0]
    match verdict.state:
        case HealthState.HEALTHY | HealthState.SUSPECT:
            suspected = (SUSPECTED,) if verdict.state is HealthState.SUSPECT else ()
            if said_itself in ("True", ""):
                # One that says nothing was just made, and keeps what the server has given it.
                is_new = said_itself == "" and NOT_READY in facts.taints
                return (*suspected, NOT_READY) if is_new else suspected
            return (*suspected, NOT_READY)
        case HealthState.UNKNOWN:
            return (UNREACHABLE,)
        case HealthState.RELEASED:
            return (UNREACHABLE, RELEASED)


def _choose_record(
    facts: NodeHealthFacts, verdict: HealthVerdict
) -> tuple[NodeHealthRecord | None, tuple[str, str, str] | None]:
    """The record and the condition `Ready`, as far as they have to change."""
    if verdict.hearing is Hearing.NOT_YET:
        return None, None
    before, state = facts.record, verdict.state
    is_unheard = facts.ready[1] == UNHEARD
    own_words = before.ready if is_unheard else facts.ready
    ready = None
    if state in (HealthState.UNKNOWN, HealthState.RELEASED):
        ready = None if is_unheard else ("Unknown", UNHEARD, "no heartbeat from the node")
    elif is_unheard and own_words[0]:
        ready = own_words
    if state is HealthState.HEALTHY:
        return (NO_RECORD if before != NO_RECORD else None), ready
    if (before.state, before.held, before.hold) == (state, verdict.held, verdict.hold):
        return None, ready
    # When that was, is for the writer to fill in.
    since, evidence = (before.since, before.evidence) if before.state == state else ("", verdict.evidence)
    return NodeHealthRecord(state, since, evidence, verdict.held, own_words, verdict.hold), ready
