"""`mainstay why` prints an answer in the form that is asked for, and its exit code says what to make of it."""

import json
import tomllib
from datetime import timedelta
from pathlib import Path

import click
import pytest
import yaml

from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.cli import plugins
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import JournalChoice, OpenJournal, find_moment, list_kinds, open_journal
from mainstay.cli.main import cli, run
from mainstay.cli.output import Output, OutputFormat
from mainstay.cli.why import show_why
from mainstay.journal.errors import JournalError
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import moment
from mainstay.sim.simulation import Simulation
from tests.cli.paper import Paper
from tests.explain.why.asked import a_cluster, a_deployment, a_pod, rest

pytestmark = pytest.mark.slow


async def asked(
    journal: MemoryJournal, *words: str, at: str = "", form: OutputFormat = OutputFormat.TABLE, namespace: str = ""
):
    paper = Paper()
    source = OpenJournal(journal=journal, kinds=await list_kinds(journal), at=at)
    code = await show_why(source, paper, words, namespace, Output(form))
    return code, paper


async def a_journal(sim: Simulation) -> MemoryJournal:
    """A deployment that runs, a pod that fits no node, one that waits for room, and a CRD."""
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await cluster.client.create(PODS, a_pod("large", "100"), "default")
        await cluster.client.create(PODS, a_pod("q1", "3"), "default")
        await cluster.client.create(PODS, a_pod("q2", "3"), "default")
        await cluster.client.create(PODS, a_pod("q3", "3"), "default")
        await rest(20)
        return cluster.journal


async def test_the_exit_code_says_what_to_make_of_the_answer(sim: Simulation):
    journal = await a_journal(sim)
    assert (await asked(journal, "deploy/web"))[0] == Exit.SATISFIED
    assert (await asked(journal, "pod", "large"))[0] == Exit.BLOCKED
    waiting = [name for name in ("q1", "q2", "q3") if (await asked(journal, f"po/{name}"))[0] == Exit.WAITING]
    assert len(waiting) == 1
    assert (await asked(journal, "pods/nope"))[0] == Exit.BLOCKED


async def test_all_forms_say_the_same(sim: Simulation):
    journal = await a_journal(sim)
    _, plain = await asked(journal, "pod/large")
    _, wide = await asked(journal, "pod/large", form=OutputFormat.WIDE)
    _, as_json = await asked(journal, "pod/large", form=OutputFormat.JSON)
    _, as_yaml = await asked(journal, "pod/large", form=OutputFormat.YAML)

    answer = json.loads(as_json.text)
    assert answer["cause"] == "NodeTooSmall"
    assert yaml.safe_load(as_yaml.text)["sentence"] == answer["sentence"] == plain.lines[0] == wide.lines[0]
    assert len(plain.lines) <= 12
    assert [node for node in ("node-a", "node-b") if any(line.startswith(node) for line in wide.lines)] == [
        "node-a",
        "node-b",
    ]


async def test_the_past_is_asked_by_time_revision_decision_or_how_long_ago(sim: Simulation):
    journal = await a_journal(sim)
    changes = (await journal.changes(kind="pods", namespace="default", name="large")).records
    made = changes[0]
    assert (await find_moment(journal, str(made.revision))).revision == made.revision
    at = await find_moment(journal, moment(made.at).isoformat().replace("+00:00", "Z"))
    assert at.revision >= made.revision
    now = await find_moment(journal, "")
    assert now.at - (await find_moment(journal, "10s")).at == timedelta(seconds=10)
    [record, *_] = (await journal.decisions(kind="pods", namespace="default", name="large")).records
    assert (await find_moment(journal, f"@{record.id}")).revision >= made.revision

    code, paper = await asked(journal, "pod/large", at=str(made.revision - 1))
    assert code == Exit.BLOCKED
    assert paper.lines[0].startswith("Pod default/large not found, nor in the journal (00:00:00 to 00:00:")


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("tomorrow", "must be a time"),
        ("999999999", "revision 999999999 not found: the journal has 0 to "),
        ("@missing", "decision missing not found"),
        ("2020-01-01T00:00:00Z", "the journal begins at"),
    ],
)
async def test_a_moment_that_there_is_not_is_refused_with_what_there_is(sim: Simulation, at: str, words: str):
    journal = await a_journal(sim)
    with pytest.raises(click.ClickException, match=words):
        await find_moment(journal, at)


async def test_objects_are_named_as_with_kubectl_and_only_one(sim: Simulation):
    journal = await a_journal(sim)
    source = OpenJournal(journal=journal, kinds=await list_kinds(journal))
    for words in (["deploy/web"], ["deployment", "web"], ["deployments.apps/web"], ["Deployment", "web"]):
        assert source.object(words).kind == DEPLOYMENTS
    assert source.object(["node/n1"], "shop").namespace == ""
    assert source.object(["po/x"], "shop").namespace == "shop"
    for bad in ([], ["pods"], ["pod/a", "pod/b"], ["pods", "a", "b"], ["pod/a/b"]):
        with pytest.raises(click.UsageError):
            source.object(bad)
    with pytest.raises(click.ClickException, match="resource type"):
        source.object(["widget/x"])


async def test_kinds_that_users_have_defined_are_known_from_the_journal(sim: Simulation):
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    async with a_cluster(sim) as cluster:
        kinds = (await list_kinds(cluster.journal)).find("crd").name
        await cluster.client.create(kinds, definition)
        await rest(3)
        widget = (await list_kinds(cluster.journal)).find("wd").name
        await cluster.client.create(widget, {"metadata": {"name": "one"}}, "default")
        await rest(3)
        code, paper = await asked(cluster.journal, "wd/one")
    assert code == Exit.SATISFIED
    assert paper.lines[0].startswith("Widget default/one exists")


async def test_the_files_of_a_server_that_does_not_run_can_be_asked(tmp_path):
    with pytest.raises(click.ClickException, match=r"directory .* not found"):
        async with open_journal(JournalChoice(journal=str(tmp_path / "nowhere"))):
            pass
    with pytest.raises(click.ClickException, match="no journal in"):
        async with open_journal(JournalChoice(journal=str(tmp_path))):
            pass


async def test_a_bundle_that_is_none_is_refused(tmp_path):
    with pytest.raises(click.ClickException, match="cannot read bundle"):
        async with open_journal(JournalChoice(bundle=str(tmp_path / "nowhere"))):
            pass
    (tmp_path / "text").write_text("hello")
    with pytest.raises(JournalError):
        async with open_journal(JournalChoice(bundle=str(tmp_path / "text"))):
            pass


def test_words_that_make_no_sense_are_a_matter_of_usage(capsys):
    assert run(["why", "pod/web", "--bundle", "a", "--journal", "b"]) == Exit.USAGE
    assert run(["why", "pod/web", "-o", "xml"]) == Exit.USAGE
    assert "exclude each other" in capsys.readouterr().err


def test_the_plugins_of_kubectl_are_the_commands_of_the_same_name(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kubectl-why", "--help"])
    with pytest.raises(SystemExit) as ended:
        plugins.why()
    assert ended.value.code == Exit.SATISFIED
    assert "mainstay why pod/web-1" in capsys.readouterr().out


def test_each_plugin_that_is_installed_is_a_command():
    scripts = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    names = [name.removeprefix("kubectl-") for name in scripts if name.startswith("kubectl-")]
    assert "why" in names
    assert not {"debug", "diff"} & set(names)  # kubectl's own.
    known = cli.list_commands(click.Context(cli))
    assert [name for name in names if name not in known] == []
    assert [scripts[f"kubectl-{name}"] for name in names] == [f"mainstay.cli.plugins:{name}" for name in names]
