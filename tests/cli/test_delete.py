"""`mainstay delete` removes what it is told to, and waits until it is gone."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import click
import pytest

from mainstay.api.kind_names import CONFIG_MAPS, PODS
from mainstay.cli.delete import DeleteArguments, delete_objects
from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.cli.manifests import parse_manifests
from mainstay.cli.object_selection import ObjectSelection
from mainstay.client.client import Client
from mainstay.client.errors import NotFound
from mainstay.env import tasks
from tests.cli.paper import Paper
from tests.client.world import a_world
from tests.server.world import a_configmap, a_pod

PLAIN = DeleteArguments()


async def deleted(client: Client, *words: str, options: DeleteArguments = PLAIN, text: str = "") -> Paper:
    paper = Paper()
    manifests = parse_manifests(text, "a.yaml") if text else []
    assert await delete_objects(client, paper, words, manifests, options) == Exit.SATISFIED
    return paper


async def names(client: Client) -> list[str]:
    listed = (await client.list(CONFIG_MAPS, "default")).items
    return [each["metadata"]["name"] for each in listed if each["metadata"]["name"] != "kube-root-ca.crt"]


def held(name: str) -> dict[str, Any]:
    """Something that does not go until it is let go."""
    return {"metadata": {"name": name, "finalizers": ["example.com/hold"]}}


async def test_objects_are_removed_by_name_by_path_by_labels_all_or_from_a_file(sim):
    async with a_world(sim) as world:
        for name in "abcdefg":
            await world.client.create(
                CONFIG_MAPS, a_configmap(name, {"half": "yes" if name > "d" else "no"}), "default"
            )
        assert (await deleted(world.client, "cm", "a", "b")).lines == [
            'configmap "a" deleted',
            'configmap "b" deleted',
        ]
        await deleted(world.client, "configmap/c")
        selected = replace(PLAIN, selection=ObjectSelection(labels="half=yes"))
        await deleted(world.client, "cm", options=selected)
        assert await names(world.client) == ["d"]
        await world.client.create(CONFIG_MAPS, a_configmap("from-a-file"), "default")
        await deleted(world.client, text="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-a-file}")
        assert await names(world.client) == ["d"]
        await deleted(world.client, "cm", options=replace(PLAIN, all=True))
        assert await names(world.client) == []


async def test_a_missing_object_is_an_error_unless_ignored(sim):
    async with a_world(sim) as world:
        paper = Paper()
        assert await delete_objects(world.client, paper, ["cm", "gone"], [], PLAIN) == Exit.ERROR
        assert paper.notes == ['mainstay: configmaps "gone" not found']
        calm = await deleted(world.client, "cm", "gone", options=replace(PLAIN, ignore_not_found=True))
        assert (calm.lines, calm.notes) == ([], [])
        none = await deleted(world.client, "pods", options=replace(PLAIN, all=True))
        assert none.notes == ["No resources found"]


async def test_it_waits_until_the_object_is_gone_and_not_for_its_successor(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, held("slow"), "default")
        paper = Paper()
        waiting = tasks.spawn(delete_objects(world.client, paper, ["cm", "slow"], [], PLAIN), name="delete")
        await tasks.sleep(timedelta(seconds=30))
        assert paper.lines == ['configmap "slow" deleted']
        assert not waiting.done()
        await world.client.patch(CONFIG_MAPS, "slow", "default", {"metadata": {"finalizers": []}})
        await world.client.create(CONFIG_MAPS, a_configmap("slow"), "default")
        async with tasks.timeout(timedelta(seconds=5)):
            assert await waiting == Exit.SATISFIED


async def test_it_waits_no_longer_than_it_is_told_or_not_at_all(sim):
    async with a_world(sim) as world:
        for name in ("slow", "slower"):
            await world.client.create(CONFIG_MAPS, held(name), "default")
        paper = Paper()
        started = sim.env("client").clock.monotonic_ns()
        limited = replace(PLAIN, timeout=timedelta(seconds=7))
        assert await delete_objects(world.client, paper, ["cm", "slow"], [], limited) == Exit.TIMEOUT
        assert (sim.env("client").clock.monotonic_ns() - started) // 10**9 == 7
        assert paper.notes == ["mainstay: timed out waiting for the deletion of configmap/slow"]
        await deleted(world.client, "cm", "slower", options=replace(PLAIN, wait=False))


async def test_a_dry_run_removes_nothing(sim):
    async with a_world(sim) as world:
        await world.client.create(CONFIG_MAPS, a_configmap("a"), "default")
        paper = await deleted(world.client, "cm", "a", options=replace(PLAIN, dry_run=True))
        assert paper.lines == ['configmap "a" deleted (server dry run)']
        assert await names(world.client) == ["a"]


async def test_a_grace_period_is_passed_on_and_force_leaves_none(sim):
    async with a_world(sim) as world:
        for name in ("graceful", "forced"):
            await world.client.create(PODS, a_pod(name, nodeName="n"), "default")
        await deleted(world.client, "pod", "graceful", options=replace(PLAIN, grace_s=17, wait=False))
        going = await world.client.get(PODS, "graceful", "default")
        assert going["metadata"]["deletionGracePeriodSeconds"] == 17
        paper = await deleted(world.client, "pod", "forced", options=replace(PLAIN, grace_s=0, force=True))
        assert paper.lines == ['pod "forced" force deleted']
        assert "may continue to run" in paper.notes[0]
        with pytest.raises(NotFound):
            await world.client.get(PODS, "forced", "default")


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["pods"], PLAIN, "missing the names of pods"),
        (["pod", "a"], replace(PLAIN, all=True), "exclude each other"),
        (["pod", "a"], replace(PLAIN, selection=ObjectSelection(labels="a=b")), "exclude each other"),
        (["pod", "a"], replace(PLAIN, selection=ObjectSelection(namespace="")), "a name and -A exclude each other"),
    ],
)
async def test_what_could_remove_too_much_is_refused(sim, words, options, message):
    async with a_world(sim) as world:
        with pytest.raises(click.UsageError, match=message):
            await delete_objects(world.client, Paper(), words, [], options)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["pod", "a", "-f", "x.yaml"],
        ["pod", "a", "--now", "--grace-period=3"],
        ["pod", "a", "--force", "--grace-period=3"],
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments, tmp_path, monkeypatch):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"
        "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:1'}}]"
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert run(["delete", *arguments]) == Exit.USAGE
