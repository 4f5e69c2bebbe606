"""kubectl and the decisions of a real server: got, selected, watched; and its journal from outside, after a crash."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from mainstay.client.client import Client
from mainstay.client.config import from_kubeconfig
from mainstay.client.remote_journal import RemoteJournal
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.journal.record import DecisionRecord, Ending, Subject
from mainstay.journal.record import Outcome as RecordedOutcome
from mainstay.loop.record_shipper import Shipper
from tests.clients.kubectl import Kubectl, a_pod, lines_until
from tests.clients.server_process import ServerProcess

pytestmark = pytest.mark.slow

REFUSED = {
    "COMPONENT": "quota",
    "OBJECT": "Pod/web",
    "OUTCOME": "Refused",
    "REASON": "QuotaExceeded",
    "WROTE": "1 failed",
}


@pytest.fixture
def refused(kubectl: Kubectl) -> None:
    """A pod was refused by a quota."""
    kubectl("create", "quota", "none", "--hard=pods=0")
    assert "exceeded quota: none" in kubectl.refused("create", "-f", "-", stdin=a_pod("web"))


@pytest.mark.usefixtures("refused")
def test_a_refusal_is_among_the_decisions(kubectl: Kubectl):
    (row,) = kubectl.table("get", "decisions")

    name = row.pop("NAME")
    assert row == REFUSED
    assert name.startswith("quota-")
    shown = yaml.safe_load(kubectl("get", "decision", name, "-o", "yaml"))
    assert (shown["kind"], shown["subject"]["name"], shown["user"]) == ("Decision", "web", "kubernetes-admin")
    assert "Exceeded" in kubectl("describe", "decision", name)


@pytest.mark.usefixtures("refused")
def test_decisions_are_selected_by_object_component_and_outcome(kubectl: Kubectl):
    by_object = kubectl("get", "dec", "--field-selector=subject.kind=pods,subject.name=web", "-o", "name")
    by_outcome = kubectl("get", "dec", "-A", "--field-selector=outcome=Refused,component=quota", "-o", "name")

    assert by_object.startswith("decision.mainstay.dev/quota-")
    assert by_object in by_outcome
    assert kubectl("get", "dec", "--field-selector=subject.name=other", "-o", "name") == ""
    assert "not supported: colour" in kubectl.refused("get", "dec", "--field-selector=colour=red")


def test_decisions_are_watched(kubectl: Kubectl):
    kubectl("create", "quota", "none", "--hard=pods=0")
    with kubectl.running("get", "decisions", "--watch") as watching:
        kubectl.refused("create", "-f", "-", stdin=a_pod("one"))
        lines = lines_until(watching, "Pod/one")
        kubectl.refused("create", "-f", "-", stdin=a_pod("two"))
        lines += lines_until(watching, "Pod/two")

    assert lines[0] == ["AGE", "COMPONENT", "OBJECT", "OUTCOME", "REASON", "WROTE", "NAME"]
    # What is decided while the list is being made may be in it, and is watched as well: never in neither.
    assert list(dict.fromkeys(line[2] for line in lines[1:])) == ["Pod/one", "Pod/two"]


def test_sampling_is_configured_like_anything_else(kubectl: Kubectl):
    policy = {"apiVersion": "mainstay.dev/v1", "kind": "SamplingPolicy", "metadata": {"name": "default"}}
    rule = {"name": "failures", "when": {"failures": True}}
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps({**policy, "spec": {"rules": [rule]}}))
    (row,) = kubectl.table("get", "samplingpolicies")
    bad = json.dumps({**policy, "spec": {"rules": [{"name": "x", "keep": "some"}]}})
    why = kubectl.refused("apply", "--server-side", "-f", "-", stdin=bad)
    kubectl("delete", "samplingpolicy", "default")

    assert row == {"NAME": "default", "RULES": "1", "DRY RUN": "false", "INCIDENT UNTIL": "<none>"}
    assert "spec.rules[0].keep" in why


def test_what_a_component_has_told_a_server_is_there_after_the_server_was_killed(tmp_path: Path):
    decision = DecisionRecord(
        "scheduler-1", 1_700_000_000_000_000, "scheduler", "b", Subject("pods", "default", "web"),
        RecordedOutcome(Ending.DONE, "Placed"),
    )  # fmt: skip

    async def tell_and_ask(server: ServerProcess) -> None:
        env = Env(SystemClock(), Chance.fresh(), SystemDisk(tmp_path / "component"))
        config = from_kubeconfig(server.kubeconfig.read_text(), server.data_dir)
        async with Client(config, env, user_agent="test/1") as client:
            async with Shipper(client, env, source="scheduler-0") as shipper:
                shipper.record(decision)
                async with asyncio.timeout(20):
                    await shipper.flush()
            server.kill()
        server.start()
        async with Client(config, env, user_agent="test/1") as client:
            journal = RemoteJournal(client)
            extent = await journal.extent()
            found = await journal.decision("scheduler-1")
            namespaces = (await journal.state({"namespaces": extent.reached})).kinds["namespaces"]
            assert found is not None
            assert (found.outcome.reason, found.kept) == ("Placed", "actions=full")
            assert "default" in {key.name for key in namespaces}

    with ServerProcess("--journal-keep=1d", "--journal-bytes=100MiB") as server:
        asyncio.run(tell_and_ask(server))
