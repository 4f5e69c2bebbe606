"""Services and pods change faster than slices are seen: each pod stands in one slice of a Service, once. (12)

The real controllers, two of each, of which one leads. The user is the agent of all pods: it says which address a pod
has and whether it is ready. Ports, labels and selectors change, and Services of the same name come again. No endpoint
ever stands in two slices of one Service, and in the end each Service leads exactly to the pods that it selects, its
Endpoints say the same, and each pod says whether it serves. (kubernetes #100033, and for real what twice_in_slices.py
shows of the runtime alone)
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, SERVICES
from mainstay.api.stages import SERVING_CONDITION
from mainstay.api.well_known_labels import SERVICE_NAME
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.controllers.endpoints.endpoints import Endpoints
from mainstay.controllers.endpoints.serving import Serving
from mainstay.controllers.endpoints.slices import EndpointSlices
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

if TYPE_CHECKING:
    from mainstay.store.local import LocalStore

SERVICE_NAMES: Final = ("web", "api")
POD_NAMES: Final = tuple(f"pod-{number}" for number in range(1, 7))
TARGETS: Final = (8080, 9090, "main")
_SLICES: Final = "discovery.k8s.io/endpointslices/"
_SERVICES: Final = "core/services/"
_PODS: Final = "core/pods/"
_ENDPOINTS: Final = "core/endpoints/"
_decode = msgspec.json.Decoder(Object).decode


class ServicesLead(UserStage):
    turn_every = timedelta(milliseconds=400)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(EndpointSlices(), "slices-1", "slices-2")
        self.add_controller(Endpoints(), "endpoints-1", "endpoints-2")
        self.add_controller(Serving(), "serving-1", "serving-2")

    async def prepare(self, client: Client) -> None:
        for name in SERVICE_NAMES:
            await client.create(SERVICES, a_service(name, 8080))

    async def turn(self, client: Client) -> None:
        if self.choose("what", 4) == 0:
            with suppress(NotFound, AlreadyExists):
                await self._change_service(client, SERVICE_NAMES[self.choose("which service", len(SERVICE_NAMES))])
        else:
            with suppress(NotFound, AlreadyExists):
                await self._change_pod(client, self.choose("which pod", len(POD_NAMES)))

    async def _change_service(self, client: Client, name: str) -> None:
        target = TARGETS[self.choose("target", len(TARGETS))]
        match self.choose("how", 4):
            case 0:
                await client.delete(SERVICES, name, NAMESPACE)
                await client.create(SERVICES, a_service(name, target))
            case 1:
                selector = {"app": SERVICE_NAMES[self.choose("app", 2)]}
                await client.patch(SERVICES, name, NAMESPACE, {"spec": {"selector": selector}})
            case _:
                with suppress(AlreadyExists):
                    await client.create(SERVICES, a_service(name, target))
                    return
                ports = a_service(name, target)["spec"]["ports"]
                await client.patch(SERVICES, name, NAMESPACE, {"spec": {"ports": ports}})

    async def _change_pod(self, client: Client, number: int) -> None:
        name = POD_NAMES[number]
        match self.choose("do", 6):
            case 0:
                await client.delete(PODS, name, NAMESPACE, grace_s=0)
                if self.choose("again", 2):
                    await self._bring(client, number)
            case 1:
                app = SERVICE_NAMES[self.choose("app", 2)]
                await client.patch(PODS, name, NAMESPACE, {"metadata": {"labels": {"app": app}}})
            case 2:
                await self._tell(client, name, number, is_ready=False)
            case _:
                await self._bring(client, number)

    async def _bring(self, client: Client, number: int) -> None:
        name = POD_NAMES[number]
        with suppress(AlreadyExists):
            await client.create(PODS, a_pod(name, SERVICE_NAMES[number % 2], TARGETS[number // 2 % 2]))
        await self._tell(client, name, number, is_ready=True)

    async def _tell(self, client: Client, name: str, number: int, *, is_ready: bool) -> None:
        """As its agent does: without disturbing what others have said about it."""
        ready = {"type": "Ready", "status": str(is_ready), "lastTransitionTime": "2026-01-01T00:00:00Z"}
        address = f"10.0.0.{number + 1}"
        status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": [ready]}
        body = {"status": status}
        await client.patch(PODS, name, NAMESPACE, body, type=PatchType.STRATEGIC, subresource="status")

    async def check(self) -> None:
        store = self.world.store
        pods = await _all(store, _PODS)
        pieces = await _all(store, _SLICES)
        endpoints = {each["metadata"]["name"]: each for each in await _all(store, _ENDPOINTS)}
        services = await _all(store, _SERVICES)
        for service in services:
            name, uid = service["metadata"]["name"], service["metadata"]["uid"]
            wanted = sorted(led_to(service, pod) for pod in pods if _is_led_to(service, pod))
            own = [each for each in pieces if each["metadata"]["labels"].get(SERVICE_NAME) == name]
            if others := [each["metadata"]["name"] for each in own if read_owner(each) != uid]:
                raise Violated("services", f"{others} of an earlier {name} still exist at the end")
            found = sorted(_found_in(own))
            if found != wanted:
                raise Violated("services", f"{name} should route to {wanted} at the end, but routes to {found}")
            subsets = endpoints[name].get("subsets") or ()
            told = sorted(each["ip"] for subset in subsets for each in subset.get("addresses") or ())
            if told != sorted(address for _, address, _, is_ready in wanted if is_ready):
                raise Violated("services", f"the endpoints of {name} are {told} at the end, not {wanted}")
        self._check_pods(services, pods)

    def _check_pods(self, services: list[Object], pods: list[Object]) -> None:
        for pod in pods:
            is_served = _is_ready(pod) and any(_is_led_to(service, pod) for service in services)
            said = _condition(pod, SERVING_CONDITION).get("status", "False")
            if said != str(is_served):
                name = pod["metadata"]["name"]
                raise Violated("services", f"{name} has a wrong Serving condition at the end: {said}")


async def _all(store: "LocalStore", prefix: str) -> list[Object]:
    return [_decode(entry.value) for entry in (await store.range(prefix)).entries]


def led_to(service: Object, pod: Object) -> tuple[str, str, int, bool]:
    """What a slice should say of a pod, told without asking the code under test."""
    target = service["spec"]["ports"][0]["targetPort"]
    named = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
    number = named if target == "main" else target
    return pod["metadata"]["uid"], pod["status"]["podIP"], number, _is_ready(pod)


def _is_led_to(service: Object, pod: Object) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return bool(service["spec"]["selector"].items() <= labels.items() and pod["status"].get("podIP"))


def _found_in(pieces: list[Object]) -> list[tuple[str, str, int, bool]]:
    return [
        (each["targetRef"]["uid"], each["addresses"][0], piece["ports"][0]["port"], each["conditions"]["ready"])
        for piece in pieces
        for each in piece["endpoints"]
    ]


def _is_ready(pod: Object) -> bool:
    return bool(_condition(pod, "Ready").get("status") == "True")


def _condition(pod: Object, name: str) -> Mapping[str, Any]:
    found = [each for each in pod["status"].get("conditions") or () if each["type"] == name]
    return found[0] if found else {}


def read_owner(piece: Object) -> str:
    owners = [each["uid"] for each in piece["metadata"].get("ownerReferences") or () if each.get("controller")]
    return owners[0] if owners else ""


def a_service(name: str, target: int | str) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": target, "protocol": "TCP"}]
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"selector": {"app": name}, "ports": ports}}


def a_pod(name: str, app: str, port: int | str) -> Object:
    container = {"name": "main", "image": "x:1", "ports": [{"name": "main", "containerPort": port}]}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": app}}
    return {"metadata": metadata, "spec": {"nodeName": "node-1", "containers": [container]}}


class OnceInSlices:
    """No pod stands in two slices of one Service at any moment."""

    name = "once in slices"

    def __init__(self) -> None:
        self._slices: dict[str, RevisionCommitted] = {}
        self._there: dict[tuple[str, str], dict[str, None]] = {}
        """By Service and pod: the slices."""

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(_SLICES):
            return
        if event.previous is not None:
            for each in self._members(event.previous):
                self._there[each].pop(event.key, None)
        self._slices[event.key] = event
        for each in () if event.value is None else self._members(event.value):
            there = self._there.setdefault(each, {})
            there[event.key] = None
            if len(there) > 1:
                text = f"pod {each[1]} is in {' and '.join(sorted(there))}"
                raise Violated(self.name, text, [self._slices[key] for key in sorted(there)])

    async def at_end(self, world: World) -> None:
        """What is there in the end is the stage's to judge."""

    @staticmethod
    def _members(raw: bytes) -> list[tuple[str, str]]:
        piece = _decode(raw)
        found = [(read_owner(piece), each["targetRef"]["uid"]) for each in piece["endpoints"]]
        if len(found) != len(frozenset(found)):
            raise Violated("once in slices", f"{piece['metadata']['name']} has a pod twice")
        return found


SCENARIO: Final = Scenario(
    name="services-lead",
    about="Services and pods change faster than slices are observed: each pod is in one slice of a Service, once.",
    make=ServicesLead,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OnceInSlices()],
    silence=SILENCE,
    ids=("12",),
)
