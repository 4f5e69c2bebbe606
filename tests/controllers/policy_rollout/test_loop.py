"""Rollouts in a simulated cluster, through the API: what `why` answers on the way, and that decisions are replayed."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import PODS, POLICY_ROLLOUTS
from mainstay.api.policy_rollout import RolloutReason
from mainstay.client.client import Client
from mainstay.client.errors import Invalid
from mainstay.controllers.policy_rollout.controller import PolicyRollouts
from mainstay.env import tasks
from mainstay.explain.moment import Moment
from mainstay.explain.replay import Same, replay_all
from mainstay.explain.why.answer import Verdict, WhyAnswer
from mainstay.explain.why.causes import Cause
from mainstay.explain.why.dispatch import why
from mainstay.registry import REGISTRY, load_deciders
from mainstay.scenarios._schedulers import a_pod
from mainstay.scenarios.stale_policy_canary import BAD, GATE, GOOD, STAGES, WORKLOADS, StalePolicyCanary
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation

pytestmark = pytest.mark.slow

NAME = "rollout"


class RolledOutCluster:
    """The stage of the scenario, without faults and without its user."""

    def __init__(self, sim: Simulation) -> None:
        self.world = World(sim, journal=True)
        self.stage = StalePolicyCanary(self.world)
        self.client: Client
        self._turns = 0

    async def start(self) -> "RolledOutCluster":
        await self.world.boot()
        await self.stage.ready()
        self.world.know("tester")
        self.client = self.world.client_for("tester", self.world.sim.env("tester"))
        return self

    async def roll_out(self, policy: str, **spec: Any) -> None:
        body = {"policy": policy, "stages": STAGES[1:], "gate": GATE, **spec}
        await self.client.create(POLICY_ROLLOUTS, {"metadata": {"name": NAME}, "spec": body})

    async def create_pods(self) -> None:
        """One of each workload."""
        self._turns += 1
        for workload in WORKLOADS:
            pod = a_pod(f"{workload}-{self._turns}", cpu="1")
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": workload, "uid": workload}
            pod["metadata"] |= {"labels": {"app": workload}, "ownerReferences": [{**owner, "controller": True}]}
            await self.client.create(PODS, pod)

    async def until(self, reason: RolloutReason, *, creates_pods: bool = False) -> None:
        async with tasks.timeout(timedelta(minutes=5)):
            while await self._read_reason() != reason:
                await tasks.sleep(timedelta(seconds=1))
                if creates_pods:
                    await self.create_pods()

    async def _read_reason(self) -> str:
        status = (await self.client.get(POLICY_ROLLOUTS, NAME)).get("status") or {}
        return str(status.get("reason") or "")

    async def ask(self) -> WhyAnswer:
        assert self.world.journal is not None
        return await why(await Moment.now(self.world.journal), REGISTRY, POLICY_ROLLOUTS, NAME, "")

    async def require_replayed(self, least: int) -> None:
        journal = self.world.journal
        assert journal is not None
        records = [each for each in journal.records() if each.component == PolicyRollouts.name]
        answers = [answer async for _, answer in replay_all(journal, records, load_deciders())]
        assert len(answers) > least
        assert [each for each in answers if not isinstance(each, Same)] == []


async def test_why_names_what_the_gate_waits_for_until_the_rollout_is_complete(sim):
    cluster = await RolledOutCluster(sim).start()
    await cluster.roll_out(GOOD)
    await cluster.until(RolloutReason.SIGNALS_STALE)
    stale = await cluster.ask()
    await cluster.until(RolloutReason.TOO_FEW_SAMPLES)
    few = await cluster.ask()
    await cluster.until(RolloutReason.COMPLETE, creates_pods=True)
    complete = await cluster.ask()

    assert (stale.cause, stale.verdict) == (Cause.STALE_VIEW, Verdict.WAITING)
    assert "in stage canary (SignalsStale): apiserver-server-1 has observed " in stale.sentence
    assert "kubectl get componentstates" in stale.advice
    assert (few.cause, few.verdict) == (Cause.ROLLING_OUT, Verdict.WAITING)
    assert "0 of 6 pods under the candidate can be judged" in few.sentence
    assert "spec.gate.minSamples" in few.advice
    assert [link.step for link in few.chain] == ["fresh", "rollout"]
    assert (complete.cause, complete.verdict) == (Cause.SATISFIED, Verdict.SATISFIED)
    await cluster.require_replayed(least=10)


async def test_why_names_the_regression_that_a_rollout_went_back_for(sim):
    cluster = await RolledOutCluster(sim).start()
    await cluster.roll_out(BAD)
    await cluster.until(RolloutReason.ROLLED_BACK, creates_pods=True)
    answer = await cluster.ask()

    assert (answer.cause, answer.verdict) == (Cause.POLICY_ROLLED_BACK, Verdict.BLOCKED)
    assert "PlacementPolicy risk-v4 is in force as before (RegressionFound: " in answer.sentence
    await cluster.require_replayed(least=5)


async def test_why_names_what_users_must_resolve(sim):
    cluster = await RolledOutCluster(sim).start()
    await cluster.roll_out("risk-v9")
    await cluster.until(RolloutReason.CANDIDATE_NOT_FOUND)
    missing = await cluster.ask()

    assert (missing.cause, missing.verdict) == (Cause.REFERENCE_MISSING, Verdict.BLOCKED)
    assert "PlacementPolicy risk-v9 not found" in missing.sentence
    assert missing.advice.startswith("Create that PlacementPolicy; or delete this rollout")


async def test_why_does_not_send_users_to_the_gate_of_a_rollout_that_they_aborted(sim):
    cluster = await RolledOutCluster(sim).start()
    await cluster.roll_out(GOOD)
    await cluster.until(RolloutReason.SIGNALS_STALE)
    await cluster.client.patch(POLICY_ROLLOUTS, NAME, "", {"spec": {"aborted": True}})
    await cluster.until(RolloutReason.ROLLED_BACK)
    answer = await cluster.ask()

    assert answer.cause is Cause.POLICY_ROLLED_BACK
    assert answer.advice.startswith("Nothing, if that is intended.")


async def test_the_server_refuses_to_change_what_a_rollout_has_begun_with(sim):
    cluster = await RolledOutCluster(sim).start()
    await cluster.roll_out(GOOD)
    for change in ({"policy": BAD}, {"previous": "risk-v4"}, {"stages": STAGES}):
        with pytest.raises(Invalid, match=f"spec.{next(iter(change))}: .*field is immutable"):
            await cluster.client.patch(POLICY_ROLLOUTS, NAME, "", {"spec": change})

    await cluster.client.patch(POLICY_ROLLOUTS, NAME, "", {"spec": {"paused": True, "freshnessSeconds": 90}})
