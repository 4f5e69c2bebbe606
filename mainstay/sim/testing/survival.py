"""For tests: a scenario survives whatever many seeds do to it.

    def test_checkout_survives_bad_days():
        assert_survives(CHECKOUT, seeds=20)

Of each run that does not pass, the failure says which seed, what was wrong, and how to see it again; its bundle is
written, for `mainstay sim replay | shrink | diff | serve`. As in `mainstay sim run`, one run of twenty is made twice.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mainstay.env.disk import make_directory
from mainstay.env.processes import cores
from mainstay.sim.failure.report import report_short
from mainstay.sim.run.bundle import RunBundle, can_be_kept
from mainstay.sim.run.determinism_guard import ONE_IN, DeterminismGuard
from mainstay.sim.run.forks import run_many
from mainstay.sim.run.lookup import UnknownScenario, find_scenario, name_scenario
from mainstay.sim.run.run import Patch, RunResult, RunVerdict
from mainstay.sim.run.scenario import Scenario
from mainstay.sim.strategies.table import STRATEGIES

BUNDLES: Final = Path("sim-failures")
FAILURES_MAX: Final = 3  # More of them say nothing new, and each takes its time.


class DidNotSurvive(AssertionError):
    """Some runs have not passed. Says which, why, and how to see them again."""


def assert_survives(
    scenario: Scenario | str,
    *,
    seeds: int | Sequence[int] = 20,
    jobs: int | None = None,
    strategy: str = "random",
    bundles: Path = BUNDLES,
    patch: Patch | None = None,
    one_in: int = ONE_IN,
) -> None:
    """Raises `DidNotSurvive`. `seeds` are how many, from 1 on, or which; `one_in` how many are made twice: 0 is none.

    A scenario that is no module's attribute has no name by which to find it again: no bundle is written of it, and
    nothing is made twice. The same goes for one with a `patch`.
    """
    given = find_scenario(scenario) if isinstance(scenario, str) else scenario
    name = "" if patch is not None else _name(scenario)
    wanted = range(1, seeds + 1) if isinstance(seeds, int) else seeds
    at_once = jobs or cores()
    bad: list[RunResult] = []
    with DeterminismGuard(one_in if name else 0) as guard:
        due = guard.due()
        for result in run_many(given, wanted, jobs=at_once, patch=patch, strategy=STRATEGIES[strategy]):
            due.add(result)
            if not result.is_passed:
                bad.append(result)
                if len(bad) == FAILURES_MAX:
                    break
        bad += guard.check(name, due, strategy=strategy, jobs=at_once)
    if bad:
        raise DidNotSurvive(
            "\n".join([_said(given, wanted, bad), *(_told(name, each, strategy, bundles) for each in bad)])
        )


def _name(scenario: Scenario | str) -> str:
    if isinstance(scenario, str):
        return scenario
    try:
        return name_scenario(scenario)
    except UnknownScenario:
        return ""


def _said(scenario: Scenario, seeds: Sequence[int], bad: Sequence[RunResult]) -> str:
    count = len({each.seed for each in bad})  # One that is bad, and different too, is still one run.
    return f"{scenario.name} fails {count} of the runs with seeds {seeds[0]} to {seeds[-1]}:"


def _told(name: str, result: RunResult, strategy: str, bundles: Path) -> str:
    again, bundle = "(the scenario has no name: make it an attribute of a module)", ""
    if name:
        how = f" --strategy {strategy}" if strategy != "random" else ""
        check = " --check" if result.verdict is RunVerdict.DIFFERENT else ""
        again = f"mainstay sim run {name} --seeds 1 --first-seed {result.seed}{how}{check}"
        if can_be_kept(result):
            make_directory(bundles)
            bundle = str(bundles / f"{name.replace(':', '.')}-{result.seed}.run.json")
            RunBundle.of(result, scenario=name).save(Path(bundle))
    return "\n".join(report_short(result, again, bundle))
