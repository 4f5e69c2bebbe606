"""What node health went by, as far as no store has it, and the same sight made again from that and a view.

Most nodes are heard at most times, and then it does not matter when exactly: only for the others is written down what
was heard. So the memory of a decision is small however large the cluster, unless much of it is silent.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, assert_never

from mainstay.api.holds import Held, What, in_force
from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, LEASES, NODES, PODS
from mainstay.api.node_health import LEASE_NAMESPACE
from mainstay.controllers.node_health.decide import decide, doubtful, saying
from mainstay.controllers.node_health.evidence import Hearing, facts_of, hearing_of
from mainstay.controllers.node_health.heartbeats import Heard, after_deafness, listening
from mainstay.controllers.node_health.plan import Evict, MarkPod, Memory, Remove, Replace, Say, Sight, Step, WriteNode
from mainstay.journal import record
from mainstay.journal.record import Subject
from mainstay.loop.evidence import Evidence
from mainstay.loop.pass_record import Step as StepSaid
from mainstay.loop.pass_record import encode_sorted

NAME: Final = "node-health"

PodsOn = Callable[[str], tuple[Object, ...]]


@dataclass(frozen=True, slots=True)
class Known:
    """All that a look goes by besides Nodes, Pods and Holds."""

    now_ns: int
    memory: Memory
    heard: dict[str, Heard] = field(default_factory=dict)
    """Of the nodes that are not simply heard and well."""
    own: tuple[Evidence, ...] = ()


def known_of(sight: Sight, memory: Memory) -> Known:
    now_ns = sight.now_ns
    listened = listening(memory.listening, not sight.own, now_ns)
    before = now_ns if memory.listening is None else memory.listening.since_ns
    sinces = (before, listened.since_ns, after_deafness(listened, memory.deafness).since_ns)
    heard = {
        name: each
        for name, each in sight.heard.items()
        if name in sight.pods or any(hearing_of(each, since, now_ns) is not Hearing.HEARD for since in sinces)
    }
    return Known(now_ns, memory, heard, sight.own)


def sight_of(known: Known, nodes: Iterable[Object], pods_on: PodsOn, frozen: tuple[Held, ...]) -> Sight:
    """The same sight again. Decides as the one that was seen: a node that is simply heard may have been so at any
    time."""
    now_ns = known.now_ns
    facts = {each.name: each for each in sorted(map(facts_of, nodes), key=lambda each: each.name)}
    well = Heard(now_ns, now_ns)
    heard = {name: known.heard.get(name, well) for name in facts}
    pods = {name: pods_on(name) for name in doubtful(facts, heard, known.memory, now_ns)}
    return Sight(now_ns, facts, heard, pods, known.own, frozen)


def frozen_by(holds: Iterable[Object], now: datetime) -> tuple[Held, ...]:
    """The Holds of evictions that are in force."""
    return tuple([held for held in in_force(holds, now) if held.what is What.EVICTIONS])


def steps_of(sight: Sight, memory: Memory) -> tuple[list[Step], Memory]:
    """All that has to be done now, and what is remembered then."""
    plan = decide(sight, memory)
    return [*plan.steps, *saying(memory, plan.memory)], plan.memory


def said_of(step: Step) -> StepSaid:
    """A step as its record tells it."""
    body = encode_sorted(step)
    match step:
        case WriteNode(record=health, state=state):
            reasons = (str(state), *(() if health is None else (*health.evidence, *filter(None, (health.held,)))))
            subject = Subject(NODES.text, "", step.name, step.uid)
            return StepSaid(subject, record.action("patch", NODES.text, "", step.name, body=body), reasons)
        case MarkPod(message=message):
            action = record.action("patch", PODS.text, *step.key, subresource="status", body=body)
            return StepSaid(Subject(PODS.text, *step.key, uid=step.uid), action, (message,))
        case Evict(message=message):
            action = record.action("delete", PODS.text, *step.key, body=body)
            return StepSaid(Subject(PODS.text, *step.key, uid=step.uid), action, (message,))
        case Remove():
            action = record.action("delete", PODS.text, *step.key, body=body)
            return StepSaid(Subject(PODS.text, *step.key, uid=step.uid), action, ("its machine is out of service",))
        case Replace(node=node):
            action = record.action("update", LEASES.text, LEASE_NAMESPACE, node, body=body)
            subject = Subject(LEASES.text, LEASE_NAMESPACE, node)
            return StepSaid(subject, action, (f"the lease of {node} has run out",))
        case Say(reason=reason, message=message):
            action = record.action("create", "events", "default", NAME, body=body)
            return StepSaid(Subject(COMPONENT_STATES.text, "", NAME), action, (f"{reason}: {message}",))
        case _:
            assert_never(step)
