"""`mainstay logs` shows what containers wrote: of one, of many, and as it comes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.cli.exits import Exit
from mainstay.cli.logs import LogOptions, show_logs
from mainstay.cli.main import run
from mainstay.client.client import Client
from mainstay.client.errors import BadRequest, NotFound
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from tests.cli.log_api import LogApi, a_log_api
from tests.cli.paper import Paper
from tests.client.world import a_client, a_world
from tests.server.world import a_deployment, a_pod

PLAIN = LogOptions()


@asynccontextmanager
async def a_cluster(sim: Simulation) -> AsyncIterator[tuple[LogApi, Client]]:
    async with a_log_api(sim) as api, a_client(sim) as client:
        api.add("web", "server", labels={"app": "web"})
        api.write("web", "server", b"first\nsec", b"ond\n")
        api.add("pair", "a", "b", labels={"app": "web"})
        api.write("pair", "a", b"from a\n")
        api.write("pair", "b", b"from b, without an end")
        yield api, client


async def shown(client: Client, target: str, options: LogOptions = PLAIN) -> Paper:
    paper = Paper()
    assert await show_logs(client, paper, target, options) == Exit.SATISFIED
    return paper


async def test_the_log_of_a_pod_is_passed_on_as_it_is(sim):
    async with a_cluster(sim) as (api, client):
        assert (await shown(client, "web")).written == b"first\nsecond\n"
        assert (await shown(client, "pair", replace(PLAIN, container="b"))).written == b"from b, without an end"
        assert api.asked == [{"container": "server"}, {"container": "b"}]


async def test_the_first_container_is_meant_if_none_is_named_and_that_is_said(sim):
    async with a_cluster(sim) as (api, client):
        paper = await shown(client, "pair")
        assert (paper.written, paper.notes) == (b"from a\n", ['Defaulted container "a" out of: a, b'])
        api.add("prepared", "a", init=["first"])
        api.write("prepared", "a", b"from a\n")
        assert (await shown(client, "prepared")).notes == ['Defaulted container "a" out of: a, first (init)']
        api.add("annotated", "a", "b", annotations={"kubectl.kubernetes.io/default-container": "b"})
        api.write("annotated", "b", b"chosen\n")
        chosen = await shown(client, "annotated")
        assert (chosen.written, chosen.notes) == (b"chosen\n", [])


async def test_several_logs_follow_each_other_line_by_line_and_may_say_whose_they_are(sim):
    async with a_cluster(sim) as (_, client):
        both = await shown(client, "pair", replace(PLAIN, all_containers=True))
        assert both.lines == ["from a", "from b, without an end"]
        every = await shown(client, "", LogOptions(selector="app=web", all_containers=True, prefix=True))
        assert every.lines == [
            "[pod/web/server] first",
            "[pod/web/server] second",
            "[pod/pair/a] from a",
            "[pod/pair/b] from b, without an end",
        ]


async def test_a_log_is_followed_until_it_is_interrupted(sim):
    async with a_cluster(sim) as (api, client):
        paper = Paper()
        following = tasks.spawn(show_logs(client, paper, "web", replace(PLAIN, follow=True)), name="logs -f")
        await tasks.sleep(timedelta(hours=1))
        api.write("web", "server", b"much later\n")
        await tasks.sleep(timedelta(seconds=1))
        assert paper.lines == ["first", "second", "much later"]
        assert not following.done()
        await tasks.stop(following)


async def test_many_logs_are_followed_at_once_but_not_too_many(sim):
    options = LogOptions(selector="app=web", all_containers=True, prefix=True, follow=True)
    async with a_cluster(sim) as (api, client):
        paper = Paper()
        following = tasks.spawn(show_logs(client, paper, "", options), name="logs -f")
        await tasks.sleep(timedelta(seconds=1))
        for pod, container, piece in (
            ("web", "server", b"ha"),
            ("pair", "a", b"between\n"),
            ("web", "server", b"lf\n"),
        ):
            api.write(pod, container, piece)
            await tasks.sleep(timedelta(seconds=1))
        assert paper.lines[-2:] == ["[pod/pair/a] between", "[pod/web/server] half"]
        await tasks.stop(following)
        with pytest.raises(click.ClickException, match="--max-log-requests is 2"):
            await show_logs(client, Paper(), "", replace(options, streams_max=2))


async def test_what_is_asked_for_is_passed_on(sim):
    everything = LogOptions(
        previous=True,
        tail=20,
        since=timedelta(seconds=90, microseconds=1),
        since_time=datetime(2026, 1, 31, 12, tzinfo=UTC),
        timestamps=True,
        limit_bytes=1000,
    )
    async with a_cluster(sim) as (api, client):
        await shown(client, "web", everything)
        await shown(client, "", LogOptions(selector="app=web"))
        assert api.asked[:2] == [
            {
                "container": "server",
                "previous": "true",
                "timestamps": "true",
                "tailLines": "20",
                "sinceSeconds": "91",
                "sinceTime": "2026-01-31T12:00:00Z",
                "limitBytes": "1000",
            },
            {"container": "server", "tailLines": "10"},
        ]


async def test_a_log_that_breaks_off_is_incomplete(sim):
    async with a_cluster(sim) as (api, client):
        api.breaks_off = True
        paper = Paper()
        assert await show_logs(client, paper, "web", PLAIN) == Exit.INCOMPLETE
        assert paper.written == b"first\nsecond\n"
        assert "broke off" in paper.notes[0]


async def test_what_has_no_log_says_why_and_of_many_only_that_one_fails(sim):
    async with a_cluster(sim) as (api, client):
        with pytest.raises(NotFound, match='pods "gone" not found'):
            await show_logs(client, Paper(), "gone", PLAIN)
        with pytest.raises(click.ClickException, match="container c not found in pod web: it has server"):
            await show_logs(client, Paper(), "web", replace(PLAIN, container="c"))
        api.add("new", "c", labels={"app": "web"})
        with pytest.raises(BadRequest, match="is waiting to start"):
            await show_logs(client, Paper(), "new", PLAIN)
        paper = Paper()
        assert await show_logs(client, paper, "", LogOptions(selector="app=web")) == Exit.ERROR
        assert paper.lines == ["first", "second", "from a"]
        assert paper.notes == [
            'mainstay: pod new, container c: container "c" in pod "new" is waiting to start: ContainerCreating'
        ]
        nothing = await shown(client, "", LogOptions(selector="app=none"))
        assert nothing.notes == ["No resources found in default namespace."]


async def test_an_owner_stands_for_one_of_its_pods(sim):
    async with a_world(sim) as world:
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        for name in ("a", "b"):
            pod: dict[str, Any] = a_pod(name)
            pod["metadata"]["labels"] = {"app": "web"}
            await world.client.create(PODS, pod, "default")
        running = {"status": {"phase": "Running"}}
        await world.client.patch(PODS, "b", "default", running, subresource="status")
        paper = Paper()
        # No node has these pods, which is as far as it goes here.
        with pytest.raises(BadRequest, match="pod b does not have a host assigned"):
            await show_logs(world.client, paper, "deploy/web", PLAIN)
        assert paper.notes == ["Found several pods, using pod/b"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["web", "-l", "app=web"],
        ["web", "--since=5m", "--since-time=2026-01-31T12:00:00Z"],
        ["web", "--since-time=yesterday"],
        ["web", "c", "-c", "d"],
        ["web", "-c", "d", "--all-containers"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments):
    assert run(["logs", *arguments]) == Exit.USAGE
