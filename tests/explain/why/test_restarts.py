"""Restarts: which of them are a crash loop, since when, and what is to be done about one."""

import shlex
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

import pytest

from mainstay.agent.pod.why.ends import Ends
from mainstay.agent.runner import ContainerSpec
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.cli.logs import logs
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause, Tier
from mainstay.sim.cluster.cluster import Cluster
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_deployment, a_pod, asked, rest
from tests.faults.objects import an_acting_node

pytestmark = pytest.mark.slow

ACTING: Final = {"node-a": an_acting_node("node-a", 1)}
CHECK: Final = {"exec": {"command": ["check"]}, "periodSeconds": 5, "failureThreshold": 2}
FOR_LONG: Final = timedelta(minutes=16)
SOON: Final = timedelta(seconds=20)


def behave(cluster: Cluster, how: Callable[[ContainerSpec], Behaviour]) -> None:
    for machine in cluster.world.machines.values():
        machine.behave = how
        machine.answer = lambda id_, command: 1


def one_after_the_other(*runs: tuple[timedelta, int]) -> Callable[[ContainerSpec], Behaviour]:
    """So long each, with such a code; and then for ever."""
    left = list(runs)

    def next_run(spec: ContainerSpec) -> Behaviour:
        if not left:
            return Behaviour()
        lasts, code = left.pop(0)
        return Behaviour(lasts=lasts, code=code)

    return next_run


def unready_pod() -> Object:
    pod = a_pod("web")
    pod["spec"]["containers"][0]["readinessProbe"] = CHECK
    return pod


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([(FOR_LONG, 0), (SOON, 143)], id="done, then asked to end"),
        pytest.param([(SOON, 143), (SOON, 143)], id="asked to end twice"),
        pytest.param([(SOON, 0), (SOON, 0)], id="done twice"),
        pytest.param([(FOR_LONG, 1), (FOR_LONG, 1)], id="failed, but seldom"),
        pytest.param([(SOON, 143), (SOON, 1)], id="failed once"),
    ],
)
async def test_a_pod_that_runs_after_harmless_restarts_is_told_by_what_is_wrong_with_it_now(
    sim: Simulation, runs: list[tuple[timedelta, int]]
):
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, one_after_the_other(*runs))
        await cluster.client.create(PODS, unready_pod(), "default")
        await rest(sum(lasts.total_seconds() for lasts, _ in runs) + 60)
        answer = await asked(cluster, PODS, "web")
        [status] = (await cluster.client.get(PODS, "web", "default"))["status"]["containerStatuses"]

    assert (status["restartCount"], "running" in status["state"]) == (2, True)
    assert answer.cause is Cause.READINESS_PROBE_FAILING, answer.sentence


async def test_a_pod_that_runs_for_a_moment_between_two_crashes_is_in_a_crash_loop(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, lambda spec: Behaviour(lasts=timedelta(seconds=20), code=1))
        await cluster.client.create(PODS, unready_pod(), "default")
        found = []
        for _ in range(60):
            await rest(5)
            [status] = (await cluster.client.get(PODS, "web", "default"))["status"]["containerStatuses"]
            if status["restartCount"] >= 2:
                found.append(("running" in status["state"], (await asked(cluster, PODS, "web")).cause))

    assert {True, False} == {runs for runs, _ in found}
    assert {cause for _, cause in found} == {Cause.CRASH_LOOP}


async def test_a_crash_loop_is_told_since_its_first_crash_and_not_since_the_last(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, one_after_the_other((FOR_LONG, 0), *[(timedelta(seconds=3), 1)] * 50))
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(FOR_LONG.total_seconds() + 60)
        early = await asked(cluster, DEPLOYMENTS, "web")
        await rest(600)
        late = await asked(cluster, DEPLOYMENTS, "web")

    assert (early.cause, late.cause) == (Cause.CRASH_LOOP, Cause.CRASH_LOOP)
    assert early.since is not None
    assert late.since == early.since
    assert timedelta(seconds=40) < early.at - early.since < timedelta(seconds=60)


async def test_what_to_do_about_a_crash_loop_can_be_run_as_it_is_printed(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, lambda spec: Behaviour(lasts=timedelta(seconds=1), code=1))
        pod = a_pod("web", initContainers=[{"name": "migrate", "image": "x:1", "command": ["migrate"]}])
        await cluster.client.create(PODS, pod, "default")
        await cluster.client.create(DEPLOYMENTS, a_deployment("api", 1))
        await rest(60)
        answer = await asked(cluster, PODS, "web")
        above = await asked(cluster, DEPLOYMENTS, "api")
        [of_it] = (await cluster.client.list(PODS, "default", labels="app=api")).items

    assert answer.advice == "Read its log: `mainstay logs web -c migrate -n default --previous`."
    name = of_it["metadata"]["name"]
    assert above.advice == f"Read its log: `mainstay logs {name} -c main -n default --previous`."
    words = shlex.split(above.advice.split("`")[1])
    assert words[:2] == ["mainstay", "logs"]
    parsed = logs.make_context("logs", words[2:]).params
    assert (parsed["target"], parsed["container"], parsed["previous"]) == (name, "main", True)


async def test_of_a_command_that_was_never_executed_no_log_is_asked_for(sim: Simulation):
    said = {"exitCode": 128, "reason": "StartError", "message": 'executable "slep" not found'}
    async with a_cluster(sim, ACTING) as cluster:
        behave(cluster, lambda spec: Behaviour(lasts=timedelta(seconds=1), code=1))
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(60)
        for program in ACTING:
            cluster.world.programs[program].pause()
        await rest(1)
        pod = await cluster.client.get(PODS, "web", "default")
        [status] = pod["status"]["containerStatuses"]
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        status["lastState"]["terminated"].update(said)
        await cluster.client.patch(PODS, "web", "default", {"status": pod["status"]}, subresource="status")
        await rest(1)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.tier, answer.verdict) == (
        Cause.CONTAINER_CANNOT_START,
        Tier.MISCONFIGURED,
        Verdict.BLOCKED,
    )
    assert 'executable "slep" not found' in answer.sentence
    assert "log" not in answer.advice


def ended(minute: int, code: int = 1, lasted: int = 0, **more: Any) -> dict[str, Any]:
    begin = minute - lasted
    return {
        "exitCode": code,
        "startedAt": f"2026-01-01T00:{begin:02}:00Z",
        "finishedAt": f"2026-01-01T00:{minute:02}:05Z",
        **more,
    }


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ([ended(1), ended(2), ended(3)], 1),
        ([ended(1), ended(2, 0), ended(3), ended(4)], 3),
        ([ended(1), ended(20, lasted=15), ended(21)], 20),
        ([ended(1), ended(2, 137, reason="Fenced"), ended(3), ended(4, 137, signal=9)], 3),
    ],
)
def test_a_row_of_failures_begins_after_the_last_run_that_was_as_it_should_be(
    ends: Iterable[dict[str, Any]], first: int
):
    found = Ends(tuple(ends), is_complete=True)
    assert found.fails_often
    since = found.since()
    assert since is not None
    assert since.minute == first


def test_of_restarts_that_the_journal_does_not_have_it_is_taken_that_they_were_like_the_later_ones():
    assert Ends((ended(1),), is_complete=False).fails_often
    assert not Ends((ended(1),), is_complete=True).fails_often
    assert not Ends((ended(1, 0),), is_complete=False).fails_often
    assert not Ends((), is_complete=False).fails_often
