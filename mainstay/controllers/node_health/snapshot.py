"""What node health went by, as far as no store has it, and the same snapshot made again from that and a view.

Most nodes are heard at most times, and then it does not matter when exactly: only for the others is written down what
was heard. So the memory of a decision is small however large the cluster, unless much of it is silent.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, assert_never

from mainstay.api.holds import HoldScope, ParsedHold, in_force
from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, EVENTS, HOLDS, LEASES, NODES, PODS
from mainstay.api.node_health import LEASE_NAMESPACE
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import NODE
from mainstay.controllers.node_health.decide import decide, doubtful, saying
from mainstay.controllers.node_health.evidence import Hearing, judge_hearing, read_facts
from mainstay.controllers.node_health.heartbeats import Heard, listen_after_isolation, listening
from mainstay.controllers.node_health.plan import (
    Evict,
    MarkPod,
    NodeHealthMemory,
    NodeSnapshot,
    RemoveDeadPod,
    ReplacePods,
    Say,
    Step,
    WriteNode,
)
from mainstay.journal.record import RecordedAction, Subject
from mainstay.loop.controller import Reads
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.evidence import Evidence
from mainstay.loop.record import Decided, describe_write
from mainstay.loop.view import View

NAME: Final = "node-health"

PodsOn = Callable[[str], tuple[Object, ...]]


@dataclass(frozen=True, slots=True)
class HealthPassInput:
    """All that a look goes by besides Nodes, Pods and Holds."""

    now_ns: int
    memory: NodeHealthMemory
    heard: dict[str, Heard] = field(default_factory=dict)
    """Of the nodes that are not simply heard and well."""
    own: tuple[Evidence, ...] = ()


def memory_from(snapshot: NodeSnapshot, memory: NodeHealthMemory) -> HealthPassInput:
    now_ns = snapshot.now_ns
    listened = listening(memory.listening, not snapshot.own, now_ns)
    before = now_ns if memory.listening is None else memory.listening.since_ns
    sinces = (before, listened.since_ns, listen_after_isolation(listened, memory.isolation).since_ns)
    heard = {
        name: each
        for name, each in snapshot.heard.items()
        if name in snapshot.pods or any(judge_hearing(each, since, now_ns) is not Hearing.HEARD for since in sinces)
    }
    return HealthPassInput(now_ns, memory, heard, snapshot.own)


def snapshot_from(
    known: HealthPassInput, nodes: Iterable[Object], pods_on: PodsOn, frozen: tuple[ParsedHold, ...]
) -> NodeSnapshot:
    """The same snapshot again. Decides as the one that was seen: a node that is simply heard may have been so at any
    time."""
    now_ns = known.now_ns
    facts = {each.name: each for each in sorted(map(read_facts, nodes), key=lambda each: each.name)}
    well = Heard(now_ns, now_ns)
    heard = {name: known.heard.get(name, well) for name in facts}
    pods = {name: pods_on(name) for name in doubtful(facts, heard, known.memory, now_ns)}
    return NodeSnapshot(now_ns, facts, heard, pods, known.own, frozen)


def frozen_by(holds: Iterable[Object], now: datetime) -> tuple[ParsedHold, ...]:
    """The Holds of evictions that are in force."""
    return tuple([held for held in in_force(holds, now) if held.what is HoldScope.EVICTIONS])


def decide_steps(snapshot: NodeSnapshot, memory: NodeHealthMemory) -> tuple[list[Step], NodeHealthMemory]:
    """All that has to be done now, and what is remembered then."""
    plan = decide(snapshot, memory)
    return [*plan.steps, *saying(memory, plan.memory)], plan.memory


def record_from(step: Step) -> Decided:
    """A step as its record has it."""
    match step:
        case WriteNode(name=name, record=health, state=state):
            reasons = (str(state), *(() if health is None else (*health.evidence, *filter(None, (health.held,)))))
            action = describe_write("patch", NODES, ObjectKey("", name), body=step)
            return Decided((action,), reasons, subject=Subject(NODES.text, "", name, step.uid))
        case MarkPod(key=key, uid=uid, message=message):
            return _about_pod(key, uid, describe_write("patch", PODS, key, "status", step), message)
        case Evict(key=key, uid=uid, message=message):
            return _about_pod(key, uid, describe_write("delete", PODS, key, body=step), message)
        case RemoveDeadPod(key=key, uid=uid):
            return _about_pod(key, uid, describe_write("delete", PODS, key, body=step), "its machine is out of service")
        case ReplacePods(node=node):
            lease = ObjectKey(LEASE_NAMESPACE, node)
            action = describe_write("update", LEASES, lease, body=step)
            return Decided((action,), (f"the lease of {node} has run out",), subject=Subject(LEASES.text, *lease))
        case Say(reason=reason, message=message):
            action = describe_write("create", EVENTS, ObjectKey("default", NAME), body=step)
            subject = Subject(COMPONENT_STATES.text, "", NAME)
            return Decided((action,), (f"{reason}: {message}",), subject=subject)
        case _:
            assert_never(step)


def _about_pod(key: ObjectKey, uid: str, action: RecordedAction, why: str) -> Decided:
    return Decided((action,), (why,), subject=Subject(PODS.text, *key, uid=uid))


def _decide(view: View, known: HealthPassInput) -> list[Decided]:
    frozen = frozen_by(view.all(HOLDS), view.now)
    snapshot = snapshot_from(known, view.all(NODES), lambda node: tuple(view.by(PODS, NODE.name, node)), frozen)
    steps, _ = decide_steps(snapshot, known.memory)
    return [record_from(step) for step in steps]


DECIDER: Final = Decider(
    NAME, Schedule.PERIODIC, (Reads(NODES), Reads(PODS, indexes=(NODE,)), Reads(HOLDS)), HealthPassInput, _decide
)
