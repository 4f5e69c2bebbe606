"""Benchmarks run, print and write down what they measured. Nothing here measures time."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench import __main__ as all_benchmarks
from bench import compare, measure
from bench._results import parts_of
from bench.measure import Figure, Stopwatch, rounds

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        ("≥ 15000", 15000, True),
        ("≥ 15000", 14999.9, False),
        (">= 15_000", 20000, True),
        ("≤ 1.5", 1.5, True),
        ("≤ 1.5", 1.6, False),
        ("<= 2", 3, False),
        ("> 1", 1, False),
        ("< 1", 0.5, True),
        ("", 7, None),
    ],
)
def test_a_goal_is_met_or_missed(goal: str, value: float, met: bool | None):
    assert Figure("commit", value, "/s", goal=goal).is_goal_met is met


@pytest.mark.parametrize("goal", ["15000", "about 3", "≥", "≥ 10 ms"])
def test_a_goal_that_cannot_be_read_is_refused(goal: str):
    with pytest.raises(ValueError, match="goal of 'commit'"):
        Figure("commit", 1, "/s", goal=goal)


def test_rounds_give_the_median_and_how_far_they_spread():
    values = iter([5.0, 1.0, 400.0])

    spread = rounds(lambda: next(values), 3)

    assert (spread.median, spread.least, spread.most) == (5.0, 1.0, 400.0)
    assert str(spread) == "5 (1 … 400)"


def test_a_stopwatch_gives_a_rate_with_the_cpu_time_of_each_operation():
    watch = Stopwatch()
    watch.wall_s, watch.cpu_s = 2.0, 0.5

    assert watch.rate("commit", 1000, goal="≥ 400") == Figure("commit", 500.0, "/s", 500.0, "≥ 400")


def test_a_stopwatch_counts_children_only_when_asked():
    spin = [sys.executable, "-c", "sum(range(3_000_000))"]
    alone, together = Stopwatch(), Stopwatch(with_children=True)

    with together, alone:
        subprocess.run(spin, check=True)

    assert together.cpu_s > alone.cpu_s
    assert together.wall_s >= alone.wall_s > 0


def a_measure(quick: bool) -> Iterable[Figure]:
    yield Figure("commit", 12345.678 if quick else 50000, "/s", cpu_us=41.25, goal="≥ 15000")
    yield Figure("latency", 0.0123, "ms")


def test_a_benchmark_prints_a_table_for_people(capsys: pytest.CaptureFixture[str]):
    measure.main(a_measure, ["--quick"])

    heading, commit, latency, load = capsys.readouterr().out.splitlines()
    assert heading.split() == ["figure", "value", "unit", "CPU", "µs", "each", "goal"]
    assert commit.split() == ["commit", "12,346", "/s", "41.2", "≥", "15000", "missed"]
    assert latency.split() == ["latency", "0.0123", "ms"]
    assert load.startswith("load ")
    assert load.endswith(" cores")


def test_a_benchmark_prints_one_json_object_per_figure(capsys: pytest.CaptureFixture[str]):
    measure.main(a_measure, ["--json"])

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert isinstance(first.pop("load"), float)
    assert first == {"name": "commit", "value": 50000, "unit": "/s", "cpu_us": 41.25, "goal": "≥ 15000"}
    assert (second["name"], second["cpu_us"], second["goal"]) == ("latency", None, "")


def test_a_benchmark_that_gives_nothing_fails():
    with pytest.raises(SystemExit, match="no figures"):
        measure.main(lambda quick: [], [])


WORKS = """
from bench.measure import Figure, main

def measure(quick):
    yield Figure("quick" if quick else "full", 3, "/s", goal="≥ 15000")

if __name__ == "__main__":
    main(measure)
"""


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A directory with one benchmark, `good`, which works and misses its goal."""
    directory = tmp_path / "bench"
    directory.mkdir()
    for name in ("__init__.py", "measure.py"):
        (directory / name).write_text((ROOT / "bench" / name).read_text())
    (directory / "good.py").write_text(WORKS)
    (directory / "_helper.py").write_text("raise AssertionError('this is no benchmark')")
    return directory


def test_all_benchmarks_run_and_a_missed_goal_is_no_failure(bench: Path, capsys: pytest.CaptureFixture[str]):
    assert all_benchmarks.main(["--write"], bench) == 0

    assert "full" in capsys.readouterr().out
    page = (bench / "RESULTS.md").read_text()
    assert "## bench.good" in page
    assert "| full | 3 | /s |  | ≥ 15000 | missed |" in page
    assert "Python 3." in page
    assert " before, " in page


def test_a_benchmark_that_is_run_again_replaces_its_own_part_and_leaves_the_others(bench: Path):
    (bench / "other.py").write_text(WORKS.replace('"full"', '"another"'))
    assert all_benchmarks.main(["--write"], bench) == 0
    # Longer than before: of a file of the same second and length, Python would take what it has compiled.
    (bench / "good.py").write_text(WORKS.replace("3,", "44,"))
    (bench / "gone.py").write_text(WORKS)
    assert all_benchmarks.main(["gone", "--write"], bench) == 0
    (bench / "gone.py").unlink()

    assert all_benchmarks.main(["good", "--write"], bench) == 0

    parts = parts_of((bench / "RESULTS.md").read_text())
    assert list(parts) == ["good", "other"]
    assert "| full | 44 | /s |" in parts["good"]
    assert "| another | 3 | /s |" in parts["other"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["bad"], "no benchmark 'bad'; these there are: good"),
        (["--quick", "--write"], "--quick"),
        (["--jobs", "2"], "--jobs is for --quick"),
    ],
)
def test_what_makes_no_sense_is_refused(
    bench: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        all_benchmarks.main(arguments, bench)

    assert problem in capsys.readouterr().err


def test_all_benchmarks_give_json_that_a_program_can_read(bench: Path, capsys: pytest.CaptureFixture[str]):
    assert all_benchmarks.main(["--json"], bench) == 0

    (figure,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (figure["name"], figure["value"], figure["unit"]) == ("full", 3, "/s")
    assert not (bench / "RESULTS.md").exists()


def test_benchmarks_that_run_beside_each_other_are_told_in_the_order_of_their_names(
    bench: Path, capsys: pytest.CaptureFixture[str]
):
    (bench / "first.py").write_text("import time\ntime.sleep(0.5)\n" + WORKS.replace('"quick"', '"first"'))

    assert all_benchmarks.main(["--quick", "--jobs", "2", "--json"], bench) == 0

    assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["first", "quick"]


@pytest.mark.parametrize("source", ["raise RuntimeError('it broke')", "pass"])
def test_a_broken_benchmark_is_a_failure_and_the_others_count_all_the_same(
    bench: Path, source: str, capsys: pytest.CaptureFixture[str]
):
    (bench / "bad.py").write_text(source)

    assert all_benchmarks.main(["--write"], bench) == 1

    output = capsys.readouterr()
    assert "bench.bad" in output.err
    assert "1 of 2 benchmarks are broken" in output.err
    assert "full" in output.out
    assert list(parts_of((bench / "RESULTS.md").read_text())) == ["good"]


def test_two_checkouts_are_compared_round_by_round():
    def measured(create_us: float, bound_per_s: float) -> dict[str, Figure]:
        return {"create": Figure("create", 1 / create_us, "/s", create_us), "bound": Figure("bound", bound_per_s, "/s")}

    # The machine was half as fast in the second round, which says nothing about either of them.
    rounds = [(measured(100, 50), measured(110, 50)), (measured(200, 25), measured(220, 20)), ({}, measured(1, 1))]

    create, bound = compare.find_differences(rounds)

    assert create == compare.Difference("create", 150, 165, 1.1, 1.1, 1.1)
    assert (bound.ratio_min, bound.ratio_max) == (1.0, 1.25), "a lower rate costs more"


def test_a_checkout_that_was_not_set_up_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        compare.main([str(tmp_path), "api"])

    assert f"{tmp_path} has no .venv; run `make -C {tmp_path} setup` first" in capsys.readouterr().err
