"""A cluster that is nothing but objects: decisions are carried out on them at once, and a test lets time pass."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.api import times
from mainstay.api.component_roles import ComponentRole
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import COMPONENT_STATES, PLACEMENT_POLICIES, PODS, POLICY_ROLLOUTS
from mainstay.api.kinds.mainstay import POLICY_ROLLOUT
from mainstay.api.merge_patch import merge_patch
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.policy_rollout.controller import PolicyRollouts
from mainstay.controllers.policy_rollout.freshness import FOLLOWED
from mainstay.loop.conditions import with_conditions
from mainstay.loop.decision import Decision, GiveUp, Patch
from mainstay.loop.view import View

Object = dict[str, Any]
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
CONTROLLER = PolicyRollouts()
STAGES = [
    {"name": "canary", "percent": 50, "holdSeconds": 10},
    {"name": "all", "percent": 100, "holdSeconds": 10},
]
SCOPE = {"namespaces": ["risk"]}
GATE = {"minSamples": 6, "boundWithinSeconds": 5}


class ObjectCluster:
    def __init__(self) -> None:
        self.now = NOON
        self.revision = 100
        self.objects: dict[tuple[KindName, str], Object] = {}
        self.writes: list[tuple[str, Object]] = []
        """What was written to policies, in order."""
        self.late: set[str] = set()
        """Components that publish nothing any more."""
        self.pending: set[str] = set()
        """Workloads whose pods get no node."""
        self._pods = 0

    def put(self, kind: KindName, name: str, **parts: Any) -> Object:
        self.revision += 1
        before = self.objects.get((kind, name))
        metadata = {"uid": f"uid-{name}", "generation": 1, **(before or {}).get("metadata", {}), "name": name}
        obj = {**(before or {}), **parts, "metadata": {**metadata, "resourceVersion": str(self.revision)}}
        self.objects[kind, name] = obj
        return obj

    def get(self, kind: KindName, name: str) -> Object:
        return self.objects[kind, name]

    def change(self, kind: KindName, name: str, **spec: Any) -> None:
        """As a user does it. None removes a field."""
        obj = self.get(kind, name)
        self.put(kind, name, spec={key: value for key, value in {**obj["spec"], **spec}.items() if value is not None})

    def add_policy(self, name: str, **spec: Any) -> None:
        self.put(PLACEMENT_POLICIES, name, spec={"policyVersion": name, "scope": SCOPE, "active": False, **spec})

    def add_rollout(self, name: str = "rollout", policy: str = "v6", **spec: Any) -> None:
        made: Object = {"metadata": {"name": name}, "spec": {"policy": policy, "stages": STAGES, "gate": GATE, **spec}}
        POLICY_ROLLOUT.defaults(made)
        assert POLICY_ROLLOUT.validate(made, None) == []
        self.put(POLICY_ROLLOUTS, name, spec=made["spec"])

    def fields(self, policy: str) -> Object:
        spec = self.get(PLACEMENT_POLICIES, policy)["spec"]
        return {name: spec[name] for name in ("active", "limit", "shadow") if spec.get(name) is not None}

    def status(self, name: str = "rollout") -> Object:
        return self.get(POLICY_ROLLOUTS, name).get("status") or {}

    def condition(self, kind: str, name: str = "rollout") -> tuple[str, str]:
        [found] = [each for each in self.status(name)["conditions"] if each["type"] == kind]
        return found["status"], found["reason"]

    # What others do.

    def publish(self) -> None:
        """All components say that they have seen everything."""
        for role in ComponentRole:
            if role in self.late:
                continue
            policies = {
                name: int(obj["metadata"]["resourceVersion"])
                for (kind, name), obj in self.objects.items()
                if kind == PLACEMENT_POLICIES
            }
            figures = [
                {"policy": name, "uid": f"uid-{name}", "revision": revision, "shadowed": 50, "decided": self._pods}
                for name, revision in policies.items()
            ]
            status = {
                "role": role,
                "revisions": dict.fromkeys((*FOLLOWED[role], PODS.text), self.revision),
                "policies": policies,
                "policyFigures": figures,
                "observedAt": times.format_time(self.now),
            }
            self.put(COMPONENT_STATES, str(role), status=status)

    def create_pods(self, count: int = 2) -> None:
        """So many of each of ten workloads."""
        for number in range(10 * count):
            workload = f"web-{number % 10}"
            self._pods += 1
            is_pending = workload in self.pending
            scheduled = {
                "type": "PodScheduled",
                "status": "False" if is_pending else "True",
                "reason": "Unschedulable",
                "lastTransitionTime": times.format_time(self.now),
            }
            owner = {"kind": "ReplicaSet", "name": workload, "uid": workload, "controller": True}
            obj = self.put(
                PODS,
                f"pod-{self._pods}",
                spec={} if is_pending else {"nodeName": "node-1"},
                status={"conditions": [scheduled]},
            )
            obj["metadata"] |= {
                "namespace": "risk",
                "creationTimestamp": times.format_time(self.now),
                "ownerReferences": [owner],
            }

    # What the controller does.

    def decide(self, name: str = "rollout") -> Decision:
        kinds = (POLICY_ROLLOUTS, *(reads.kind for reads in CONTROLLER.reads))
        objects = {kind: [obj for (of, _), obj in self.objects.items() if of == kind] for kind in kinds}
        indexes = {reads.kind: reads.indexes for reads in CONTROLLER.reads} | {POLICY_ROLLOUTS: CONTROLLER.indexes}
        return CONTROLLER.decide(View.of(objects, self.now, indexes=indexes), ObjectKey("", name), None)

    def step(self, name: str = "rollout", *, crashes_after_actions: bool = False) -> bool:
        """One decision, carried out. Whether it has changed anything."""
        decision = self.decide(name)
        for action in decision.actions:
            assert isinstance(action, Patch)
            found = self.get(PLACEMENT_POLICIES, action.key.name)
            assert action.resource_version == found["metadata"]["resourceVersion"]
            self.put(PLACEMENT_POLICIES, action.key.name, spec=merge_patch(found, action.body)["spec"])
            self.writes.append((action.key.name, self.fields(action.key.name)))
        if crashes_after_actions:
            return bool(decision.actions)
        rollout = self.get(POLICY_ROLLOUTS, name)
        before = rollout.get("status") or {}
        status = merge_patch({"status": before}, {"status": dict(decision.status)})["status"]
        conditions = list(decision.conditions)
        status = with_conditions(status, conditions, 1, self.now)
        if isinstance(decision.result, GiveUp):
            status["stalled"] = decision.result.reason
        else:
            status.pop("stalled", None)
        if status != before:
            self.put(POLICY_ROLLOUTS, name, status=status)
        return status != before or bool(decision.actions)

    def settle(self, name: str = "rollout", steps: int = 50) -> None:
        """Until nothing changes any more at this time."""
        for _ in range(steps):
            if not self.step(name):
                return
        raise AssertionError(f"{name} does not come to rest: {self.status(name)}")

    def go(self, seconds: float = 20, name: str = "rollout") -> None:
        """Time passes: pods are created, components publish, and the controller looks again."""
        self.settle(name)
        self.now += timedelta(seconds=2)
        self.create_pods()
        self.now += timedelta(seconds=seconds)
        self.publish()
        self.settle(name)
