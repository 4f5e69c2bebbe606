"""What schedulers have counted since a stage took effect."""

from typing import Any

from mainstay.api.component_roles import ComponentRole
from mainstay.controllers.policy_rollout.counters import DecisionCounters, count_decisions, note_counters

POLICY = {"metadata": {"name": "v5", "uid": "uid-v5", "resourceVersion": "40"}}


def a_scheduler(name: str, since: str = "12:00", revision: int = 40, **counted: int) -> dict[str, Any]:
    figures = {"policy": "v5", "uid": "uid-v5", "revision": revision, "since": since, **counted}
    return {
        "metadata": {"name": name},
        "status": {"role": str(ComponentRole.SCHEDULER), "policyFigures": [figures]},
    }


def test_what_was_counted_before_the_stage_is_subtracted_by_scheduler():
    noted = note_counters(
        [a_scheduler("b", decided=50_000, conflicts=100), a_scheduler("a", decided=10, refusedAtCommit=4)], POLICY
    )
    now = [a_scheduler("a", decided=20, refusedAtCommit=5), a_scheduler("b", decided=50_100, conflicts=120)]

    assert [each["component"] for each in noted] == ["a", "b"]
    assert count_decisions(now, POLICY, noted) == DecisionCounters(decided=110, conflicts=20, refused=1)


def test_a_scheduler_that_has_restarted_counts_from_its_start():
    noted = note_counters([a_scheduler("a", decided=500)], POLICY)

    assert count_decisions([a_scheduler("a", since="12:30", decided=7)], POLICY, noted) == DecisionCounters(decided=7)


def test_figures_of_an_older_revision_and_of_no_policy_count_for_nothing():
    assert count_decisions([a_scheduler("a", revision=39, decided=7)], POLICY) == DecisionCounters()
    assert note_counters([a_scheduler("a", decided=7)], None) == []
