"""The long search shares its seeds out, goes on where it was stopped, and tells what it has found."""

import sys
from pathlib import Path

import pytest

from mainstay import scenarios
from mainstay.sim.run.scenario import Scenario
from tests import search
from tests.search_log import Done, SearchLog
from tests.sim import leaky
from tests.sim.test_survival import MOODY

pytestmark = pytest.mark.slow

FEW: dict[str, Scenario] = {"one": leaky.TIGHT, "moody": MOODY, "three": leaky.TIGHT}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "SCENARIOS", FEW)
    monkeypatch.setattr(search, "NAMES", (*search.SCENARIOS, *FEW))


def searched(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["search", "--check", "0", "--jobs", "1", *arguments])
    return search.main()


def test_seeds_are_shared_out_evenly():
    assert search.shared_out(["a", "b", "c"], 1000, 8) == {
        "a": range(1000, 1003),
        "b": range(1000, 1003),
        "c": range(1000, 1002),
    }


def test_what_is_left_is_done_in_turns_and_in_pieces():
    log = SearchLog(None)
    log.add(Done("a", 0, 30, "mixed", 1.0, 0, {}))
    log.add(Done("b", 10, 5, "mixed", 1.0, 0, {}))
    log.add(Done("b", 0, 60, "random", 1.0, 0, {}))

    left = list(search.pieces(["a", "b"], {"a": range(60), "b": range(20)}, log, "mixed"))

    assert left == [("a", range(30, 55)), ("b", range(10)), ("a", range(55, 60)), ("b", range(15, 20))]


@pytest.mark.usefixtures("few")
def test_a_search_that_was_stopped_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    arguments = ("--all", "--seeds", "12", "--from", "1", "--log", str(tmp_path / "log"))
    assert searched(monkeypatch, *arguments, "--minutes", "0") == 0
    assert "stopped after 0 minutes: 12 runs are left" in capsys.readouterr().out

    assert searched(monkeypatch, *arguments) == 1
    first = capsys.readouterr().out
    assert "12 runs in " in first
    assert "moody: seed 2: violated: mood: it is not happy" in first
    assert "again: mainstay sim run moody --strategy mixed --seeds 1 --first-seed 2" in first

    with (tmp_path / "log").open("ab") as file:
        file.write(b'{"scenario": "one", "fir')  # It was killed there.
    assert searched(monkeypatch, *arguments) == 1
    assert "12 of 12 runs were made before, " in capsys.readouterr().out


def test_what_another_build_has_done_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "log"
    SearchLog(path).add(Done("a", 0, 30, "mixed", 1.0, 0, {7: "violated"}))
    assert SearchLog(path).bad == [("a", 7, "violated")]
    monkeypatch.setattr("tests.search_log.build", lambda: "another")

    assert SearchLog(path).runs == 0
    assert SearchLog(path, any_build=True).runs == 30
