"""The token in a pod's volume is always one that the server accepts, however long the pod runs."""

from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mainstay.agent.pod.tokens import PodTokens, TokenNeed
from mainstay.agent.runner import PodPlace, VolumePlan
from mainstay.agent.runners.pretend import PretendRunner
from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.env import Env, tasks
from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import a_cluster, a_pod, an_agent
from tests.twins import agents as twins

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class NotAccepted(Exception):
    """A running pod has a token that the server no longer accepts, or none."""


def keep_volumes(world: World, node: str) -> dict[str, Sequence[VolumePlan]]:
    """The volumes of the pods of a node, by uid, as they were last brought up to date."""
    volumes: dict[str, Sequence[VolumePlan]] = {}
    machine = world.machines[node]

    class Keeping(PretendRunner):
        async def place(self, pod_uid: str, namespace: str, name: str, volumes_: Sequence[VolumePlan]) -> PodPlace:
            volumes[pod_uid] = volumes_
            return await super().place(pod_uid, namespace, name, volumes_)

    def runner(env: Env) -> PretendRunner:
        return Keeping.on(machine.containers, machine.images, env, lambda id_, command: 0, machine.load)

    machine.runner = runner  # type: ignore[method-assign]
    world.programs[node].crash()
    world.programs[node].start()
    return volumes


def token_in(volumes: Sequence[VolumePlan], path: str = "token") -> str:
    files = [file for volume in volumes for file in volume.files or () if file.path == path]
    return files[0].data.decode() if files else ""


async def require_accepted(client: Client, token: str, audience: str = "") -> None:
    spec: dict[str, Any] = {"token": token or "none", **({"audiences": [audience]} if audience else {})}
    answer = await client.request("POST", TOKEN_REVIEWS, body={"spec": spec})
    if b'"authenticated":true' not in answer.body:
        raise NotAccepted(answer.body.decode())


async def run_for(sim: Simulation, duration: timedelta, every: timedelta, **token: Any) -> tuple[int, int]:
    """Run a pod, and check its token regularly. Returns how many were requested, and how many of them differ."""
    source = {"serviceAccountToken": {"path": "own", **{name: value for name, value in token.items() if value}}}
    volumes = [{"name": "tokens", "projected": {"sources": [source]}}]
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        kept = keep_volumes(world, "node-0")
        pod = await client.create(PODS, a_pod("web", volumes=volumes, automountServiceAccountToken=False), "default")
        await tasks.sleep(MINUTE)
        seen: dict[str, None] = {}
        for _ in range(duration // every):
            text = token_in(kept[pod["metadata"]["uid"]], "own")
            seen[text] = None
            await require_accepted(client, text, token.get("audience", ""))
            await tasks.sleep(every)
        requests = [each for each in world.history.events if isinstance(each, RequestReceived)]
        return len([each for each in requests if each.path.endswith("/default/token")]), len(seen)


@pytest.mark.parametrize(
    ("lifetime_s", "audience", "minutes", "expected"),
    [(3607, "", 65, 2), (600, "vault", 28, 4)],  # One at the beginning, then one after each 49 and 8 minutes.
    ids=["usual", "shortest"],
)
async def test_a_token_is_rotated_before_it_expires(sim, lifetime_s, audience, minutes, expected):
    found = await run_for(sim, minutes * MINUTE, MINUTE, expirationSeconds=lifetime_s, audience=audience)
    assert found == (expected, expected)


class CountingServer:
    """Answers each token request with the next number."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    async def request(self, method: str, path: str, *, body: Any) -> Any:
        self.requests.append(body["spec"])
        answer = {"spec": body["spec"], "status": {"token": f"token-{len(self.requests)}"}}
        return SimpleNamespace(body=msgspec.json.encode(answer))


async def test_a_long_token_is_rotated_once_a_day(sim):
    server: Any = CountingServer()
    tokens = PodTokens(server, sim.env("node-0").clock)
    need = TokenNeed("", 30 * 24 * 3600)
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": need.lifetime_s}}
    pod = a_pod("web", volumes=[{"name": "v", "projected": {"sources": [source]}}])
    pod["metadata"] |= {"uid": "u1", "namespace": "default"}
    seen = []
    for _ in range(50):
        seen.append((await tokens.collect(pod))[need])
        await tasks.sleep(HOUR)
    assert seen == ["token-1"] * 24 + ["token-2"] * 24 + ["token-3"] * 2
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": "u1"}
    assert server.requests == [{"expirationSeconds": need.lifetime_s, "boundObjectRef": bound}] * 3


async def test_a_token_that_is_not_rotated_is_found(sim, monkeypatch):
    twins.keeps_a_token_for_ever(monkeypatch)
    with pytest.raises(NotAccepted, match="expired"):
        await run_for(sim, 65 * MINUTE, 2 * MINUTE, expirationSeconds=3607)


async def run_without_server(sim: Simulation) -> None:
    """The server is away at the moment at which the token is due, and back before it expires."""
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        kept = keep_volumes(world, "node-0")
        pod = await client.create(PODS, a_pod("web"), "default")
        await tasks.sleep(47 * MINUTE)
        world.sim.network.cut("node-0", "server-0")
        await tasks.sleep(5 * MINUTE)
        await require_accepted(client, token_in(kept[pod["metadata"]["uid"]]))
        world.sim.network.heal_all()
        await tasks.sleep(3 * MINUTE)
        await require_accepted(client, token_in(kept[pod["metadata"]["uid"]]))
        await tasks.sleep(30 * MINUTE)
        await require_accepted(client, token_in(kept[pod["metadata"]["uid"]]))


async def test_a_token_that_cannot_be_rotated_stays_in_use_while_it_is_valid(sim):
    await run_without_server(sim)


async def test_a_token_ends_with_its_pod(sim):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        kept = keep_volumes(world, "node-0")
        pod = await client.create(PODS, a_pod("web"), "default")
        await tasks.sleep(MINUTE)
        token = token_in(kept[pod["metadata"]["uid"]])
        await require_accepted(client, token)
        await client.delete(PODS, "web", "default")
        await tasks.sleep(5 * MINUTE)
        with pytest.raises(NotAccepted, match="invalidated"):
            await require_accepted(client, token)
