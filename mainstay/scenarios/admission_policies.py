"""A policy that one server stores holds on the others from the revision that they say they have reached.

An operator changes the policy of ConfigMaps again and again: what is written must name at least version N; N rises and
falls, and sometimes the binding is replaced. After each change the operator waits at a gate until every server has
published, in its ComponentState, that it has seen the revision of the change. From then on the change holds for
whatever is sent to any server: nothing below N is accepted, and nothing is denied that is not below it. Until then
either may be: each request is judged by all the values that were possible while it was under way.
"""

import asyncio
import contextlib
from datetime import timedelta
from functools import partial
from typing import Any, Final

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.kind_names import (
    COMPONENT_STATES,
    CONFIG_MAPS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import NAMESPACE, SERVERS, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

WRITERS: Final = ("writer-1", "writer-2")
NAMES: Final = tuple(f"map-{number}" for number in range(4))
VERSIONS: Final = 4
POLICY: Final = "versions"
GATE_LOOKS: Final = 60
_LOOK_EVERY: Final = timedelta(milliseconds=500)
_WRITE_EVERY: Final = timedelta(milliseconds=150)


class AdmissionPoliciesStage(UserStage):
    turn_every = timedelta(seconds=1)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.are_states_published = True
        self._history: list[tuple[int, ...]] = [(0,)]
        """What may have been required, at each time; the last is now. One: all servers have seen it."""
        self.denied = self.accepted = 0
        self._begun_writing = asyncio.Event()
        for name in WRITERS:
            world.add_program(name, partial(self._write, name))

    async def prepare(self, client: Client) -> None:
        await client.create(VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": POLICY}, "spec": _build_spec(0)})
        await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, _BINDING)

    async def begin(self) -> None:
        await super().begin()
        self._begun_writing.set()

    async def turn(self, client: Client) -> None:
        """Require another version, then wait at the gate. A turn that fails leaves open what holds."""
        if len(self._history[-1]) == 1 and not self.choose("replaces the binding", 4):
            await self._replace_binding(client)
            return
        floor = self.choose("floor", VERSIONS)
        self._history.append((*self._history[-1], floor))
        spec = {"spec": _build_spec(floor)}
        policy = await client.patch(VALIDATING_ADMISSION_POLICIES, POLICY, "", spec)
        if await self._pass_gate(client, int(policy["metadata"]["resourceVersion"])):
            self._history.append((floor,))

    async def _replace_binding(self, client: Client) -> None:
        """For a while nothing is required, until servers have seen the new one."""
        floor = self._history[-1][0]
        self._history.append((floor, 0))
        with contextlib.suppress(NotFound):
            await client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, POLICY)
        binding = await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, _BINDING)
        if await self._pass_gate(client, int(binding["metadata"]["resourceVersion"])):
            self._history.append((floor,))

    async def _pass_gate(self, client: Client, revision: int) -> bool:
        """Whether every server says that it has seen a revision."""
        for _ in range(GATE_LOOKS):
            found = await client.list(COMPONENT_STATES)
            seen = {each["metadata"]["name"]: (each.get("status") or {}).get("revisions") or {} for each in found.items}
            servers = [seen.get(f"apiserver-{name}") or {} for name in SERVERS]
            if all(each.get(kind.text, 0) >= revision for each in servers for kind in _KINDS):
                return True
            await tasks.sleep(_LOOK_EVERY)
        return False

    async def _write(self, name: str, env: Env) -> None:
        choices = self.world.sim.choices
        async with self.world.client_for(name, env) as client:
            await self._begun_writing.wait()
            while not self._is_over:
                await tasks.sleep(_WRITE_EVERY)
                version = choices.choose(f"work/{name}/version", VERSIONS)
                chosen = NAMES[choices.choose(f"work/{name}/which", len(NAMES))]
                at = len(self._history) - 1
                try:
                    await _put(client, chosen, version)
                except ApiError as error:
                    if error.cause == ADMISSION_POLICY_VIOLATED:
                        self._judge_denial(name, version, self._find_floors(at))
                    continue
                self.accepted += 1
                if version < (least := min(self._find_floors(at))):
                    text = f"{name} wrote version {version}, though all servers have seen that {least} is required"
                    raise Violated("admission policies", text)
            await asyncio.Event().wait()

    def _find_floors(self, at: int) -> tuple[int, ...]:
        """Each that was possible since then."""
        return tuple(floor for floors in self._history[at:] for floor in floors)

    def _judge_denial(self, name: str, version: int, floors: tuple[int, ...]) -> None:
        self.denied += 1
        if version >= max(floors):
            text = f"{name} was denied version {version}, though no more than {max(floors)} is required"
            raise Violated("admission policies", text)


_KINDS: Final = (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
_BINDING: Final = {"metadata": {"name": POLICY}, "spec": {"policyName": POLICY, "validationActions": ["Deny"]}}


def _build_spec(floor: int) -> dict[str, Any]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [CONFIG_MAPS.plural],
    }
    expression = f"!has(object.data) || !('version' in object.data) || int(object.data.version) >= {floor}"
    return {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}


async def _put(client: Client, name: str, version: int) -> None:
    body = {"data": {"version": str(version)}}
    try:
        await client.patch(CONFIG_MAPS, name, NAMESPACE, body)
    except NotFound:
        await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, **body})


SCENARIO: Final = Scenario(
    name="admission-policies",
    about="A policy changes while servers lag: it holds on each from the revision that it says it has seen.",
    make=AdmissionPoliciesStage,
    checkers=list,
    faults=("server-behind", "server-crash", "watch-delay", "answer-lost", "latency", "cut", "pause"),
    ids=("T2", "T9"),
)
