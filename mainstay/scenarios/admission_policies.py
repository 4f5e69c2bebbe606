"""A policy that one server stores holds on the others from the revision that they say they have reached.

An operator changes two policies of ConfigMaps again and again. One validates: what is written must name at least
version N; N rises and falls, and sometimes the binding is replaced. The other mutates: it stamps what is written with
M, and counts how often it did. After each change the operator waits at a gate until every server has published, in its
ComponentState, that it has seen the revision of the change. From then on the change holds for whatever is sent to any
server: nothing below N is accepted, nothing is denied that is not below it, and every stamp is M. Until then either may
be: each request is judged by all the values that were possible while it was under way.

Each write is stamped once, before it is validated; and the journal names the version of the policy whose stamp it is.
"""

import asyncio
import contextlib
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.kind import Object
from mainstay.api.kind_names import (
    COMPONENT_STATES,
    CONFIG_MAPS,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Env, tasks
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.scenarios._stages import NAMESPACE, SERVERS, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

WRITERS: Final = ("writer-1", "writer-2")
NAMES: Final = tuple(f"map-{number}" for number in range(4))
VERSIONS: Final = 4
POLICY: Final = "versions"
STAMP: Final = "stamps"
NO_STAMP: Final = "no policy has stamped this"
CHECK: Final = "admission policies"
GATE_LOOKS: Final = 60
_LOOK_EVERY: Final = timedelta(milliseconds=500)
_RECORDS_MAX: Final = 100_000
_WRITE_EVERY: Final = timedelta(milliseconds=150)


class AdmissionPoliciesStage(UserStage):
    turn_every = timedelta(seconds=1)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.are_states_published = True
        world.journal = MemoryJournal()
        self._floors, self._stamps = _Possible(), _Possible()
        self.denied = self.accepted = 0
        self._begun_writing = asyncio.Event()
        for name in WRITERS:
            world.add_program(name, partial(self._write, name))

    async def prepare(self, client: Client) -> None:
        await client.create(MUTATING_ADMISSION_POLICIES, _build_stamping(0))
        binding = await client.create(MUTATING_ADMISSION_POLICY_BINDINGS, _STAMPING)
        assert await self._pass_gate(client, int(binding["metadata"]["resourceVersion"]))
        # Only now: before all servers stamp what is written, some would deny it for want of a stamp.
        await client.create(VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": POLICY}, "spec": _build_spec(0)})
        await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, _BINDING)

    async def begin(self) -> None:
        await super().begin()
        self._begun_writing.set()

    async def turn(self, client: Client) -> None:
        """Change a policy, then wait at the gate. A turn that fails leaves open what holds."""
        if not self.choose("stamps", 3):
            stamp = self.choose("stamp", VERSIONS)
            self._stamps.add(stamp)
            policy = await client.patch(MUTATING_ADMISSION_POLICIES, STAMP, "", _build_stamping(stamp))
            if await self._pass_gate(client, int(policy["metadata"]["resourceVersion"])):
                self._stamps.settle(stamp)
            return
        if self._floors.is_settled and not self.choose("replaces the binding", 4):
            await self._replace_binding(client)
            return
        floor = self.choose("floor", VERSIONS)
        self._floors.add(floor)
        spec = {"spec": _build_spec(floor)}
        policy = await client.patch(VALIDATING_ADMISSION_POLICIES, POLICY, "", spec)
        if await self._pass_gate(client, int(policy["metadata"]["resourceVersion"])):
            self._floors.settle(floor)

    async def _replace_binding(self, client: Client) -> None:
        """For a while nothing is required, until servers have seen the new one."""
        floor = self._floors.now[0]
        self._floors.add(0)
        with contextlib.suppress(NotFound):
            await client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, POLICY)
        binding = await client.create(VALIDATING_ADMISSION_POLICY_BINDINGS, _BINDING)
        if await self._pass_gate(client, int(binding["metadata"]["resourceVersion"])):
            self._floors.settle(floor)

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
                floors_at, stamps_at = self._floors.mark(), self._stamps.mark()
                try:
                    written = await _put(client, chosen, version)
                except ApiError as error:
                    if error.cause == ADMISSION_POLICY_VIOLATED:
                        self._judge_denial(name, version, self._floors.since(floors_at), str(error))
                    continue
                self.accepted += 1
                if version < (least := min(self._floors.since(floors_at))):
                    text = f"{name} wrote version {version}, though all servers have seen that {least} is required"
                    raise Violated(CHECK, text)
                self._judge_stamp(name, written, self._stamps.since(stamps_at))
            await asyncio.Event().wait()

    def _judge_denial(self, name: str, version: int, floors: tuple[int, ...], said: str) -> None:
        self.denied += 1
        if NO_STAMP in said:
            raise Violated(CHECK, f"{name} was denied for want of a stamp, which a policy gives to each write before")
        if version >= max(floors):
            text = f"{name} was denied version {version}, though no more than {max(floors)} is required"
            raise Violated(CHECK, text)

    def _judge_stamp(self, name: str, written: Object, stamps: tuple[int, ...]) -> None:
        data = written["data"]
        if data.get("count") != "1":
            raise Violated(CHECK, f"a write of {name} was stamped {data.get('count')} times instead of once")
        if int(data["stamp"]) not in stamps:
            text = f"{name} got stamp {data['stamp']}, though all servers have seen one of {sorted(set(stamps))}"
            raise Violated(CHECK, text)

    async def check(self) -> None:
        """The journal names, with each write, the version of the policy whose stamp the object has."""
        journal = self.world.journal
        assert journal is not None
        policies = await journal.changes(kind=MUTATING_ADMISSION_POLICIES.text)
        stamps = {each.revision: _read(each.value)["metadata"]["labels"]["stamp"] for each in policies.records}
        maps = await journal.changes(kind=CONFIG_MAPS.text, namespace=NAMESPACE)
        stamped = {each.revision: _read(each.value)["data"]["stamp"] for each in maps.records if each.value}
        for record in (await journal.writes(kind=CONFIG_MAPS.text, namespace=NAMESPACE, limit=_RECORDS_MAX)).records:
            named = [stamps.get(each.revision) for each in record.mutations]
            if named != [stamped[record.revision]]:
                text = f"revision {record.revision} has stamp {stamped[record.revision]}, and its record names {named}"
                raise Violated(CHECK, text)


class _Possible:
    """What may have held, at each time. One value: all servers have seen it."""

    def __init__(self) -> None:
        self._history: list[tuple[int, ...]] = [(0,)]

    @property
    def now(self) -> tuple[int, ...]:
        return self._history[-1]

    @property
    def is_settled(self) -> bool:
        return len(self.now) == 1

    def add(self, value: int) -> None:
        self._history.append((*self.now, value))

    def settle(self, value: int) -> None:
        self._history.append((value,))

    def mark(self) -> int:
        return len(self._history) - 1

    def since(self, mark: int) -> tuple[int, ...]:
        """Each that was possible since then."""
        return tuple(value for values in self._history[mark:] for value in values)


_KINDS: Final = (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
_BINDING: Final = {"metadata": {"name": POLICY}, "spec": {"policyName": POLICY, "validationActions": ["Deny"]}}


_STAMPING: Final = {"metadata": {"name": STAMP}, "spec": {"policyName": STAMP}}
_RULE: Final = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": [CONFIG_MAPS.plural],
}
_MATCH: Final = {
    "resourceRules": [_RULE],
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
}


def _build_spec(floor: int) -> dict[str, Any]:
    expression = f"!has(object.data) || !('version' in object.data) || int(object.data.version) >= {floor}"
    stamped = {"expression": "object.?data.?stamp.hasValue()", "message": NO_STAMP}
    return {"matchConstraints": _MATCH, "validations": [stamped, {"expression": expression}]}


def _build_stamping(stamp: int) -> dict[str, Any]:
    count = "string(int(object.?data.?count.orValue('0')) + 1)"
    expression = f"Object{{data: {{'stamp': '{stamp}', 'count': {count}}}}}"
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    return {
        "metadata": {"name": STAMP, "labels": {"stamp": str(stamp)}},
        "spec": {"matchConstraints": _MATCH, "mutations": [mutation], "reinvocationPolicy": "Never"},
    }


async def _put(client: Client, name: str, version: int) -> Object:
    body = {"data": {"version": str(version), "count": "0"}}
    try:
        return await client.patch(CONFIG_MAPS, name, NAMESPACE, body)
    except NotFound:
        return await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}, **body})


def _read(value: bytes | None) -> Object:
    found: Object = msgspec.json.decode(value or b"{}")
    return found


SCENARIO: Final = Scenario(
    name="admission-policies",
    about="Policies change while servers lag: each holds from the revision that a server says it has seen.",
    make=AdmissionPoliciesStage,
    checkers=list,
    faults=("server-behind", "server-crash", "watch-delay", "answer-lost", "latency", "cut", "pause"),
    ids=("T2", "T9"),
)
