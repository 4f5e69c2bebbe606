"""`mainstay replay`: from a file, by this build and by another one."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import mainstay
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import OpenJournal
from mainstay.cli.main import run
from mainstay.cli.replay import ReplayOptions, replay_decisions
from mainstay.env import tasks
from mainstay.journal.bundle import packed
from mainstay.journal.bundle_contents import gathered
from mainstay.scenarios._workloads import a_workload
from mainstay.scheduler.why.placement import rests_on
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.cli.paper import Paper


async def recorded(sim: Simulation) -> bytes:
    """A bundle of a cluster in which a deployment was made."""
    async with whole_cluster(sim, nodes={"n1": NodeOptions(), "n2": NodeOptions()}) as cluster:
        await tasks.sleep(timedelta(seconds=10))
        began = sim.clock.wall()
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
        await tasks.sleep(timedelta(seconds=15))
        now = sim.clock.wall()
        contents = await gathered(cluster.journal, since=began, build="", made_at=now, rests_on=rests_on)
        return b"".join(packed(contents))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with Simulation(0) as sim:
        content = sim.run(recorded(sim))
    path = tmp_path_factory.mktemp("replay") / "incident.bundle"
    path.write_bytes(content)
    return path


def answers(bundle: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    run(["replay", str(bundle), "-o", "json"])
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["decisions"]
    return found


def test_all_decisions_of_a_bundle_are_made_again(bundle: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["replay", str(bundle)]) == Exit.SATISFIED

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["COMPONENT", "IDENTICAL", "DIFFERENT", "NOT", "REPLAYABLE"]
    assert any(line.split()[:3] == ["scheduler-1", "3", "0"] for line in lines)
    assert "decisions replayed, all identical" in lines[-1]


def test_one_decision_is_told_in_words(bundle: Path, capsys: pytest.CaptureFixture[str]):
    name = next(str(each["id"]) for each in answers(bundle, capsys) if each["component"] == "scheduler-1")

    assert run(["replay", str(bundle), name]) == Exit.SATISFIED

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == name
    assert "pods default/web-" in lines[1]
    assert "Done (node=n" in lines[1]
    assert lines[2] == "  identical: the replay from the journal decides as recorded"


def test_only_those_of_one_component(bundle: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["replay", str(bundle), "--component", "deployment", "-o", "yaml"]) == Exit.SATISFIED
    out = capsys.readouterr().out
    assert "component: deployment" in out
    assert "component: replicaset" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["replay"], Exit.USAGE, "missing argument DECISION or BUNDLE, or option --since"),
        (["replay", "nowhere.bundle"], Exit.ERROR, "cannot read bundle nowhere.bundle: No such file"),
        (["replay", "BUNDLE", "deployment-nope"], Exit.ERROR, "decision deployment-nope not found"),
        (["replay", "BUNDLE", "--component", "nope"], Exit.ERROR, "no decisions of component 'nope' in this time"),
        (["replay", "BUNDLE", "--build", "/nowhere"], Exit.ERROR, "--build /nowhere: no package `mainstay`"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(
    bundle: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: Exit, said: str
):
    given = [str(bundle) if each == "BUNDLE" else each for each in arguments]

    assert run(given) == code
    assert said in capsys.readouterr().err


def test_a_damaged_bundle_is_refused(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    cut = tmp_path / "cut.bundle"
    cut.write_bytes(bundle.read_bytes()[:-20])

    assert run(["replay", str(cut)]) == Exit.ERROR
    assert "copy it again" in capsys.readouterr().err


async def test_decisions_of_a_journal_that_can_be_asked(sim: Simulation):
    async with whole_cluster(sim, nodes={"n1": NodeOptions()}) as cluster:
        await tasks.sleep(timedelta(seconds=10))
        await cluster.client.create(DEPLOYMENTS, a_workload("web", 3))
        await tasks.sleep(timedelta(seconds=15))
        opened, screen = OpenJournal(journal=cluster.journal, kinds=None), Paper()  # type: ignore[arg-type]
        now = sim.clock.wall()

        assert await replay_decisions(opened, screen, ReplayOptions(since=timedelta(seconds=20)), now) == Exit.SATISFIED
        assert "all identical" in screen.lines[-1]

        record = next(each for each in cluster.journal.records() if each.component == "scheduler-1")
        assert await replay_decisions(opened, screen, ReplayOptions(decisions=(record.id,)), now) == Exit.SATISFIED
        assert screen.lines[-1].startswith("  identical")


@pytest.mark.slow
def test_another_build_decides_and_the_first_difference_is_shown(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    here = Path(mainstay.__file__).parent
    other = tmp_path / "next" / "mainstay"
    shutil.copytree(here, other, ignore=shutil.ignore_patterns("__pycache__"))
    policy = other / "scheduler" / "policy.py"
    policy.write_text(policy.read_text().replace("allocation_weight: int = 1", "allocation_weight: int = 7"))

    code = run(["replay", str(bundle), "--build", str(other.parent)])

    out = capsys.readouterr().out
    assert code == Exit.BLOCKED
    assert f"with the build in {other.parent}" in out
    assert "different in reasons" in out
    assert any(line.split()[:3] == ["scheduler-1", "0", "3"] for line in out.splitlines())
    assert all(line.split()[2] == "0" for line in out.splitlines() if line.startswith("replicaset"))


def test_a_build_that_cannot_replay_says_so(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "mainstay" / "cli").mkdir(parents=True)
    for place in ("mainstay", "mainstay/cli"):
        (tmp_path / place / "__init__.py").write_text("")
    (tmp_path / "mainstay" / "cli" / "main.py").write_text("raise SystemExit('no such command: replay')")

    assert run(["replay", str(bundle), "--build", str(tmp_path)]) == Exit.ERROR
    assert "cannot replay: no such command: replay (exit code 1)" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "wide"])
def test_a_reader_that_has_gone_ends_the_command_without_a_word(bundle: Path, form: str):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mainstay.cli.main", "replay", str(bundle), "-o", form]
    with open(writer, "wb") as closed:
        ended = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False)

    assert (ended.returncode, ended.stderr) == (Exit.PIPE_CLOSED, b"")
