"""`mainstay get` shows what is in a cluster, in the forms that kubectl has."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import click
import pytest
import yaml

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.cli.exits import Exit
from mainstay.cli.get import get_objects
from mainstay.cli.object_selection import GetOptions, ObjectSelection
from mainstay.cli.output import Output, OutputFormat
from mainstay.client.client import Client
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from tests.cli.paper import Paper
from tests.client.world import GATE_PORT, World, a_client, a_gate, a_world
from tests.server.world import a_deployment, a_pod

PLAIN = GetOptions()
EVERYWHERE = GetOptions(selection=ObjectSelection(namespace=""))


@asynccontextmanager
async def a_cluster(sim: Simulation) -> AsyncIterator[World]:
    """Two pods, of which one has a label, and a deployment."""
    async with a_world(sim) as world:
        labelled = a_pod("one")
        labelled["metadata"]["labels"] = {"app": "web", "example.com/tier": "front"}
        await world.client.create(PODS, labelled, "default")
        await world.client.create(PODS, a_pod("two"), "default")
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        yield world


async def shown(client: Client, *words: str, options: GetOptions = PLAIN) -> Paper:
    paper = Paper()
    assert await get_objects(client, paper, words, options) == Exit.SATISFIED
    return paper


def in_form(form: OutputFormat) -> GetOptions:
    return GetOptions(output=Output(form))


async def test_a_table_has_the_columns_of_its_kind(sim):
    async with a_cluster(sim) as world:
        paper = await shown(world.client, "pods")
    assert paper.words == [
        ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        ["one", "0/1", "Pending", "0", "0s"],
        ["two", "0/1", "Pending", "0", "0s"],
    ]
    assert paper.lines[0].index("READY") == paper.lines[1].index("0/1")


@pytest.mark.parametrize("word", ["pods", "pod", "po", "Pod", "PODS", "pods.v1"])
async def test_a_kind_has_many_names(sim, word):
    async with a_cluster(sim) as world:
        assert (await shown(world.client, word, options=in_form(OutputFormat.NAME))).lines == ["pod/one", "pod/two"]


@pytest.mark.parametrize("word", ["deploy", "deployments.apps", "deployment.v1.apps"])
async def test_a_kind_of_a_group_is_shown_with_it(sim, word):
    async with a_cluster(sim) as world:
        assert (await shown(world.client, word, options=in_form(OutputFormat.NAME))).lines == ["deployment.apps/web"]


async def test_several_types_make_several_tables_with_names_that_say_which(sim):
    async with a_cluster(sim) as world:
        for word in ("pods,deploy", "all"):
            paper = await shown(world.client, word)
            first_words = [line[0] if line else "" for line in paper.words if line[:1] != ["service/kubernetes"]]
            assert first_words[:3] == ["NAME", "pod/one", "pod/two"]
            assert first_words[-3:] == ["", "NAME", "deployment.apps/web"]


async def test_objects_are_named_one_by_one_or_with_their_types(sim):
    async with a_cluster(sim) as world:
        assert len((await shown(world.client, "pods", "two", "one")).lines) == 3
        both = await shown(world.client, "pod/two", "deploy/web", options=in_form(OutputFormat.NAME))
        assert both.lines == ["pod/two", "deployment.apps/web"]


async def test_all_namespaces_are_told_apart(sim):
    async with a_cluster(sim) as world:
        paper = await shown(world.client, "pods", options=EVERYWHERE)
        assert [line[:2] for line in paper.words] == [["NAMESPACE", "NAME"], ["default", "one"], ["default", "two"]]


async def test_selectors_choose(sim):
    async with a_cluster(sim) as world:
        for selection in (ObjectSelection(labels="app=web"), ObjectSelection(fields="metadata.name=one")):
            paper = await shown(world.client, "pods", options=replace(in_form(OutputFormat.NAME), selection=selection))
            assert paper.lines == ["pod/one"]


async def test_columns_can_be_added_and_titles_left_out(sim):
    async with a_cluster(sim) as world:
        options = GetOptions(show_labels=True, label_columns=("example.com/tier",), no_headers=True)
        assert [line[-2:] for line in (await shown(world.client, "pods", options=options)).words] == [
            ["front", "app=web,example.com/tier=front"],
            ["0s", "<none>"],
        ]
        titled = await shown(world.client, "pods", options=replace(options, no_headers=False))
        assert titled.words[0][-2:] == ["TIER", "LABELS"]
        wide = await shown(world.client, "deploy", options=in_form(OutputFormat.WIDE))
        assert wide.words[0][-6:] == ["CONTAINERS", "IMAGES", "SELECTOR", "PROGRESS", "LIMITED", "BY"]


async def test_an_object_is_shown_whole_but_for_what_only_servers_need(sim):
    async with a_cluster(sim) as world:
        as_json = json.loads((await shown(world.client, "pod", "one", options=in_form(OutputFormat.JSON))).text)
        as_yaml = yaml.safe_load((await shown(world.client, "pod", "one", options=in_form(OutputFormat.YAML))).text)
        listed = json.loads((await shown(world.client, "pods", options=in_form(OutputFormat.JSON))).text)
        with_managers = replace(in_form(OutputFormat.JSON), show_managed_fields=True)
        managed = json.loads((await shown(world.client, "pod", "one", options=with_managers)).text)
    assert as_json == as_yaml
    assert (as_json["kind"], as_json["apiVersion"], as_json["metadata"]["name"]) == ("Pod", "v1", "one")
    assert "managedFields" not in as_json["metadata"]
    assert managed["metadata"]["managedFields"]
    assert (listed["kind"], listed["items"][0]) == ("List", as_json)


async def test_what_is_not_there_is_said_and_is_an_error(sim):
    async with a_cluster(sim) as world:
        paper = Paper()
        assert await get_objects(world.client, paper, ["pod", "one", "gone"], PLAIN) == Exit.ERROR
        assert paper.notes == ['mainstay: pods "gone" not found']
        assert len(paper.lines) == 2
        silent = GetOptions(ignore_not_found=True)
        assert (await shown(world.client, "pod", "gone", options=silent)).notes == []


async def test_an_empty_list_is_no_error(sim):
    async with a_cluster(sim) as world:
        assert (await shown(world.client, "jobs")).notes == ["No resources found in default namespace."]
        assert (await shown(world.client, "nodes")).notes == ["No resources found"]


async def test_a_type_that_is_not_there_may_have_been_mistyped(sim):
    async with a_cluster(sim) as world:
        with pytest.raises(click.ClickException, match=r'a resource type "deploymets"; did you mean deployments'):
            await get_objects(world.client, Paper(), ["deploymets"], PLAIN)


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        ([], PLAIN, "missing argument TYPE"),
        (["pod/one", "two"], PLAIN, "must be TYPE/NAME"),
        (["pod/"], PLAIN, "must be TYPE/NAME"),
        (["pod", "one"], EVERYWHERE, "a name and -A exclude each other"),
        (["pod", "one"], GetOptions(selection=ObjectSelection(labels="a=b")), "exclude each other"),
        (["pods,deploy"], GetOptions(watch=True), "-w watches one type or one object"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_advice(sim, words, options, message):
    async with a_world(sim) as world:
        with pytest.raises(click.UsageError, match=message):
            await get_objects(world.client, Paper(), words, options)


@asynccontextmanager
async def watching(client: Client, options: GetOptions, *words: str) -> AsyncIterator[Paper]:
    paper = Paper()
    watch = tasks.spawn(get_objects(client, paper, words, options), name="get -w")
    await tasks.sleep(timedelta(seconds=1))
    yield paper
    await tasks.stop(watch)


def names(paper: Paper) -> list[str]:
    return [line[0] for line in paper.words]


async def test_a_watch_goes_on_with_each_change(sim):
    async with a_cluster(sim) as world, watching(world.client, GetOptions(watch=True), "pods") as paper:
        assert names(paper) == ["NAME", "one", "two"]
        await world.client.create(PODS, a_pod("a-third-with-a-long-name"), "default")
        await world.client.delete(PODS, "one", "default", grace_s=0)
        await tasks.sleep(timedelta(seconds=1))
        assert names(paper)[3:] == ["a-third-with-a-long-name", "one"]


async def test_a_watch_of_one_object_shows_only_that_in_any_form(sim):
    options = replace(in_form(OutputFormat.NAME), watch=True, watch_only=True)
    async with a_cluster(sim) as world, watching(world.client, options, "pod/two") as paper:
        for name in ("one", "two"):
            await world.client.patch(PODS, name, "default", {"metadata": {"labels": {"seen": "yes"}}})
        await tasks.sleep(timedelta(seconds=1))
        assert paper.lines == ["pod/two"]


async def test_a_watch_of_what_is_not_there_yet_begins_with_titles(sim):
    async with a_world(sim) as world, watching(world.client, GetOptions(watch=True), "pods") as paper:
        assert paper.lines == []
        await world.client.create(PODS, a_pod("late"), "default")
        await tasks.sleep(timedelta(seconds=1))
        assert names(paper) == ["NAME", "late"]


async def test_a_watch_that_breaks_off_goes_on_where_it_was(sim):
    async with (
        a_cluster(sim) as world,
        a_gate(sim) as gate,
        a_client(sim, f"gate:{GATE_PORT}") as client,
        watching(client, replace(in_form(OutputFormat.NAME), watch=True), "pods") as paper,
    ):
        gate.break_all()
        await world.client.create(PODS, a_pod("three"), "default")
        await tasks.sleep(timedelta(seconds=10))
        assert paper.lines == ["pod/one", "pod/two", "pod/three"]


async def test_a_watch_that_cannot_go_on_is_incomplete(sim):
    paper = Paper()
    async with a_cluster(sim), a_client(sim, f"gate:{GATE_PORT}") as client:
        async with a_gate(sim):
            watch = tasks.spawn(get_objects(client, paper, ["pods"], GetOptions(watch=True)), name="get -w")
            await tasks.sleep(timedelta(seconds=1))
        async with tasks.timeout(timedelta(minutes=5)):
            assert await watch == Exit.INCOMPLETE
    assert "Is the cluster at http://gate:7000 running?" in paper.notes[0]


async def test_pages_are_put_together(sim):
    async with a_world(sim) as world:
        for number in range(501):
            await world.client.create(PODS, a_pod(f"p{number:03}"), "default")
        found: dict[str, Any] = json.loads((await shown(world.client, "pods", options=in_form(OutputFormat.JSON))).text)
        assert len(found["items"]) == 501
        assert len((await shown(world.client, "pods")).lines) == 502
