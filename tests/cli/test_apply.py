"""`mainstay apply` makes the cluster have what files say, and tells what it did."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS
from mainstay.cli.apply import ApplyOptions, apply_all
from mainstay.cli.exits import Exit
from mainstay.cli.manifests import parse_manifests, read_manifests
from mainstay.cli.output import Output, OutputFormat
from mainstay.client.client import Client, parse_warning
from mainstay.client.errors import NotFound
from tests.cli.paper import Paper
from tests.client.world import a_world

PLAIN = ApplyOptions()

TWO = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: red}
---
# A comment alone is no document.
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1"}]}
"""
DEFINITION_AND_ONE = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.example.com}
spec:
  group: example.com
  names: {kind: Site, plural: sites}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Site
metadata: {name: home}
"""


def a_map(colour: str, **metadata: Any) -> str:
    whole = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", **metadata},
        "data": {"colour": colour},
    }
    return json.dumps(whole)


async def applied(client: Client, text: str, options: ApplyOptions = PLAIN) -> Paper:
    paper = Paper()
    assert await apply_all(client, paper, parse_manifests(text, "a.yaml"), options) == Exit.SATISFIED
    return paper


async def refused(client: Client, text: str, options: ApplyOptions = PLAIN) -> Paper:
    paper = Paper()
    assert await apply_all(client, paper, parse_manifests(text, "a.yaml"), options) == Exit.ERROR
    return paper


async def test_warnings_of_the_server_are_shown(sim):
    text = TWO.replace("spec: {containers", 'spec: {subdomain: "x", containers')
    async with a_world(sim) as world:
        paper = Paper()
        world.client.on_warning = paper.note
        assert await apply_all(world.client, paper, parse_manifests(text, "two.yaml"), PLAIN) == Exit.SATISFIED
        words = "not enforced: there is no cluster DNS: read the EndpointSlices of the Service"
        assert f"spec.template.spec.subdomain: {words}" in paper.notes


def test_a_warning_is_read_from_its_header():
    assert parse_warning(r'299 - "unknown field \"a\\b\""') == 'unknown field "a\\b"'


async def test_what_was_made_what_was_changed_and_what_was_not_is_told_apart(sim):
    async with a_world(sim) as world:
        first = await applied(world.client, TWO)
        assert first.lines == ["configmap/settings created", "deployment.apps/web created"]
        again = await applied(world.client, TWO)
        assert again.lines == ["configmap/settings unchanged", "deployment.apps/web unchanged"]
        changed = await applied(world.client, TWO.replace("red", "blue"))
        assert changed.lines == ["configmap/settings configured", "deployment.apps/web unchanged"]
        made = await world.client.get(DEPLOYMENTS, "web", "default")
        assert {each["manager"] for each in made["metadata"]["managedFields"]} == {"mainstay"}


async def test_what_is_in_the_file_no_more_is_taken_back(sim):
    async with a_world(sim) as world:
        await applied(world.client, a_map("red", labels={"a": "b"}))
        assert (await applied(world.client, a_map("red"))).lines == ["configmap/settings configured"]
        assert "labels" not in (await world.client.get(CONFIG_MAPS, "settings", "default"))["metadata"]


async def test_a_dry_run_tells_and_changes_nothing(sim):
    dry = replace(PLAIN, dry_run=True)
    async with a_world(sim) as world:
        assert (await applied(world.client, a_map("red"), dry)).lines == ["configmap/settings created (server dry run)"]
        with pytest.raises(NotFound):
            await world.client.get(CONFIG_MAPS, "settings", "default")
        await applied(world.client, a_map("red"))
        assert (await applied(world.client, a_map("red"), dry)).lines == [
            "configmap/settings unchanged (server dry run)"
        ]
        assert (await applied(world.client, a_map("blue"), dry)).lines == [
            "configmap/settings configured (server dry run)"
        ]
        assert (await world.client.get(CONFIG_MAPS, "settings", "default"))["data"] == {"colour": "red"}


async def test_what_others_own_is_left_alone_unless_it_is_taken_over(sim):
    async with a_world(sim) as world:
        await world.client.apply(CONFIG_MAPS, json.loads(a_map("red", namespace="default")), manager="other-manager")
        paper = await refused(world.client, a_map("blue"))
        assert paper.notes[0].startswith("mainstay: a.yaml: conflict: other field managers own fields")
        assert ".data.colour" in paper.notes[0]
        assert "other-manager" in paper.notes[0]
        assert "--force-conflicts" in paper.notes[0]
        forced = await applied(world.client, a_map("blue"), replace(PLAIN, force_conflicts=True))
        assert forced.lines == ["configmap/settings configured"]


async def test_an_error_in_one_object_does_not_keep_the_others_from_being_applied(sim):
    bad = a_map("red").replace('"data"', '"dada"')
    async with a_world(sim) as world:
        paper = await refused(world.client, f"{bad}\n---\n{TWO}")
        assert paper.lines == ["configmap/settings created", "deployment.apps/web created"]
        assert paper.notes[0].startswith("mainstay: a.yaml, document 1: ")
        assert "dada" in paper.notes[0]


async def test_a_kind_may_be_defined_in_the_same_file(sim):
    async with a_world(sim) as world:
        assert (await applied(world.client, DEFINITION_AND_ONE)).lines == [
            "customresourcedefinition.apiextensions.k8s.io/sites.example.com created",
            "site.example.com/home created",
        ]
        paper = await refused(world.client, "apiVersion: example.com/v1\nkind: Sight\nmetadata: {name: x}")
        assert paper.notes == [
            'mainstay: a.yaml: no kind "Sight" in version "example.com/v1": install its CustomResourceDefinition first'
        ]


async def test_the_namespace_of_the_command_line_is_for_objects_without_one(sim):
    elsewhere = replace(PLAIN, namespace="kube-system")
    async with a_world(sim) as world:
        await applied(world.client, a_map("red"), elsewhere)
        assert await world.client.get(CONFIG_MAPS, "settings", "kube-system")
        paper = await refused(world.client, a_map("red", namespace="default"), elsewhere)
        assert "metadata.namespace is default, but --namespace is kube-system" in paper.notes[0]


async def test_what_was_applied_can_be_shown_instead(sim):
    async with a_world(sim) as world:
        named = await applied(world.client, TWO, replace(PLAIN, output=Output(OutputFormat.NAME)))
        assert named.lines == ["configmap/settings", "deployment.apps/web"]
        whole = await applied(world.client, a_map("red"), replace(PLAIN, output=Output(OutputFormat.JSON)))
        assert json.loads(whole.text)["data"] == {"colour": "red"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\nmetadata: {name: x}", "a.yaml: apiVersion: required"),
        ("apiVersion: v1\nmetadata: {name: x}", "a.yaml: kind: required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", "a.yaml: metadata.name: required"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}", "apply cannot use generateName"),
        ("- a\n- b", "not an object"),
        ("a: [", "a.yaml: yaml: line"),
        ("a: 1\na: 2", 'key "a" already set in map'),
        (f"{TWO}---\nx: 1", "a.yaml, document 3: apiVersion: required"),
        ('{"apiVersion":"v1","kind":"List","items":[{"kind":"Pod"}]}', r"a.yaml, items\[0\]: apiVersion: required"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(text, message):
    with pytest.raises(click.ClickException, match=message):
        parse_manifests(text, "a.yaml")


def test_a_list_stands_for_its_items_and_a_directory_for_its_files(tmp_path: Path):
    listed = {"apiVersion": "v1", "kind": "List", "items": [json.loads(a_map("red")), json.loads(a_map("blue"))]}
    (tmp_path / "b.json").write_text(json.dumps(listed))
    (tmp_path / "a.yml").write_text(TWO)
    (tmp_path / "notes.txt").write_text("not: an object")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.yaml").write_text(a_map("green"))
    found = read_manifests([str(tmp_path)])
    assert [each.object["kind"] for each in found] == ["ConfigMap", "Deployment", "ConfigMap", "ConfigMap"]
    assert found[3].where == f"{tmp_path}/b.json, items[1]"
    assert len(read_manifests([str(tmp_path)], recursive=True)) == 5
    with pytest.raises(click.ClickException, match=r"cannot read .*/none: No such file"):
        read_manifests([str(tmp_path / "none")])
    with pytest.raises(click.ClickException, match="no objects in"):
        (tmp_path / "empty.yaml").write_text("# nothing\n---\n")
        read_manifests([str(tmp_path / "empty.yaml")])
    with pytest.raises(click.ClickException, match="curl -L"):
        read_manifests(["https://example.com/x.yaml"])
