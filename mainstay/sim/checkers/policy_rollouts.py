"""What must hold of a policy rollout, whatever goes wrong: judged by what was committed, and by what caches have.

- A gate passes only if every component that publishes a role has said, lately enough, that each kind it follows has
  reached the revision of the stage; and only with enough pods to compare.
- Stages come one after the other. While a stage is in effect, the controller writes to its candidate what that stage
  says, and nothing else.
- After each write of the controller, one of the two policies is active for the whole scope, as one was before it.
- A stage that does not pass by its deadline is rolled back; and once a rollout goes back, for whatever reason, the
  previous policy is in force again soon.
- No pod is removed by the controller.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.kind import Object
from mainstay.api.pod_state import created_at, find_condition, parse_time_or_none
from mainstay.api.policy_rollout import RolloutPhase, parse_rollout, read_phase
from mainstay.api.policy_scope import parse_scope, selects
from mainstay.api.scoped_pods import read_scoped_pod
from mainstay.controllers.policy_rollout.switch import is_serving, is_whole, read_fields
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit, decode_current
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted
from mainstay.sim.loop.clock import EPOCH

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

POLICIES: Final = "mainstay.dev/placementpolicies/"
ROLLOUTS: Final = "mainstay.dev/policyrollouts/"
STATES: Final = "mainstay.dev/componentstates/"
PODS_PREFIX: Final = "core/pods/"
SLACK: Final = timedelta(seconds=40)
"""Between what a decision has seen and the commit of what it wrote: its leader may have been paused in between."""
LATE: Final = timedelta(seconds=90)
"""After a deadline has passed: a leader may be gone for a while."""
BACK_WITHIN: Final = timedelta(minutes=4)
"""Since a rollout goes back: faults may last for two minutes, and what failed for so long is tried again within two."""


class RolloutChecker:
    name = "policy rollout"

    def __init__(self, *controllers: str) -> None:
        """Which programs run the controller."""
        self._controllers = controllers
        self._asked: dict[int, RequestReceived] = {}
        self._policies: dict[str, Object] = {}
        self._states: dict[str, list[tuple[int, Object]]] = {}
        """By component, all that it has published, and when."""
        self._pods: dict[str, Object] = {}
        self._rollouts: dict[str, Object] = {}
        self._going_back_ns: dict[str, int] = {}
        """By rollout, since when it goes back."""

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if event.is_write and event.who in self._controllers:
                self._asked[event.request] = event
        elif isinstance(event, RevisionCommitted):
            for key, since_ns in self._going_back_ns.items():
                self._require_back_soon(key, since_ns, event.at_ns)
            asked = self._asked.get(event.request or 0)
            if event.key.startswith(STATES):
                self._publish(event)
            elif event.key.startswith(PODS_PREFIX):
                self._change_pod(event, asked)
            elif event.key.startswith(POLICIES):
                self._change_policy(event, asked)
            elif event.key.startswith(ROLLOUTS) and event.value is not None:
                self._change_rollout(event)

    async def at_end(self, world: "World") -> None:
        for rollout in self._rollouts.values():
            self._require_no_overdue(rollout, world.sim.loop.time_ns())
        for key, since_ns in self._going_back_ns.items():
            self._require_back_soon(key, since_ns, world.sim.loop.time_ns())

    def _publish(self, event: RevisionCommitted) -> None:
        if event.value is None:
            self._states.pop(event.key, None)
        else:
            self._states.setdefault(event.key, []).append((event.at_ns, decode_commit(event.value)))

    def _change_pod(self, event: RevisionCommitted, asked: RequestReceived | None) -> None:
        pod = decode_current(event.value)
        if asked is not None:
            raise Violated(self.name, "the controller of rollouts has written a pod", [asked, event])
        if pod is not None:
            self._pods[pod["metadata"]["uid"]] = pod

    def _change_policy(self, event: RevisionCommitted, asked: RequestReceived | None) -> None:
        before = any(is_serving(each) or is_whole(each) for each in self._policies.values())
        if event.value is None:
            self._policies.pop(event.key, None)
        else:
            self._policies[event.key] = decode_commit(event.value)
            if asked is not None:
                self._require_stage(self._policies[event.key], [asked, event])
        after = any(is_serving(each) or is_whole(each) for each in self._policies.values())
        if asked is not None and before and not after:
            said = {name.removeprefix(POLICIES): read_fields(each) for name, each in self._policies.items()}
            raise Violated(self.name, f"pods of the scope are without a policy: {said}", [asked, event])

    def _require_stage(self, policy: Object, events: Sequence[Event]) -> None:
        """What the controller has written is the stage that it has noted before."""
        for rollout in self._rollouts.values():
            status = rollout.get("status") or {}
            if read_phase(rollout) is not RolloutPhase.PROGRESSING:
                continue
            if status["policy"]["uid"] != policy["metadata"]["uid"]:
                continue
            wanted = next(each for each in parse_rollout(rollout).stages if each.name == status["stage"])
            if read_fields(policy) != wanted.fields:
                text = f"stage {wanted.name} is {wanted.fields}, and the controller has written {read_fields(policy)}"
                raise Violated(self.name, text, events)

    def _change_rollout(self, event: RevisionCommitted) -> None:
        new, old = decode_commit(event.value or b""), decode_current(event.previous)
        self._rollouts[event.key] = new
        if read_phase(new) is not RolloutPhase.ROLLING_BACK:
            self._going_back_ns.pop(event.key, None)
        else:
            self._going_back_ns.setdefault(event.key, event.at_ns)
        if old is None or read_phase(old) is not RolloutPhase.PROGRESSING:
            return
        self._require_no_overdue(old, event.at_ns)
        was, now = old["status"], new["status"]
        if read_phase(new) is RolloutPhase.PROGRESSING and was["stage"] == now["stage"]:
            return
        if read_phase(new) not in (RolloutPhase.PROGRESSING, RolloutPhase.FINISHING):
            return  # It goes back.
        asked = parse_rollout(new)
        names = [each.name for each in asked.stages]
        following = names.index(was["stage"]) + 1
        is_next = names[following] == now["stage"] if following < len(names) else True
        if was.get("activation") is None or not is_next:
            raise Violated(self.name, f"stage {was['stage']} was skipped: {was} is followed by {now}", [event])
        self._require_seen(int(was["activation"]["revision"]), asked.freshness, event)
        if not asked.stages[following - 1].is_shadow:
            self._require_samples(old, asked.gate.min_samples, event)

    def _require_seen(self, revision: int, freshness: timedelta, event: RevisionCommitted) -> None:
        """Each component has published, within the time, that it has seen the stage."""
        at = _wall(event.at_ns)
        for key, published in self._states.items():
            if not published[-1][1].get("status", {}).get("role"):
                continue
            recent = [state["status"] for _, state in published if _is_recent(state, at - freshness - SLACK)]
            if not any(_has_reached(status, revision) for status in recent):
                name = key.removeprefix(STATES)
                text = f"a gate has passed at revision {revision} that {name} has not said it has reached"
                raise Violated(self.name, f"{text}: {published[-1][1]['status'].get('revisions')}", [event])

    def _require_samples(self, rollout: Object, least: int, event: RevisionCommitted) -> None:
        status = rollout["status"]
        candidate = self._policies[POLICIES + status["policy"]["name"]]
        scope, since = parse_scope(candidate), parse_time_or_none(status["activation"]["since"])
        assert scope is not None
        assert since is not None
        pods = [
            each for each in self._pods.values() if created_at(each) >= since and selects(scope, read_scoped_pod(each))
        ]
        if len(pods) < least:
            text = f"a gate has passed with {len(pods)} pods under the candidate, and {least} are needed"
            raise Violated(self.name, text, [event])

    def _require_back_soon(self, key: str, since_ns: int, at_ns: int) -> None:
        taken = timedelta(microseconds=(at_ns - since_ns) // 1000)
        if taken > BACK_WITHIN and not find_stalled(self._rollouts[key]):
            raise Violated(self.name, f"the rollout has been going back for {taken}, and is not back")

    def _require_no_overdue(self, rollout: Object, at_ns: int) -> None:
        if read_phase(rollout) is not RolloutPhase.PROGRESSING or find_stalled(rollout):
            return
        activation: Mapping[str, Any] = rollout["status"].get("activation") or {}
        deadline = parse_time_or_none(activation.get("deadline"))
        if deadline is not None and _wall(at_ns) > deadline + LATE and not rollout["spec"]["paused"]:
            text = f"stage {activation['stage']} is in effect at {_wall(at_ns)}, and its deadline was {deadline}"
            raise Violated(self.name, text)


def find_stalled(rollout: Object) -> bool:
    return (find_condition(rollout, "Stalled") or {}).get("status") == "True"


def _has_reached(status: Mapping[str, Any], revision: int) -> bool:
    revisions: Sequence[int] = list((status.get("revisions") or {}).values())
    return bool(revisions) and min(revisions) >= revision


def _is_recent(state: Object, since: datetime) -> bool:
    observed = parse_time_or_none(state["status"].get("observedAt")) if state.get("status") else None
    return observed is not None and observed >= since


def _wall(at_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=at_ns // 1000)
