"""`mainstay sim search | sweep | lineage | sieve`: what is printed, what it claims, and that what is found can be made
again."""

import json
from pathlib import Path

import pytest

from mainstay import scenarios
from mainstay.cli.main import run
from mainstay.cli.sim.search import at_most_one_in, render_claim
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.lookup import find_scenario

pytestmark = pytest.mark.slow

ORDERS = "tests.sim.orders:ORDERS"
TORN = ["--plant", "tests.sim.orders:marks_it_done_before_it_ships"]
SHORT = ["--for", "4s", "--jobs", "1"]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_what_is_claimed_of_runs_that_all_have_passed():
    assert render_claim(4312) == "4,312 runs passed, so with 95 % confidence fewer than 1 in 1,439 fails"
    assert render_claim(1) == "1 run passed"
    assert (1 - 1 / at_most_one_in(4312)) ** 4312 < 0.05


def test_a_search_that_finds_nothing_says_what_that_means(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "search", ORDERS, "--runs", "7", "--for", "5m", "--jobs", "1"]) == 0

    said = capsys.readouterr()
    claim = "7 runs passed, so with 95 % confidence fewer than 1 in 2 fails (1 repeated to check determinism); "
    assert said.out.startswith(f"{ORDERS}: {claim}")
    assert "orders: searching with strategy mixed, 1 in parallel" in said.err


def test_a_search_whose_runs_cannot_be_made_twice_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scenarios, "SCENARIOS", {"only-here": find_scenario(ORDERS)})

    assert run(["sim", "search", "only-here", "--runs", "2", "--jobs", "1", "--json"]) == 1

    output = capsys.readouterr()
    found = json.loads(output.out)
    assert (found["runs"], found["madeTwice"], found["found"]) == (2, 0, None)
    assert "mainstay: cannot repeat runs of only-here: unknown scenario 'only-here'" in output.err


def test_a_search_ends_with_what_it_finds_and_the_bundle_makes_it_again(capsys: pytest.CaptureFixture[str]):
    seed = ["--first-seed", "26", "--strategy", "random", "--jobs", "1"]

    assert run(["sim", "search", ORDERS, *seed, *TORN]) == 10
    assert f"\n{ORDERS}: run 1 failed; " in (said := capsys.readouterr().out)
    assert "repeated" not in said
    assert run(["sim", "search", ORDERS, *seed, *TORN, "--json"]) == 10

    (found,) = lines_of(capsys)
    assert found["runs"] == 1
    assert found["atMostOneIn"] is None
    bundle = RunBundle.load(Path(str(found["bundle"])))
    assert bundle.result.problem.startswith("orders: 1 to be shipped, 0 shipped")
    assert run(["sim", "replay", str(found["bundle"])]) == 10
    assert capsys.readouterr().out.startswith("identical run: violated")


def test_a_sweep_counts_its_points_and_each_bad_one_can_be_made_again(capsys: pytest.CaptureFixture[str]):
    only = ["--faults", "crash-after", "--programs", "clerk"]

    assert run(["sim", "sweep", ORDERS, *SHORT, *only]) == 0
    points = int(capsys.readouterr().out.partition(" points")[0].rpartition(" ")[2])
    assert run(["sim", "sweep", ORDERS, *SHORT, *only, *TORN, "--json"]) == 10

    *tried, end = lines_of(capsys)
    assert (end["points"], end["bad"]) == (points, 1)
    assert len(tried) == points + 1  # The first one has no fault.
    (bad,) = [each for each in tried if each["verdict"] == "violated"]
    assert bad["what"] == "crash-after at write 1 of clerk (PATCH /api/v1/namespaces/default/configmaps/order-5)"
    assert run(["sim", "replay", str(bad["bundle"])]) == 10
    assert capsys.readouterr().out.startswith("identical run: violated")


def test_a_fault_that_cannot_be_swept_is_said(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "sweep", ORDERS, "--faults", "clock-skew"]) != 0

    assert "'clock-skew' cannot be swept: use " in capsys.readouterr().err


def test_lineage_says_what_it_found_and_the_bundle_makes_it_again(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "lineage", ORDERS, *SHORT, *TORN]) == 10

    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("crash-before at write 1 of clerk (POST ")
    assert said[-1].startswith(f"{ORDERS}: run ")
    (bundle,) = Path("sim-failures").iterdir()
    assert run(["sim", "replay", str(bundle)]) == 10
    assert capsys.readouterr().out.startswith("identical run: violated")


def test_a_sieve_tells_each_plan_that_is_not_borne(capsys: pytest.CaptureFixture[str]):
    only = ["--program", "clerk", "--pattern", "intermediate"]

    assert run(["sim", "sieve", ORDERS, *SHORT, *only, *TORN, "--json"]) == 10

    *tried, end = lines_of(capsys)
    assert end["bad"] == 1
    assert end["plans"] == len(tried) - 1
    (bad,) = [each for each in tried if each["verdict"] == "violated"]
    assert str(bad["what"]).startswith("intermediate: crash-after at write 1 of clerk (PATCH ")


def test_a_program_that_is_not_there_is_said(capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "sieve", ORDERS, "--program", "missing"]) != 0

    assert "orders has no program 'missing'; it has clerk" in capsys.readouterr().err
