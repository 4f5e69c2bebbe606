"""What is to be done about a pod on its node, and what is to be said of it. A plain function: `decide`.

The rules are the kubelet's. Init containers run one after the other, each until it has succeeded; sidecars among them
are started in turn, and the next one waits until they have started; then all main containers start. What ends is
started again if its policy says so, after a while (restarts.py). As long as a postStart hook runs, nothing else starts.

A pod that is over is ended: main containers first, then sidecars, the last one first, within one grace period. It is
over when it is deleted, refused, has run into its deadline or has failed for good, or when all its main containers have
ended and none is started again. A deleted pod is reported as not ready before any container is ended, and is
removed after its last status is stored.

Everything is decided from what is stored and what is known now (`PodFacts`): it may be asked at any time, again and
again, and by an agent that was started just now.

A container is begun only if nothing of it is live and with the number after its last attempt. That is all it takes for
never two of one container at once: the runner begins each number once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.agent.pod import restarts
from mainstay.agent.pod.attempts import Container, ContainerAttempt, PodContainers, Role, build_containers
from mainstay.agent.pod.conditions import READY, is_true
from mainstay.agent.pod.container_status import is_hook_through, is_started
from mainstay.agent.pod.facts import ContainerWaiting, FailedProbe, HookFailed, HookRunning, PodFacts
from mainstay.agent.pod.plan import (
    End,
    EndReason,
    MakeVolumes,
    PodPlan,
    Prune,
    RemovePod,
    RunHook,
    StartContainer,
    Step,
)
from mainstay.agent.pod.status import FAILED, TERMINAL, PodVerdict, build_status, fails_for_good
from mainstay.agent.runner import Exited, Running
from mainstay.api import times
from mainstay.api.annotations import is_at_most_one
from mainstay.api.kind import Object
from mainstay.loop.evidence import EvidenceResponse, allowed
from mainstay.loop.signals import collect_failed_probe

NOTICE: Final = timedelta(seconds=2)
"""How long a deleted pod's containers are left alone at most while it cannot be reported that it is not ready."""
GRACE_MIN: Final = timedelta(seconds=2)
"""What a container gets to end in, however late its turn comes."""
GRACE_S: Final = 30  # As the API has it by default.

CRASH_LOOP: Final = "CrashLoopBackOff"
NO_LEASE: Final = ContainerWaiting("LeaseNotHeld", "the node does not hold its lease, which at-most-one pods require")
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class _Over:
    """Nothing of the pod is started any more, and all that runs is ended."""

    why: EndReason
    verdict: PodVerdict
    since: datetime | None = None
    """When it came to that, if known."""


@dataclass(slots=True)
class _Moments:
    """The earliest of the moments at which something is due."""

    now: datetime
    first: datetime | None = None

    def add(self, moment: datetime | None) -> None:
        if moment is not None and moment > self.now and (self.first is None or moment < self.first):
            self.first = moment


@dataclass(frozen=True, slots=True)
class _Starting:
    """Which containers are begun now, and what keeps others from it."""

    starts: list[StartContainer] = field(default_factory=list)
    holds: dict[str, ContainerWaiting] = field(default_factory=dict)
    wants_place: bool = False


def decide(pod: Object, facts: PodFacts, now: datetime) -> PodPlan:
    """Say what to do next. Write the status, take the steps in order, then wait until a fact changes or `wake_at`."""
    containers = build_containers(pod, facts)
    moments = _Moments(now)
    over = _over(pod, facts, containers, moments)
    if over is not None:
        status = build_status(pod, facts, containers, holds={}, over=over.verdict, now=now)
        return PodPlan(tuple(_ending(pod, facts, containers, over, status, moments)), status, moments.first)

    begin = _starting(pod, facts, containers, moments)
    status = build_status(pod, facts, containers, holds=begin.holds, over=None, now=now)
    steps: list[Step] = _keeping(pod, facts, containers)
    if begin.wants_place:
        steps.append(MakeVolumes())
    steps += begin.starts
    return PodPlan(tuple(steps), status, moments.first)


# Whether it is over.


def _over(pod: Object, facts: PodFacts, containers: PodContainers, moments: _Moments) -> _Over | None:
    phase = (pod.get("status") or _NOTHING).get("phase")
    if phase in TERMINAL:
        is_deleted = "deletionTimestamp" in pod["metadata"]
        return _Over(EndReason.POD_DELETED if is_deleted else EndReason.POD_OVER, PodVerdict(phase))
    if facts.refused is not None:
        verdict = PodVerdict(FAILED, facts.refused.reason, f"Pod was rejected: {facts.refused.message}")
        return _Over(EndReason.POD_OVER, verdict)
    if "deletionTimestamp" in pod["metadata"]:
        return _Over(EndReason.POD_DELETED, PodVerdict())
    deadline = _deadline(pod, facts)
    if deadline is not None and deadline <= moments.now:
        message = "Pod was active on the node longer than the specified deadline"
        return _Over(EndReason.DEADLINE, PodVerdict(FAILED, "DeadlineExceeded", message), deadline)
    failed = [each.exited for each in containers.init if fails_for_good(each)]
    done = failed or [each.exited for each in containers.main if _is_done(each, facts)]
    if failed or len(done) == len(containers.main):
        return _Over(EndReason.POD_OVER, PodVerdict(), max(each.finished_at for each in done if each is not None))
    moments.add(deadline)
    return None


def _deadline(pod: Object, facts: PodFacts) -> datetime | None:
    seconds = pod["spec"].get("activeDeadlineSeconds")
    if seconds is None:
        return None
    said = (pod.get("status") or _NOTHING).get("startTime")
    return (times.parse_time(said) if said else facts.accepted_at) + timedelta(seconds=seconds)


def _is_done(container: Container, facts: PodFacts) -> bool:
    return container.exited is not None and not restarts.restarts(container, restarts.latest_verdicts(container, facts))


# Ending it.


def _ending(
    pod: Object, facts: PodFacts, containers: PodContainers, over: _Over, status: Object, moments: _Moments
) -> list[Step]:
    stored = pod.get("status") or _NOTHING
    is_deleted = "deletionTimestamp" in pod["metadata"]
    if not containers.is_live:
        return [RemovePod()] if is_deleted and _is_removable(pod, stored, status) else []
    grace = _grace(pod)
    since = facts.ending_since or (
        times.parse_time(pod["metadata"]["deletionTimestamp"]) - grace if is_deleted else moments.now
    )
    notice_until = min(since, over.since or since) + NOTICE
    if is_true(stored.get("conditions"), READY) and notice_until > moments.now:
        moments.add(notice_until)
        return []
    until = since + grace
    left = max(until - moments.now, min(GRACE_MIN, grace))
    steps: list[Step] = [End(each.id, left, None, over.why) for each in containers.strays]
    first = [each for each in containers if each.role is not Role.SIDECAR and each.is_live]
    last = [each for each in reversed(containers.init) if each.role is Role.SIDECAR and each.is_live]
    if until > moments.now:
        # Each in its turn, as long as there is time for it.
        turn = first or last[:1]
        if len(turn) < len(first) + len(last):
            moments.add(until)
    else:
        turn = first + last
    return steps + [_end(each, left, over.why) for each in turn]


def _grace(pod: Object) -> timedelta:
    said = pod["metadata"].get("deletionGracePeriodSeconds")
    if "deletionTimestamp" not in pod["metadata"] or said is None:
        said = pod["spec"].get("terminationGracePeriodSeconds")
    return times.to_duration(max(1, GRACE_S if said is None else said))


def _is_removable(pod: Object, stored: Mapping[str, Any], status: Object) -> bool:
    """Whether everything that will ever be said of the pod is stored, and deleting it would change anything: one that
    has finalizers is already deleted as far as an agent can do that."""
    if pod["metadata"].get("deletionGracePeriodSeconds") == 0 or stored.get("phase") not in TERMINAL:
        return False
    return all(
        _ends(stored.get(field)) == _ends(status.get(field)) for field in ("initContainerStatuses", "containerStatuses")
    )


def _ends(statuses: list[Object] | None) -> dict[str, Any]:
    ended = ((each["name"], (each.get("state") or _NOTHING).get("terminated")) for each in statuses or ())
    return {name: state.get("exitCode") for name, state in ended if state is not None}


def _end(container: Container, grace: timedelta, why: EndReason) -> End:
    live = _live(container)
    return End(live.id, grace, container.hook("preStop") if isinstance(live.state, Running) else None, why)


def _live(container: Container) -> ContainerAttempt:
    return next(each for each in reversed(container.attempts) if each.is_live)


# Keeping it going.


def _keeping(pod: Object, facts: PodFacts, containers: PodContainers) -> list[Step]:
    """What is due about the containers that are there."""
    grace = _grace(pod)
    steps: list[Step] = [End(each.id, grace, None, EndReason.NOT_WANTED) for each in containers.strays]
    for container in containers:
        latest = container.latest
        if latest is not None and isinstance(latest.state, Running):
            steps += _running(container, latest, facts, grace)
        ended = sum(1 for each in container.attempts if isinstance(each.state, Exited))
        if ended > restarts.KEEP:
            steps.append(Prune(container.name, restarts.KEEP))
    return steps


def _running(container: Container, latest: ContainerAttempt, facts: PodFacts, grace: timedelta) -> list[Step]:
    hook_state, hook = facts.hooks.get(latest.id), container.hook("postStart")
    if isinstance(hook_state, HookFailed):
        return [_end(container, grace, EndReason.POST_START)]
    verdicts = facts.probes.get(latest.id)
    if verdicts is not None and verdicts.failed is not None and _may_restart(container, verdicts.failed):
        is_startup = verdicts.failed is FailedProbe.STARTUP
        probe = container.spec.get("startupProbe" if is_startup else "livenessProbe") or _NOTHING
        seconds = probe.get("terminationGracePeriodSeconds")
        patience = grace if seconds is None else times.to_duration(seconds)
        return [_end(container, patience, EndReason.STARTUP if is_startup else EndReason.LIVENESS)]
    if container.is_stored_of_latest and container.stored.get("image") != container.spec.get("image"):
        return [_end(container, grace, EndReason.CHANGED)]
    if hook is not None and hook_state is None and not is_hook_through(container, facts):
        return [RunHook(latest.id, hook)]
    return []


def _may_restart(container: Container, failed: FailedProbe) -> bool:
    """What a failed probe is evidence for: this container, in its place."""
    return EvidenceResponse.RESTART_CONTAINER in allowed(collect_failed_probe(container.name, f"{failed} probe"))


# Starting it.


def _starting(pod: Object, facts: PodFacts, containers: PodContainers, moments: _Moments) -> _Starting:
    """Those whose turn it is, in order, as far as nothing keeps them from it."""
    begin = _Starting(wants_place=not facts.is_placed)
    is_busy = any(_has_hook_ahead(each, facts) for each in containers)
    for container in _in_turn(containers, facts):
        hold = _hold(pod, container, facts, moments)
        # What kept it from starting the last time is shown until it has started.
        shown = hold or facts.waiting.get(container.name)
        if shown is not None:
            begin.holds[container.name] = shown
        if hold is None and facts.is_placed and not is_busy:
            begin.starts.append(StartContainer(container.name, container.next_attempt))
            # The next one starts after its hook: sidecars of an older kind rely on that.
            is_busy = container.hook("postStart") is not None
    return begin


def _in_turn(containers: PodContainers, facts: PodFacts) -> list[Container]:
    """The containers that should be started now."""
    due = [each for each in containers.init if each.role is Role.SIDECAR and each.exited is not None]
    if containers.is_initialized:
        due += [each for each in containers.init if each.role is Role.SIDECAR and not each.attempts]
        next_one = len(containers.init)
    else:
        next_one = _next_init(containers, facts)
        due += [each for each in containers.init[next_one : next_one + 1] if not each.is_live and each not in due]
    if next_one == len(containers.init):
        due += [each for each in containers.main if not each.attempts or _comes_again(each, facts)]
    return due


def _next_init(containers: PodContainers, facts: PodFacts) -> int:
    """Which init container it is the turn of. Those before it have had theirs, even if nothing is known of them."""
    begun = [number for number, each in enumerate(containers.init) if each.attempts]
    if not begun:
        return 0
    return begun[-1] + 1 if _lets_next_start(containers.init[begun[-1]], facts) else begun[-1]


def _lets_next_start(container: Container, facts: PodFacts) -> bool:
    if container.role is Role.SIDECAR:
        return is_started(container, facts)
    return container.exited is not None and container.exited.code == 0


def _comes_again(container: Container, facts: PodFacts) -> bool:
    return restarts.restarts(container, restarts.latest_verdicts(container, facts))


def _has_hook_ahead(container: Container, facts: PodFacts) -> bool:
    latest = container.latest
    if latest is None or not latest.is_live or container.hook("postStart") is None:
        return False
    state = facts.hooks.get(latest.id)
    return isinstance(state, HookRunning) or (state is None and not is_hook_through(container, facts))


def _hold(pod: Object, container: Container, facts: PodFacts, moments: _Moments) -> ContainerWaiting | None:
    """What keeps a container from being started, though it is its turn."""
    backoff = restarts.backoff(container)
    if backoff is not None and not backoff.is_over(moments.now):
        moments.add(backoff.until)
        metadata = pod["metadata"]
        which = f"container={container.name} pod={metadata['name']}_{metadata.get('namespace')}({metadata['uid']})"
        return ContainerWaiting(CRASH_LOOP, f"back-off {restarts.in_words(backoff.delay)} restarting failed {which}")
    if not facts.is_lease_held and is_at_most_one(pod):
        return NO_LEASE
    waiting = facts.waiting.get(container.name)
    if waiting is not None and (waiting.retry_at is None or waiting.retry_at > moments.now):
        moments.add(waiting.retry_at)
        return waiting
    return None
