"""`timeline`, `debug`, `blame`, `coupling`, `diff` and `get --at`, as people call them."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.cli import journal_access
from mainstay.cli.blame import show_blame
from mainstay.cli.coupling import show_coupling
from mainstay.cli.debug import show_debug
from mainstay.cli.diff import DiffExit, show_diff
from mainstay.cli.exits import Exit
from mainstay.cli.get import get_objects, get_objects_at
from mainstay.cli.journal_access import OpenJournal, list_kinds
from mainstay.cli.main import cli, run
from mainstay.cli.object_selection import GetOptions
from mainstay.cli.output import Output, OutputFormat
from mainstay.cli.timeline import show_timeline
from mainstay.cli.why import show_why
from mainstay.client.call import WriteOptions
from mainstay.env import SystemClock, SystemDisk, tasks
from mainstay.explain.moment import Moment
from mainstay.journal.history import HistoryRecorder
from mainstay.scenarios._workloads import a_workload
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.sim.cluster.cluster import Cluster, NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Put
from tests.cli.paper import Paper
from tests.explain.risk import seconds
from tests.journal.builders import a_pod

pytestmark = pytest.mark.slow

JSON, YAML, WIDE = Output(OutputFormat.JSON), Output(OutputFormat.YAML), Output(OutputFormat.WIDE)


@asynccontextmanager
async def a_history(sim: Simulation) -> AsyncIterator[tuple[OpenJournal, Cluster, Moment]]:
    """One deployment that was made, and then scaled by another user. With the moment between the two."""
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 1))
        await tasks.sleep(seconds(30))
        between = await Moment.now(cluster.journal)
        body = {"spec": {"replicas": 2}}
        await cluster.client.patch(DEPLOYMENTS, "web", "default", body, write=WriteOptions(field_manager="helm"))
        await tasks.sleep(seconds(30))
        yield OpenJournal(journal=cluster.journal, kinds=await list_kinds(cluster.journal)), cluster, between


async def test_timeline_tells_the_story_in_each_form(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        text, wide, as_json, as_yaml = Paper(), Paper(), Paper(), Paper()
        assert await show_timeline(opened, text, ["deploy/web"], generation=2) == Exit.SATISFIED
        await show_timeline(opened, wide, ["deployment", "web"], output=WIDE)
        await show_timeline(opened, as_json, ["deploy/web"], output=JSON)
        await show_timeline(opened, as_yaml, ["deploy/web"], output=YAML)

    assert text.lines[0].startswith("deployment web in namespace default, generation 2, from ")
    assert "desired replicas 1 → 2" in text.lines[1]
    assert len(wide.lines) > len(text.lines)
    found = json.loads(as_json.text)
    assert (found["kind"], found["about"]["name"]) == ("Timeline", "web")
    assert yaml.safe_load(as_yaml.text)["lines"][0]["text"] == found["lines"][0]["text"]


async def test_timeline_refuses_what_makes_no_sense(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        with pytest.raises(
            click.ClickException, match="deployment missing in namespace default not found in the journal"
        ):
            await show_timeline(opened, Paper(), ["deploy/missing"])
        with pytest.raises(click.UsageError, match="exclude each other"):
            await show_timeline(opened, Paper(), ["deploy/web"], generation=2, since="10m")
        with pytest.raises(click.UsageError, match="must be a time"):
            await show_timeline(opened, Paper(), ["deploy/web"], since="yesterday")


async def test_debug_says_that_nothing_is_missing_by_its_exit_code(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        paper, as_json = Paper(), Paper()
        assert await show_debug(opened, paper, ["deploy/web"]) == Exit.SATISFIED
        await show_debug(opened, as_json, ["deploy/web"], output=JSON)
        with pytest.raises(click.ClickException, match="deployment missing not found at that time"):
            await show_debug(opened, Paper(), ["deploy/missing"])

    assert paper.lines[0] == "cause: 2 of 2 replicas are ready"
    assert json.loads(as_json.text)["finding"] == "Complete"


async def test_debug_waits_or_is_blocked_by_its_exit_code(sim: Simulation):
    async with a_history(sim) as (opened, cluster, _):
        wanted: dict[str, Any] = a_workload("big", 1)
        wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "40"}}
        await cluster.client.create(DEPLOYMENTS, wanted)
        await tasks.sleep(seconds(10))
        paper = Paper()

        assert await show_debug(opened, paper, ["deploy/big"]) == Exit.BLOCKED

    assert "last scheduling reason" in paper.text
    assert "NodeResourcesFit/NodeTooSmall cpu" in paper.text


async def test_blame_names_who_set_what_and_the_history_of_one_field(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        paper, history = Paper(), Paper()
        assert await show_blame(opened, paper, ["deploy/web"]) == Exit.SATISFIED
        await show_blame(opened, history, ["deploy", "web", "spec.replicas"])
        with pytest.raises(click.ClickException, match=r"has no field spec\.color"):
            await show_blame(opened, Paper(), ["deploy/web", "spec.color"])
        with pytest.raises(click.UsageError, match="is not the path of a field"):
            await show_blame(opened, Paper(), ["deploy/web", "spec..x"])
        with pytest.raises(click.UsageError, match="too many arguments"):
            await show_blame(opened, Paper(), ["deploy/web", "spec", "status"])

    assert paper.words[0][:4] == ["FIELD", "VALUE", "BEFORE", "WHO"]
    assert ["spec.replicas", "2", "1", "admin"] in [row[:4] for row in paper.words]
    assert [row[:3] for row in history.words[1:]] == [["spec.replicas", "1", "none"], ["spec.replicas", "2", "1"]]


@pytest.mark.parametrize("when", ["2099-01-01T00:00:00Z", "-10m"])
async def test_diff_refuses_the_future_and_says_which_end_is_in_it(sim: Simulation, when: str):
    async with a_history(sim) as (opened, _, between):
        with pytest.raises(click.UsageError, match=f"--from {when} is in the future"):
            await show_diff(opened, Paper(), begins=when)
        with pytest.raises(click.UsageError, match=f"--to {when} is in the future"):
            await show_diff(opened, Paper(), begins=str(between.revision), ends=when)


async def test_an_object_that_is_not_there_is_found_where_it_is(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        why = Paper()
        assert await show_why(opened, why, ["deploy/web"], "defualt") == Exit.BLOCKED
        missing = Paper()
        await show_why(opened, missing, ["deploy/missing"])
        for show in (show_timeline, show_debug, show_blame):
            with pytest.raises(
                click.ClickException, match="There is a Deployment web in another namespace: -n default"
            ):
                await show(opened, Paper(), ["deploy/web"], "kube-system")

    assert why.notes == [
        "mainstay: namespace defualt not found; did you mean default?; "
        "there is a Deployment web in another namespace: -n default"
    ]
    assert missing.notes == []


@pytest.mark.real_loop
async def test_files_are_read_instead_of_a_server_that_hangs_and_they_say_as_of_when(tmp_path, monkeypatch):
    monkeypatch.setattr(journal_access, "FILES_AFTER", seconds(0.2))
    store, disk = await open_memory(), SystemDisk(tmp_path / "journal")
    recorder = HistoryRecorder(disk, StoreHistory(store), SystemClock())
    await recorder.start()
    await store.commit([], [Put("core/pods/default/web", a_pod("web"))])
    await recorder.reach(2)
    await recorder.close()
    disk.close()
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # Takes connections, and never says a word.
        kubeconfig = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{frozen.getsockname()[1]}"}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
        async with journal_access.open_journal(
            journal_access.JournalChoice(kubeconfig=str(tmp_path / "kubeconfig"))
        ) as found:
            now = await found.moment()
            pod = await now.get(PODS, "web", "default")

    assert pod is not None
    assert found.notes == (
        f"the API server does not answer; reading its files in {tmp_path}",
        f"as of {now.at:%Y-%m-%d %H:%M:%S} UTC (revision 2), the last change in these files",
    )


async def test_a_word_that_is_no_type_is_told_how_to_name_an_object_and_which_types_there_are(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        with pytest.raises(click.UsageError, match=r"'huge' is not a type: use TYPE/NAME \(for example pod/huge"):
            opened.object(["huge"])
        with pytest.raises(
            click.ClickException, match=r'resource type "gadget"\nKnown types: pods, deployments, .* more'
        ):
            opened.object(["gadget/x"])
        with pytest.raises(click.ClickException, match=r"did you mean deployments\?\nKnown types: pods"):
            opened.object(["deploymets/x"])


async def test_coupling_takes_a_component_or_an_object(sim: Simulation):
    async with a_history(sim) as (opened, _, _):
        component, obj = Paper(), Paper()
        assert await show_coupling(opened, component, ["scheduler"]) == Exit.SATISFIED
        assert await show_coupling(opened, obj, ["deploy/web"], output=JSON) == Exit.SATISFIED
        with pytest.raises(click.ClickException, match=r"There are: .*scheduler"):
            await show_coupling(opened, Paper(), ["missing"])
        with pytest.raises(click.UsageError, match="missing argument COMPONENT"):
            await show_coupling(opened, Paper(), [])

    assert "  reads pods" in component.lines
    assert json.loads(obj.text)["components"][0] == "deployment"


async def test_diff_has_the_exit_codes_of_diff(sim: Simulation):
    async with a_history(sim) as (opened, _, between):
        same, paper = Paper(), Paper()
        revision = str(between.revision)
        assert await show_diff(opened, same, begins=revision, ends=revision) == DiffExit.SAME
        assert await show_diff(opened, paper, ["deploy/web"], begins=revision) == DiffExit.DIFFERS
        with pytest.raises(click.UsageError, match="missing option --from"):
            await show_diff(opened, Paper(), begins="")
        with pytest.raises(click.UsageError, match=r"--from \(revision \d+\) is after --to"):
            await show_diff(opened, Paper(), begins=str(between.revision + 1), ends=revision)
        with pytest.raises(click.ClickException, match="not found: the journal has"):
            await show_diff(opened, Paper(), begins="99999999")

    assert same.text == ""
    assert paper.lines[0] == "~ deployment web (namespace default)"
    assert "    spec.replicas: 1 → 2  (admin" in paper.text


async def test_get_at_a_revision_shows_what_there_was_with_the_ages_of_then(sim: Simulation):
    async with a_history(sim) as (opened, cluster, between):
        then = OpenJournal(journal=opened.journal, kinds=opened.kinds, at=str(between.revision))
        paper, now = Paper(), Paper()
        assert await get_objects_at(then, paper, ["deploy,pods"], GetOptions()) == Exit.SATISFIED
        assert await get_objects_at(opened, now, ["pods"], GetOptions()) == Exit.SATISFIED
        [one] = await between.all(PODS)
        served = Paper()
        await get_objects(cluster.client, served, ["pods"], GetOptions())

    assert paper.words[0] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert paper.words[1][:2] == ["deployment.apps/web", "1/1"]
    assert [row[0] for row in paper.words[4:]] == [f"pod/{one['metadata']['name']}"]
    assert len(now.lines) == 3
    assert [row[:4] for row in now.words] == [row[:4] for row in served.words]


async def test_get_at_takes_selectors_names_and_forms(sim: Simulation):
    async with a_history(sim) as (opened, _, between):
        then = OpenJournal(journal=opened.journal, kinds=opened.kinds, at=str(between.revision))
        whole, none, listed = Paper(), Paper(), Paper()
        yaml_form = GetOptions(output=YAML)
        assert await get_objects_at(then, whole, ["deploy", "web"], yaml_form) == Exit.SATISFIED
        assert await get_objects_at(then, none, ["pods"], GetOptions(), selector="app=other") == Exit.SATISFIED
        await get_objects_at(then, listed, ["pods"], GetOptions(), field_selector="status.phase=Running")
        missing = Paper()
        assert await get_objects_at(then, missing, ["deploy", "missing"], GetOptions()) == Exit.ERROR
        with pytest.raises(click.UsageError, match="field label not supported"):
            await get_objects_at(then, Paper(), ["pods"], GetOptions(), field_selector="spec.color=red")
        with pytest.raises(click.UsageError, match="-w and --at exclude each other"):
            await get_objects_at(then, Paper(), ["pods"], GetOptions(watch=True))

    found = yaml.safe_load(whole.text)
    assert (found["kind"], found["spec"]["replicas"], "managedFields" in found["metadata"]) == ("Deployment", 1, False)
    assert none.notes == ["No resources found in default namespace."]
    assert len(listed.lines) == 2
    assert 'deployments.apps "missing" not found at revision' in missing.notes[0]


def test_all_of_them_are_commands_with_help():
    for name in ("timeline", "debug", "blame", "coupling", "diff"):
        shown = CliRunner().invoke(cli, [name, "--help"])
        assert shown.exit_code == 0
        assert "--at" in shown.output
        assert "Exit codes" in shown.output


def test_an_error_of_diff_is_not_taken_for_a_difference(tmp_path, capsys):
    assert run(["diff", "--from", "1", "--journal", str(tmp_path / "nothing")]) == DiffExit.ERROR
    assert "nothing not found" in capsys.readouterr().err
    assert run(["timeline", "pod/x", "--journal", str(tmp_path / "nothing")]) == Exit.ERROR
