"""Both controllers over a plain dictionary instead of a cluster: from any beginning, they keep their bounds and arrive.

Pods are placed in zones and become ready by chance, and leave at once. Each step one of the controllers has a look, at
a set that is drawn; what it decides is done completely.
"""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, REPLICASETS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.deployment.rolling import compute_bounds
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Action, Create, Delete, Patch
from tests.controllers.objects import DEPLOYMENT_CONTROLLER, KEY, REPLICA_SETS, Object, a_deployment, a_node, a_view, at

pytestmark = pytest.mark.slow

STEPS_MAX = 3000
NODE_NAMES = ("n-a", "n-b", "n-c")


class Model:
    def __init__(self, deployment: Object, chance: random.Random) -> None:
        self.objects: dict[Any, dict[str, Object]] = {
            DEPLOYMENTS: {"web": deployment},
            REPLICASETS: {},
            PODS: {},
            NODES: {name: a_node(name, name[-1]) for name in NODE_NAMES},
        }
        self.chance = chance
        self.made = 0

    def look(self, controller: Controller, name: str) -> bool:
        """Let a controller decide about something, and do it. Whether that changed anything."""
        kinds = self.objects
        view = a_view(
            controller,
            deployments=kinds[DEPLOYMENTS].values(),
            sets=kinds[REPLICASETS].values(),
            pods=kinds[PODS].values(),
            nodes=kinds[NODES].values(),
        )
        decision = controller.decide(view, ObjectKey("default", name), None)
        for action in decision.actions:
            self._do(action)
        subject = kinds[controller.kind].get(name)
        if subject is None:
            return bool(decision.actions)
        status = {**subject["status"], **decision.status}
        status = {name: value for name, value in status.items() if value is not None}
        is_news = status != subject["status"]
        subject["status"] = status
        return is_news or bool(decision.actions)

    def _do(self, action: Action) -> None:
        there = self.objects[action.kind]
        match action:
            case Create(object=obj):
                name = obj["metadata"]["name"]
                assert name not in there
                self.made += 1
                metadata = {
                    **obj["metadata"],
                    "uid": f"{name}.{self.made}",
                    "generation": 1,
                    "creationTimestamp": at(0),
                }
                there[name] = {**obj, "metadata": metadata, "status": {}}
            case Patch(key=key, uid=uid, body=body):
                assert there[key.name]["metadata"]["uid"] == uid
                before = dict(there[key.name]["spec"])
                there[key.name] = _merged(there[key.name], body)
                if there[key.name]["spec"] != before:
                    there[key.name]["metadata"]["generation"] += 1
            case Delete(key=key, uid=uid):
                assert there.pop(key.name)["metadata"]["uid"] == uid
            case _:
                raise AssertionError(action)

    def run_pods(self) -> bool:
        """Some pod gets further. Whether any could."""
        waiting = [pod for pod in self.objects[PODS].values() if not is_ready(pod)]
        if not waiting:
            return False
        pod = self.chance.choice(waiting)
        pod["spec"] = {**pod["spec"], "nodeName": self.chance.choice(NODE_NAMES)}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(-1)}
        pod["status"] = {"phase": "Running", "conditions": [ready]}
        return True

    def settle(self, check: Any = lambda: None) -> None:
        """Until no controller has anything to do."""
        for _ in range(STEPS_MAX):
            looks = [(DEPLOYMENT_CONTROLLER, "web"), *((REPLICA_SETS, name) for name in self.objects[REPLICASETS])]
            self.chance.shuffle(looks)
            if self.chance.random() < 0.3:
                self.run_pods()
            has_moved = self.look(*looks[0])
            check()
            if not has_moved and not any(self.look(*each) for each in looks) and not self.run_pods():
                return
        raise AssertionError(f"no rest after {STEPS_MAX} steps")

    def ready(self) -> int:
        return sum(is_ready(pod) for pod in self.objects[PODS].values())

    def zones(self) -> set[str]:
        """Those in which a pod is ready."""
        return {pod["spec"]["nodeName"] for pod in self.objects[PODS].values() if is_ready(pod)}

    def asked(self) -> int:
        return sum(int(each["spec"]["replicas"]) for each in self.objects[REPLICASETS].values())


def is_ready(pod: Object) -> bool:
    return bool(pod["status"].get("conditions"))


def _merged(obj: Any, patch: Any) -> Any:
    if not isinstance(obj, dict) or not isinstance(patch, dict):
        return patch
    return {**obj, **{name: _merged(obj.get(name), value) for name, value in patch.items()}}


def change(model: Model, **spec: Any) -> None:
    deployment = model.objects[DEPLOYMENTS]["web"]
    model.objects[DEPLOYMENTS]["web"] = _merged(deployment, {"spec": spec})
    model.objects[DEPLOYMENTS]["web"]["metadata"]["generation"] += 1


def other_image(image: str) -> Object:
    return {"spec": {"containers": [{"name": "main", "image": image}]}}


@settings(deadline=None, max_examples=60)
@given(
    replicas=st.integers(0, 6),
    surge=st.sampled_from([0, 1, 2, "25%", "100%"]),
    unavailable=st.sampled_from([0, 1, 3, "25%", "100%"]),
    images=st.lists(st.sampled_from(["web:1", "web:2", "web:3"]), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_a_rollout_keeps_its_bounds_and_arrives_whatever_came_before(replicas, surge, unavailable, images, seed):
    if surge == 0 and unavailable == 0:
        surge = 1
    chance = random.Random(seed)
    model = Model(a_deployment(replicas, surge=surge, unavailable=unavailable, image="web:0"), chance)
    model.settle()
    bounds = compute_bounds(model.objects[DEPLOYMENTS]["web"])

    def check() -> None:
        assert model.ready() >= bounds.least
        assert model.asked() <= bounds.most

    for image in images:
        change(model, template=other_image(image))
        for _ in range(chance.randint(0, 12)):
            names = sorted(model.objects[REPLICASETS])
            controller, name = chance.choice(
                [(DEPLOYMENT_CONTROLLER, "web"), *((REPLICA_SETS, each) for each in names)]
            )
            model.look(controller, name)
            if chance.random() < 0.3:
                model.run_pods()
            check()
    model.settle(check)

    pods = model.objects[PODS].values()
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [images[-1]] * replicas
    assert model.objects[DEPLOYMENTS]["web"]["status"]["observedGeneration"] == 1 + len(images)


@settings(deadline=None, max_examples=60)
@given(replicas=st.integers(1, 8), unavailable=st.integers(0, 8), seed=st.integers(0, 1000), is_rollback=st.booleans())
def test_with_room_for_it_no_zone_is_without_a_ready_pod_before_the_new_ones_are_all_there(
    replicas, unavailable, seed, is_rollback
):
    model = Model(
        a_deployment(replicas, surge=len(NODE_NAMES), unavailable=unavailable, image="web:0"), random.Random(seed)
    )
    model.settle()
    if is_rollback:
        change(model, template=other_image("web:1"))
        model.settle()
    before = model.zones()
    change(model, template=other_image("web:0" if is_rollback else "web:1"))
    wanted = model.objects[DEPLOYMENTS]["web"]["spec"]["template"]["spec"]

    def check() -> None:
        new = [pod for pod in model.objects[PODS].values() if is_ready(pod) and _images(pod["spec"]) == _images(wanted)]
        assert before <= model.zones() or len(new) == replicas

    model.settle(check)


def _images(spec: Object) -> list[str]:
    return [each["image"] for each in spec["containers"]]


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    is_recreated=st.booleans(),
    pauses=st.booleans(),
)
def test_any_order_of_scaling_pausing_and_changing_ends_with_what_was_wanted_last(sizes, seed, is_recreated, pauses):
    chance = random.Random(seed)
    model = Model(a_deployment(3, image="web:0"), chance)
    if is_recreated:
        model.objects[DEPLOYMENTS]["web"]["spec"]["strategy"] = {"type": "Recreate"}
    for number, size in enumerate(sizes):
        change(
            model, replicas=size, template=other_image(f"web:{chance.randint(0, 2)}"), paused=pauses and number % 2 == 0
        )
        for _ in range(chance.randint(0, 15)):
            names = sorted(model.objects[REPLICASETS])
            model.look(*chance.choice([(DEPLOYMENT_CONTROLLER, "web"), *((REPLICA_SETS, each) for each in names)]))
            if chance.random() < 0.5:
                model.run_pods()
    change(model, paused=False)
    model.settle()

    wanted = model.objects[DEPLOYMENTS]["web"]["spec"]["template"]["spec"]["containers"][0]["image"]
    pods = list(model.objects[PODS].values())
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == [wanted] * sizes[-1]
    assert KEY.name in model.objects[DEPLOYMENTS]
