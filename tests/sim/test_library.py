"""`mainstay.sim` as others use it: a cluster, a program of their own, and what goes wrong, in a few lines."""

import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

import mainstay.sim
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.sim import (
    Cluster,
    OwnStage,
    Scenario,
    Simulation,
    Violated,
    all_but,
    assert_survives,
    bare_cluster,
    every,
    only,
    usual_checkers,
    whole_cluster,
)
from mainstay.sim.checkers import Checker
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import NotQuiet, World
from mainstay.sim.errors import Unhandled
from mainstay.sim.testing.manifests import BadManifest, NoSuchKind
from mainstay.sim.testing.programs import NotRunnable
from mainstay.sim.testing.trouble import CannotHappen, NeverHappened, NoSuchFault, NoSuchProgram
from tests.test_examples import EXAMPLES, a_website, example

pytestmark = pytest.mark.slow

WEBSITE = EXAMPLES / "01_website.yaml"


def a_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def copy(client: Client) -> None:
    """What is wanted in `wanted` is made `there`. Wrong: it takes an answer that does not come for a refusal."""
    while True:
        await asyncio.sleep(1)
        try:
            wanted = await client.get(CONFIG_MAPS, "wanted", "default")
            await client.create(CONFIG_MAPS, a_map(f"there-{wanted['data']['n']}"))
        except ApiError:
            continue


async def names(world: Cluster) -> list[str]:
    return [each["metadata"]["name"] for each in (await world.client.list(CONFIG_MAPS, "default")).items]


# A controller, a crash, and peace.


async def test_a_controller_of_ones_own_survives_a_crash_between_two_writes(sim: Simulation):
    website = example("01_website")
    async with whole_cluster(sim, crds=WEBSITE) as world:
        world.run(website.Websites())
        world.crash_after_write("websites", 1)
        await world.client.create(website.WEBSITES, a_website())
        await world.quiet()

        (online,) = (await world.client.get(website.WEBSITES, "blog", "default"))["status"]["conditions"]
        assert (online["status"], online["message"]) == ("True", "2 replicas are ready")
        assert ["crashes after its request" in event.what for event in world.faults_seen()] == [True]
        assert world.program("websites").incarnation == 1


# Programs.


async def test_a_program_may_ask_for_a_client_or_for_what_any_client_needs(sim: Simulation):
    given: dict[str, Any] = {}

    async def one(client: Client) -> None:
        given["made"] = await client.create(CONFIG_MAPS, a_map("one"))

    async def other(url: str, token: str, kubeconfig: dict[str, Any], env: object) -> None:
        given.update(url=url, token=token, kubeconfig=kubeconfig)
        await raw_get(url, token)

    async def raw_get(url: str, token: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"GET /api/v1/namespaces HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        )
        given["answer"] = await reader.readline()
        writer.close()

    async with bare_cluster(sim) as world:
        world.run(one)
        world.run(other, name="raw")
        await world.quiet()

        assert given["made"]["metadata"]["name"] == "one"
        assert given["answer"] == b"HTTP/1.1 200 OK\r\n"
        assert given["url"] == world.url == "http://server-1:6443"
        assert given["kubeconfig"] == world.kubeconfig("raw")
        assert given["kubeconfig"]["users"] == [{"name": "raw", "user": {"token": given["token"]}}]
        assert list(world.world.programs) == ["one", "raw"]


async def test_what_is_no_program_is_refused_with_what_would_be_one(sim: Simulation):
    async def wants_more(client: Client, shop: str) -> None: ...

    async with bare_cluster(sim) as world:
        with pytest.raises(NotRunnable, match=r"unknown parameters shop; .* client, env, .*functools\.partial"):
            world.run(wants_more)
        with pytest.raises(NotRunnable, match="is not a program; pass a Controller"):
            world.run("websites")  # type: ignore[arg-type]
        world.run(partial(wants_more, shop="mine"), name="fine")
        with pytest.raises(NotRunnable, match="a program named 'fine' already exists"):
            world.run(copy, name="fine")


def test_a_program_that_fails_fails_the_test():
    async def wrong() -> None:
        raise ValueError("on purpose")

    async def main(sim: Simulation) -> None:
        async with bare_cluster(sim) as world:
            world.run(wrong)
            await world.quiet()

    with pytest.raises(Unhandled, match="program wrong failed") as raised, Simulation(1) as sim:
        sim.run(main(sim))
    assert isinstance(raised.value.__cause__, ValueError)


# Objects.


async def test_objects_come_from_yaml_dicts_and_files_and_kinds_are_known_by_name(sim: Simulation):
    async with bare_cluster(sim, crds=WEBSITE) as world:
        await world.add(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n{apiVersion: example.com/v1,"
            " kind: Website, metadata: {name: blog}, spec: {image: x}}"
        )

        assert (await world.client.get(world.kind("Website"), "blog", "default"))["spec"]["image"] == "x"
        assert world.kind("websites.example.com") == world.kind("websites") == world.kind("website")
        assert world.kind("deployments") == DEPLOYMENTS
        assert await names(world) == ["a"]

        with pytest.raises(NoSuchKind, match="unknown kind 'shops'; add its CustomResource"):
            world.kind("shops")
        with pytest.raises(NoSuchKind, match=r"unknown kind Shop in example.com/v1; add"):
            await world.add({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "a"}})
        with pytest.raises(BadManifest, match=r"for a file, pass a pathlib\.Path"):
            await world.add("website.yaml")
        with pytest.raises(BadManifest, match="apiVersion or kind is missing"):
            await world.add({"metadata": {"name": "a"}})


# What goes wrong.


async def test_an_answer_that_is_lost_is_one_of_a_write_that_was_done(sim: Simulation):
    async def once(client: Client) -> None:
        await asyncio.sleep(1)
        with suppress(ApiError):
            await client.create(CONFIG_MAPS, a_map("there"))

    async with bare_cluster(sim) as world:
        world.run(once)
        world.lose_answer_of("once", about="configmaps")
        await world.quiet()

        assert await names(world) == ["there"]
        assert len(world.faults_seen()) == 1


async def test_a_request_that_is_lost_is_one_of_a_write_that_was_not_done(sim: Simulation):
    async def once(client: Client) -> None:
        await asyncio.sleep(1)
        with suppress(ApiError):
            await client.create(CONFIG_MAPS, a_map("missing"))

    async with bare_cluster(sim) as world:
        world.run(once)
        world.lose_request_of("once", about="configmaps")
        await world.quiet()

        assert await names(world) == []
        assert len(world.faults_seen()) == 1


async def test_each_fault_is_done_to_one_program_and_is_over_when_all_is_quiet(sim: Simulation):
    beats: list[float] = []

    async def beat(client: Client) -> None:
        while True:
            await asyncio.sleep(1)
            try:
                await client.list(CONFIG_MAPS, "default")
                beats.append(asyncio.get_running_loop().time())
            except ApiError:
                continue

    async with bare_cluster(sim) as world:
        program = world.run(beat)
        for fault in (world.crash, world.pause, world.cut):
            await asyncio.sleep(20)
            before = len(beats)
            fault("beat", timedelta(seconds=10))
            await asyncio.sleep(9)
            assert len(beats) <= before + 1
        await world.quiet()
        before = len(beats)
        await asyncio.sleep(10)

        assert len(beats) > before + 5
        assert program.incarnation == 1
        assert [event.what.split(" for ")[0] for event in world.faults_seen() if not event.what.startswith("over")] == [
            "beat crashes",
            "beat is paused",
            "beat is partitioned",
        ]


async def test_who_is_stale_hears_of_nothing_and_then_of_everything(sim: Simulation):
    heard: list[str] = []

    async def listen(client: Client) -> None:
        async with client.watch(CONFIG_MAPS, "default") as watch:
            async for event in watch:
                heard.append(event.type)

    async with bare_cluster(sim) as world:
        world.run(listen)
        await asyncio.sleep(5)
        before = len(heard)
        world.stale("listen", timedelta(seconds=30))
        await world.client.create(CONFIG_MAPS, a_map("a"))
        await asyncio.sleep(20)
        assert "ADDED" not in heard[before:]
        await asyncio.sleep(15)
        assert heard[before:].count("ADDED") == 1


async def test_faults_by_chance_go_on_for_as_long_as_was_said(sim: Simulation):
    async with bare_cluster(sim) as world:
        world.run(copy)
        world.disturb(only("crash", "cut", "watch-delay"), timedelta(minutes=3), often=2)
        await world.quiet()
        seen = len(world.faults_seen())
        assert seen > 2
        assert sim.loop.time() > 180
        await asyncio.sleep(300)

        assert len(world.faults_seen()) == seen
        assert world.program("copy").is_running


ALWAYS = 25  # Times as often as usual: at each beat, every two seconds.


async def rest() -> None:
    await asyncio.Event().wait()


def begun(world: Cluster) -> list[str]:
    return [event.what for event in world.faults_seen() if not event.what.startswith("over: ")]


async def test_random_faults_end_on_time_even_if_the_test_does_not_wait_for_quiet(sim: Simulation):
    async with bare_cluster(sim) as world:
        world.run(rest)
        world.disturb(only("pause", "cut"), timedelta(seconds=21), often=ALWAYS)
        await asyncio.sleep(300)

        assert len(begun(world)) == 20
        assert world.faults_seen()[-1].at_ns < sim.loop.time_ns() - 200 * 10**9


async def test_a_second_disturbance_replaces_the_first(sim: Simulation):
    async with bare_cluster(sim) as world:
        for name in ("one", "two"):
            world.run(rest, name=name)
        world.disturb(only("pause"), timedelta(seconds=15), often=ALWAYS, hitting=["one"])
        await asyncio.sleep(11)
        first = begun(world)
        world.disturb(only("pause"), timedelta(seconds=15), often=ALWAYS, hitting=["two"])
        await asyncio.sleep(60)
        second = begun(world)[len(first) :]

        assert [what.split()[0] for what in first] == ["one"] * 5
        assert [what.split()[0] for what in second] == ["two"] * 7
        await world.heal()
        assert world.world.spared == {}


@pytest.mark.parametrize(
    ("fault", "lacking"),
    [
        ("disk-full", "its store has no disk"),
        ("power-cut", "its store has no disk"),
        ("node-death", "it has no nodes"),
        ("slow-pull", "its nodes pull no images"),
        ("version-skew", "no program has other versions"),
    ],
)
async def test_a_fault_that_is_named_and_cannot_happen_is_an_error(sim: Simulation, fault: str, lacking: str):
    async with bare_cluster(sim) as world:
        world.run(rest)
        for named in (only("crash", fault), ["crash", fault]):
            with pytest.raises(CannotHappen, match=f"^{fault} cannot happen in this cluster: {lacking}"):
                world.disturb(named)

        for unnamed in (every(), all_but("pause")):
            world.disturb(unnamed)
        assert fault not in world.world.faults.on
        assert "crash" in world.world.faults.on


async def test_versions_can_be_skewed_only_of_who_may_be_hit(sim: Simulation):
    async with bare_cluster(sim) as world:
        world.run(rest, name="plain")
        world.run(rest, name="versioned", versions={"old": rest})

        with pytest.raises(CannotHappen, match="version-skew"):
            world.disturb(only("version-skew"), hitting=["plain"])
        world.disturb(only("version-skew"), hitting=["versioned"])


async def test_a_fault_that_never_happens_is_an_error(sim: Simulation):
    async with bare_cluster(sim) as world:
        world.run(copy)
        world.crash_before_write("copy", 3)

        with pytest.raises(NeverHappened, match="crash-before at write 3 of copy: it made 0"):
            await world.quiet()


async def test_an_unknown_name_is_rejected_with_the_known_ones(sim: Simulation):
    async with bare_cluster(sim) as world:
        with pytest.raises(NoSuchProgram, match="unknown program 'websites'; this cluster has server-1"):
            world.crash("websites")
        with pytest.raises(NoSuchFault, match=r"unknown fault earthquake; known faults: .*crash"):
            world.disturb(only("crash", "earthquake"))
        with pytest.raises(NoSuchFault, match="unknown write fault 'cut'; known: request-lost"):
            world.at_write("cut", "server-1")


def test_faults_are_chosen_by_name():
    assert "crash" in every()
    assert only("cut", "crash") == ("cut", "crash")
    assert set(all_but("cut")) == set(every()) - {"cut"}


async def test_who_writes_for_ever_is_never_quiet(sim: Simulation):
    async def restless(client: Client) -> None:
        for number in range(1_000):
            await client.patch(CONFIG_MAPS, "a", "default", {"data": {"n": str(number)}})
            await asyncio.sleep(5)

    async with bare_cluster(sim) as world:
        await world.client.create(CONFIG_MAPS, a_map("a"))
        world.run(restless)

        with pytest.raises(NotQuiet, match="updates core/configmaps/default/a"):
            await world.quiet(within=timedelta(minutes=1))


# Checkers.


class NoSecondMap:
    """A checker of the user's own."""

    name = "one map"

    def __init__(self) -> None:
        self.made = 0
        self.is_asked = False

    def saw(self, event: Event) -> None:
        if isinstance(event, RevisionCommitted) and event.key.startswith("core/configmaps/default/"):
            self.made += 1
            if self.made > 1:
                raise Violated(self.name, "there is a second one", [event])

    async def at_end(self, world: World) -> None:
        self.is_asked = True


def test_a_promise_of_ones_own_is_checked_and_asked_for_in_the_end():
    checker = NoSecondMap()

    async def main(sim: Simulation, count: int, checkers: list[Checker]) -> None:
        async with bare_cluster(sim, checkers=checkers) as world:
            for number in range(count):
                await world.client.create(CONFIG_MAPS, a_map(f"map-{number}"))
            await world.quiet()

    with Simulation(1) as sim:
        sim.run(main(sim, 1, [checker]))
    assert checker.is_asked
    with pytest.raises(Unhandled) as raised, Simulation(1) as sim:
        sim.run(main(sim, 2, [NoSecondMap()]))
    assert "one map: there is a second one" in str(raised.value.__cause__)


# The package.


def test_everything_that_is_offered_is_there_and_nothing_is_imported_before_it_is_used():
    assert all(getattr(mainstay.sim, name) is not None for name in mainstay.sim._HOME)
    with pytest.raises(AttributeError, match="has no attribute 'Earthquake'"):
        mainstay.sim.Earthquake  # noqa: B018
    code = "import sys, json, mainstay.sim; print(json.dumps([m for m in sys.modules if m.startswith('mainstay')]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == ["mainstay", "mainstay.sim"]


# A scenario.


class Copies(OwnStage):
    """A user wants a map, and `copy` makes another one of it."""

    programs = MappingProxyType({"copy": copy})
    crds = WEBSITE

    async def use(self, client: Client) -> None:
        await self.ensure(
            client, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wanted"}, "data": {"n": "1"}}
        )
        await self.ensure(client, {"apiVersion": "example.com/v1", "kind": "Website", **a_website()})

    async def check(self) -> None:
        names = [each["metadata"]["name"] for each in await self.objects("configmaps")]
        sites = await self.objects("Website")
        if (names, len(sites)) != (["there-1", "wanted"], 1):
            raise Violated("copies", f"there are {names}")


COPIES = Scenario("copies", "What is wanted is copied.", Copies, usual_checkers, silence=timedelta(seconds=10))


def test_a_scenario_of_ones_own_is_programs_wishes_and_a_check():
    assert_survives(COPIES, seeds=3, jobs=1, one_in=0)
