"""A candidate policy on recorded decisions: which differ, why, and what would become of the pods."""

import pytest

from mainstay.api.kind import Object
from mainstay.explain.placements import is_placement
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord
from mainstay.scheduler.comparison.comparison import PolicyComparison, compare_policy
from tests.scheduler.comparison.recorded import API_SCOPE, a_policy, record_cluster
from tests.twins.policies import REPLAY_TWINS, Twin


@pytest.fixture(scope="module")
def journal() -> MemoryJournal:
    return record_cluster()[0]


async def compared(journal: MemoryJournal, policy: Object) -> PolicyComparison:
    return await compare_policy(journal, {each.id for each in placements(journal)}, policy)


def placements(journal: MemoryJournal) -> list[DecisionRecord]:
    return journal.records(is_placement)


def counts(found: PolicyComparison) -> dict[tuple[str, str], int]:
    return {(str(change), reason): count for (change, reason), count in found.counts.items()}


async def test_the_recorded_policies_re_derive_what_they_decided(journal: MemoryJournal):
    found = await compared(journal, a_policy("none", scope={"namespaces": ["nowhere"]}))

    assert found.integrity.replayed == len(placements(journal))
    assert found.integrity.differences == []
    assert found.integrity.cannot == {}
    assert found.applied == 0


async def test_a_candidate_that_says_the_same_changes_nothing(journal: MemoryJournal):
    found = await compared(journal, a_policy("api-v2", scope=API_SCOPE, maxZoneSkew=2))

    assert found.different == 0
    assert found.applied == sum(each.subject.name.startswith("api") for each in placements(journal))
    assert found.replaced == ("api-v1",)
    assert found.forward is not None
    assert found.forward[0] == found.forward[1]


async def test_other_weights_choose_other_nodes_by_their_scores(journal: MemoryJournal):
    found = await compared(journal, a_policy("packed", scope={"tenant": "default"}, scores={"MostAllocated": 9}))

    by = counts(found)
    assert by["OtherNode", "HigherScore"] > 0
    assert by["SameNode", "MoreSpecificPolicy"] == 7  # Those of api, whose own policy is more specific.
    example = found.examples[next(key for key in found.counts if key[1] == "HigherScore")][0]
    assert example.pod.startswith("batch-")
    assert {example.before, example.after} == {"node-a", "node-b"}


async def test_a_tighter_bound_leaves_pods_unschedulable_and_says_by_which_filter(journal: MemoryJournal):
    found = await compared(journal, a_policy("api-v2", scope=API_SCOPE, maxZoneSkew=1))

    by = counts(found)
    assert by["NowUnschedulable", "ZoneSkewTooLarge"] == 2
    assert found.forward is not None
    recorded, candidate = found.forward
    assert (recorded.pending_end, candidate.pending_end) == (1, 3)
    assert (recorded.placed, candidate.placed) == (11, 9)


async def test_a_wider_bound_places_what_was_unschedulable_and_says_what_was_in_the_way(journal: MemoryJournal):
    found = await compared(journal, a_policy("api-v2", scope=API_SCOPE, maxZoneSkew=5))

    by = counts(found)
    assert by["NowPlaced", "ZoneSkewTooLarge"] >= 1
    assert found.forward is not None
    assert [each.pending_end for each in found.forward] == [1, 0]


async def test_a_candidate_without_a_scope_is_for_pods_that_no_scope_selects(journal: MemoryJournal):
    found = await compared(journal, a_policy("base", scores={"MostAllocated": 9}))

    by = counts(found)
    assert not found.has_scope
    assert by["OtherNode", "HigherScore"] > 0
    assert by["SameNode", "MoreSpecificPolicy"] == 7
    assert list(found.kept) == ["api-v1"]
    assert found.kept["api-v1"] == sum(count for (_, why), count in by.items() if why == "MoreSpecificPolicy")


async def test_balance_and_fragmentation_are_those_of_each_policys_own_placements(journal: MemoryJournal):
    found = await compared(journal, a_policy("packed", scope={"tenant": "default"}, scores={"MostAllocated": 9}))

    assert found.forward is not None
    recorded, candidate = found.forward
    assert candidate.resources["cpu"].deviation > recorded.resources["cpu"].deviation
    assert candidate.resources["cpu"].fragmentation == pytest.approx(0)  # Every pod asks for one core.


@pytest.mark.parametrize("twin", REPLAY_TWINS, ids=lambda each: each.__name__)
async def test_a_replay_that_gets_the_view_wrong_is_caught_by_the_integrity_check(
    journal: MemoryJournal, twin: Twin, monkeypatch: pytest.MonkeyPatch
):
    twin(monkeypatch)
    found = await compared(journal, a_policy("api-v2", scope=API_SCOPE, maxZoneSkew=5))

    assert found.integrity.differences or found.integrity.cannot
