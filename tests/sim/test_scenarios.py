"""Each scenario finds the bugs it is there for. (That it passes without one, test_runs.py sees for all of them.)

The numbers are those of the scenarios in the catalogue of things that a control plane must survive.
"""

from collections.abc import Callable

import pytest

from mainstay.sim.forks import run_many
from mainstay.sim.run import RunResult, Verdict
from mainstay.sim.scenario import Scenario
from mainstay.sim.scenarios import SCENARIOS
from tests.twins import caches, ledger, scenarios, sim

Twin = Callable[[pytest.MonkeyPatch], None]

SEEDS_MAX = 24  # Enough to find each of them. Most are found with the first few.

# The scenario, the bug, and how the problem is said.
TWINS: list[tuple[str, Twin, str]] = [
    # 2: a node goes unheard
    ("ghost-node", caches.keeps_what_is_missing_from_a_state, "placed: "),
    ("ghost-node", scenarios.knows_nothing_of_what_goes, "placed: "),
    ("ghost-node", scenarios.does_not_look_again_when_a_node_goes, "placed: "),
    # 4: a node goes before what was on it
    ("node-before-its-tasks", scenarios.expects_every_node_to_be_known, "placing cannot decide about "),
    # 7: a leader that was never told
    ("new-leader-knows", scenarios.tells_a_new_leader_only_what_is_new, "placed: "),
    ("new-leader-knows", scenarios.counts_decisions_anew_in_each_term, "placed: "),
    # 7, too: what the last leader did
    ("successor-looks-first", scenarios.leads_with_caches_from_before_its_time, "count: there are "),
    # 10: one's own writes, not seen yet
    ("one-pod-too-many", scenarios.decides_without_having_seen_its_own_writes, "count: there are "),
    ("one-pod-too-many", scenarios.waits_for_the_first_of_its_writes_only, "count: there are "),
    # 11: a name that comes again
    ("job-of-the-same-name", scenarios.waits_until_it_has_seen_each_child, "count: batch/jobs/default/job-"),
    # 12: the same with several keys
    ("twice-in-slices", scenarios.decides_without_having_seen_its_own_writes, "count: there are 2 of "),
    ("twice-in-slices", scenarios.waits_for_the_first_of_its_writes_only, "count: there are 2 of "),
    # 18: leaders and former leaders
    ("one-leader", sim.does_not_look_at_terms, "one acting leader: a write of term "),
    ("leaders-and-clocks", scenarios.trusts_the_times_in_the_lease, "leaders and clocks: "),
    ("leaders-and-clocks", scenarios.never_stops_leading_by_itself, "leaders and clocks: "),
    # 23: history that is forgotten
    ("compaction-in-the-gap", caches.keeps_what_is_missing_from_a_state, "following: "),
    ("compaction-in-the-gap", caches.lists_again_at_once, "following: "),
    ("compaction-in-the-gap", scenarios.does_not_say_that_history_is_lost, "watch contract: "),
    ("compaction-in-the-gap", scenarios.goes_on_one_change_too_late, "following: the cache of "),
    # 24: going back in time
    ("back-in-time", caches.applies_whatever_comes, "following: "),
    ("back-in-time", scenarios.begins_a_watch_where_it_is_itself, "watch contract: a watch tells of what was before"),
    ("back-in-time", scenarios.says_how_far_it_is_itself, "watch contract: a bookmark goes back "),
    # Several schedulers at once
    ("racing-schedulers", ledger.forgets_to_check_the_room, "capacity: "),
    ("racing-schedulers", ledger.forgets_what_is_taken, "capacity: "),
    ("racing-schedulers", ledger.releases_twice, "capacity: "),
    ("racing-schedulers", ledger.charges_without_the_ledger_check, "capacity: "),
    ("stale-candidate", ledger.forgets_to_check_the_room, "capacity: "),
    # 3: room that comes unheard
    ("room-comes-back", caches.keeps_what_is_missing_from_a_state, "scheduling: "),
    ("room-comes-back", scenarios.knows_nothing_of_what_goes, "scheduling: "),
    # 5: a binding without an answer
    ("bind-without-answer", scenarios.binds_a_pod_wherever_it_is, "capacity: "),
    # A reservation that nobody heard of
    ("duplicate-reservation", scenarios.names_reservations_after_the_attempt, "reserved: "),
    # 32: a name that only the server knows
    ("one-delivery", sim.does_an_operation_each_time_it_is_asked, "acknowledged writes: operation deliver."),
    ("one-delivery", scenarios.tells_a_repeat_that_the_name_is_taken, "one delivery: nobody knows "),
]


def first_found(scenario: Scenario, twin: Twin) -> RunResult | None:
    """The first run with a planted bug that does not pass. The bug is planted in forks, and nowhere else."""
    results = run_many(scenario, range(1, SEEDS_MAX + 1), patch=lambda: twin(pytest.MonkeyPatch()))
    return next((result for result in results if not result.is_passed), None)


@pytest.mark.parametrize(("name", "twin", "problem"), TWINS, ids=[f"{name}-{twin.__name__}" for name, twin, _ in TWINS])
def test_a_scenario_finds(name: str, twin: Twin, problem: str):
    found = first_found(SCENARIOS[name], twin)

    assert found is not None
    assert found.problem.startswith(problem)


def test_every_scenario_has_a_twin():
    # Those without are in test_runs.py.
    assert sorted({name for name, *_ in TWINS} | {"cache-follows"}) == sorted(SCENARIOS)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("duplicate-reservation", 82219),  # That of the worked example.
        ("new-leader-knows", 9),  # Who led a second time named its operations as it had the first time.
    ],
)
def test_a_seed_that_has_found_a_bug_stays(name: str, seed: int):
    (result,) = run_many(SCENARIOS[name], [seed])

    assert (result.verdict, result.problem) == (Verdict.PASSED, "")


def test_the_seed_of_the_worked_example_finds_the_second_reservation():
    twin = scenarios.names_reservations_after_the_attempt

    (result,) = run_many(SCENARIOS["duplicate-reservation"], [82219], patch=lambda: twin(pytest.MonkeyPatch()))

    assert result.problem.startswith("reserved: risk-api-")
    assert "has a second reservation for replica-" in result.problem
