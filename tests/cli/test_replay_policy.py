"""`mainstay replay --policy`: a candidate from a file, on a bundle."""

import json
import re
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import OpenJournal
from mainstay.cli.main import run
from mainstay.cli.output import Output
from mainstay.cli.replay import ReplayOptions, replay_decisions
from mainstay.cli.replay_policy import render_comparison
from mainstay.env import tasks
from mainstay.explain.placements import is_placement
from mainstay.journal.bundle import Contents, open_bundle, packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord, Record, WhyNot, moment
from mainstay.scheduler.comparison.candidate import NotApplied
from mainstay.scheduler.comparison.comparison import PolicyComparison
from mainstay.scheduler.comparison.differences import PlacementChange
from mainstay.scheduler.why.placement import rests_on
from tests.cli.paper import Paper
from tests.scheduler.comparison.recorded import API_SCOPE, a_policy, record_cluster

TIGHTER = {
    "apiVersion": "mainstay.dev/v1",
    "kind": "PlacementPolicy",
    "metadata": {"name": "api-v2"},
    "spec": {"policyVersion": "v2", "scope": API_SCOPE, "maxZoneSkew": 1},
}


@pytest.fixture(scope="module")
def recorded() -> tuple[MemoryJournal, bytes]:
    return record_cluster()


@pytest.fixture
def bundle(recorded: tuple[MemoryJournal, bytes], tmp_path: Path) -> str:
    (tmp_path / "incident.bundle").write_bytes(recorded[1])
    return str(tmp_path / "incident.bundle")


@pytest.fixture
def policy(tmp_path: Path) -> str:
    (tmp_path / "candidate.yaml").write_text(json.dumps(TIGHTER))
    return str(tmp_path / "candidate.yaml")


def test_integrity_comes_first_then_what_differs_by_reason_then_the_run_forward(
    bundle: str, policy: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["replay", bundle, "--policy", policy]) == Exit.SATISFIED

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Integrity: the recorded policies re-derive ")
    assert lines[0].endswith("decisions (100.00 %)")
    assert "Candidate api-v2, which takes the place of api-v1" in lines
    assert ["NowUnschedulable", "ZoneSkewTooLarge", "2"] in [line.split() for line in lines]
    example = next(line for line in lines if line.startswith("  NowUnschedulable ZoneSkewTooLarge: default/api-"))
    assert "→ unschedulable (scheduler-1-" in example
    assert ["pending", "at", "the", "end", "1", "3"] in [line.split() for line in lines]
    assert "The model leaves out:" in lines


@pytest.mark.parametrize("form", [["--json"], ["-o", "json"]])
def test_the_same_as_json(bundle: str, policy: str, capsys: pytest.CaptureFixture[str], form: list[str]):
    assert run(["replay", bundle, "--policy", policy, *form]) == Exit.SATISFIED

    found = json.loads(capsys.readouterr().out)
    assert found["candidate"] == {"name": "api-v2", "hasScope": True, "replaces": ["api-v1"]}
    assert found["integrity"]["agreement"] == 1
    assert found["perDecision"]["different"] == sum(
        each["decisions"] for each in found["perDecision"]["results"] if each["examples"]
    )
    assert found["runForward"]["recordedPolicies"]["pendingAtEnd"] == 1
    assert found["runForward"]["candidate"]["pendingAtEnd"] == 3
    assert set(found["runForward"]["candidate"]["resources"]) == {"cpu", "memory"}


def test_a_decision_that_is_not_re_derived_is_said_first_and_fails(
    recorded: tuple[MemoryJournal, bytes], policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """As if another build had decided one of them."""
    path = rewritten(
        recorded[1], tmp_path, lambda each: msgspec.structs.replace(each, reasons=("node=node-b", "score=1"))
    )

    assert run(["replay", path, "--policy", policy]) == Exit.BLOCKED

    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Do not trust the comparison below")
    assert "recorded" in lines[2]
    assert "score=1" in lines[2]


def test_decisions_that_are_not_replayable_are_counted_by_reason(
    recorded: tuple[MemoryJournal, bytes], policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = rewritten(
        recorded[1], tmp_path, lambda each: msgspec.structs.replace(each, why_not=(str(WhyNot.DETAIL_DROPPED),))
    )

    assert run(["replay", path, "--policy", policy]) == Exit.SATISFIED
    assert "; 1 not replayable: DetailDropped 1" in capsys.readouterr().out.splitlines()[0]


def rewritten(content: bytes, directory: Path, change: object) -> str:
    """The bundle, with the first placement changed."""
    opened = open_bundle(content)
    journal = opened.journal

    async def gather() -> Contents:
        since, made_at = moment(opened.head.since), moment(opened.head.made_at)
        return await gathered(journal, since=since, build="", made_at=made_at, rests_on=rests_on)

    contents = tasks.run(gather())
    records: list[Record] = []
    is_changed = False
    for record in contents.records:
        if isinstance(record, DecisionRecord) and is_placement(record) and not is_changed:
            is_changed = True
            records.append(change(record))  # type: ignore[operator]
        else:
            records.append(record)
    path = directory / "rewritten.bundle"
    path.write_bytes(b"".join(packed(Contents(contents.head, records))))
    return str(path)


def test_a_candidate_for_no_recorded_pod_says_so(
    bundle: str, policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = tmp_path / "other.yaml"
    other.write_text(json.dumps({**TIGHTER, "spec": {**TIGHTER["spec"], "scope": {"namespaces": ["nowhere"]}}}))  # type: ignore[dict-item]

    assert run(["replay", bundle, "--policy", str(other)]) == Exit.SATISFIED
    said = capsys.readouterr().out
    assert re.search(r"The candidate applies to none of these decisions: none of \d+ is in its scope\.", said), said


def test_a_candidate_that_more_specific_policies_leave_nothing_names_them():
    found = PolicyComparison("wide", has_scope=True, kept={"api-v1": 7, "batch-v1": 1})
    found.counts[PlacementChange.SAME_NODE, str(NotApplied.MORE_SPECIFIC_POLICY)] = 8
    found.counts[PlacementChange.SAME_NODE, str(NotApplied.NOT_IN_SCOPE)] = 2

    assert render_comparison(Paper(), found, is_wide=False)[-1] == (
        "The candidate applies to none of these decisions: of 10, 8 are in its scope, but more specific policies apply "
        "to them: api-v1 (7) and batch-v1 (1)."
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", "v1 ConfigMap is not a PlacementPolicy"),
        (json.dumps(TIGHTER) + "\n---\n" + json.dumps(TIGHTER), "contains 2 objects; keep one PlacementPolicy"),
        (
            json.dumps({**TIGHTER, "spec": {"policyVersion": "v2", "scores": {"Fastest": 1}}}),
            'Unsupported value: "Fastest"',
        ),
        (json.dumps({**TIGHTER, "spec": {"policyVersion": "v2", "maxZoneSkew": 0}}), "spec.maxZoneSkew"),
    ],
)
def test_a_file_that_the_api_server_would_reject_is_rejected(
    bundle: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, said: str
):
    path = tmp_path / "wrong.yaml"
    path.write_text(content)

    assert run(["replay", bundle, "--policy", str(path)]) == Exit.ERROR
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--policy", "nowhere.yaml"], Exit.ERROR, "cannot read nowhere.yaml"),
        (["--policy", "CANDIDATE", "--build", "."], Exit.USAGE, "--policy and --build cannot be combined"),
        (["--policy", "CANDIDATE", "--component", "nope"], Exit.ERROR, "no decisions of component 'nope'"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(
    bundle: str, policy: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: Exit, said: str
):
    given = [policy if each == "CANDIDATE" else each for each in arguments]

    assert run(["replay", bundle, *given]) == code
    assert said in capsys.readouterr().err


def test_a_journal_that_can_be_asked_is_compared_too(recorded: tuple[MemoryJournal, bytes]):
    journal = recorded[0]
    now = moment(max(each.at for each in journal.records()))
    opened, screen = OpenJournal(journal=journal, kinds=None), Paper()  # type: ignore[arg-type]
    options = ReplayOptions(
        since=timedelta(minutes=5), candidate=a_policy("api-v2", scope=API_SCOPE, maxZoneSkew=1), output=Output()
    )

    assert tasks.run(replay_decisions(opened, screen, options, now)) == Exit.SATISFIED
    assert screen.lines[0].startswith("Integrity: the recorded policies re-derive ")
