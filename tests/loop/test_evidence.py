"""The table of evidence: what each sign may lead to, and what it never may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.loop.evidence import (
    DESTRUCTIVE,
    TABLE,
    Allowed,
    Evidence,
    EvidenceResponse,
    Pace,
    Scope,
    Signal,
    Strength,
    ZoneSilence,
    allowed,
)

OURSELVES_CUT = [
    Evidence(Signal.API_TIMEOUTS, Strength.HINT, Scope.OURSELVES),
    Evidence(Signal.WATCH_DISCONNECTS, Strength.HINT, Scope.OURSELVES),
]
PIECES = st.sampled_from(
    [
        Evidence(signal, strength, scope)
        for signal, row in TABLE.items()
        for scope in row.scopes
        for strength in Strength
    ]
)
ZONES = st.lists(
    st.builds(
        lambda name, nodes, share: ZoneSilence(name, nodes, nodes * share // 10),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 20),
        st.integers(0, 10),
    ),
    max_size=3,
    unique_by=lambda zone: zone.zone,
)


def heartbeats(strength: Strength) -> Evidence:
    return Evidence(Signal.MISSED_HEARTBEATS, strength, Scope.NODE, "node-b7")


def lease(strength: Strength) -> Evidence:
    return Evidence(Signal.LEASE_EXPIRY, strength, Scope.NODE, "node-b7")


def destructive(answer: Allowed) -> list[EvidenceResponse]:
    return [response for response in answer.responses if response in DESTRUCTIVE]


# The table


def test_the_table_has_the_ten_signals_and_the_rollout_deadline():
    assert list(TABLE) == list(Signal)
    assert len(Signal) == 11


@pytest.mark.parametrize("signal", Signal)
def test_every_signal_says_what_it_is_about_what_may_be_behind_it_and_what_it_must_not_lead_to(signal):
    row = TABLE[signal]

    assert row.scopes
    assert row.innocently
    assert row.may_not
    assert row.may[EvidenceResponse.PUBLISH_CONDITION] is Strength.HINT


@pytest.mark.parametrize("response", EvidenceResponse)
def test_every_response_is_allowed_by_some_signal_or_by_none_on_purpose(response):
    never = {EvidenceResponse.EVICT_ZONE, EvidenceResponse.REMOVE_REPLICAS, EvidenceResponse.REJECT_WORKLOAD}

    assert any(response in row.may for row in TABLE.values()) is (response not in never)


def test_nothing_that_destroys_follows_from_a_hint_or_a_repeated_sign():
    for row in TABLE.values():
        for response in row.may.keys() & DESTRUCTIVE:
            assert row.may[response] >= Strength.SUSTAINED


def test_only_silence_about_a_node_or_lease_allows_anything_that_destroys():
    signals = [signal for signal, row in TABLE.items() if row.may.keys() & DESTRUCTIVE]

    assert signals == [Signal.MISSED_HEARTBEATS, Signal.LEASE_EXPIRY]
    assert all(TABLE[signal].is_silence for signal in signals)


def test_the_table_cannot_be_changed():
    with pytest.raises(TypeError):
        TABLE[Signal.API_TIMEOUTS].may[EvidenceResponse.EVICT_ZONE] = Strength.HINT  # type: ignore[index]


# One sign


def test_a_missed_heartbeat_stops_new_placement_and_nothing_else_of_consequence():
    answer = allowed([heartbeats(Strength.HINT)])

    assert answer.responses == (
        EvidenceResponse.PUBLISH_CONDITION,
        EvidenceResponse.READ_AGAIN,
        EvidenceResponse.CHOOSE_ANOTHER_NODE,
        EvidenceResponse.STOP_NEW_PLACEMENT,
    )


def test_heartbeats_that_are_missing_for_long_allow_eviction_but_not_a_second_at_most_one_pod():
    answer = allowed([heartbeats(Strength.CONCLUSIVE)])

    assert EvidenceResponse.EVICT_FROM_NODE in answer
    assert EvidenceResponse.REPLACE_AT_MOST_ONE not in answer


def test_only_a_fenced_lease_allows_the_successor_of_an_at_most_one_pod_or_leader():
    for response in (EvidenceResponse.REPLACE_AT_MOST_ONE, EvidenceResponse.TAKE_LEADERSHIP):
        assert response not in allowed([lease(Strength.SUSTAINED)])
        assert response in allowed([lease(Strength.CONCLUSIVE)])


@pytest.mark.parametrize("strength", Strength)
def test_a_timeout_means_read_again_and_retry_never_another_node_or_eviction(strength):
    answer = allowed([Evidence(Signal.API_TIMEOUTS, strength, Scope.OURSELVES)])

    assert answer.responses == (
        EvidenceResponse.PUBLISH_CONDITION,
        EvidenceResponse.READ_AGAIN,
        EvidenceResponse.RETRY,
        EvidenceResponse.SLOW_DOWN,
    )


@pytest.mark.parametrize("strength", Strength)
def test_a_rollout_deadline_pauses_and_never_removes(strength):
    answer = allowed([Evidence(Signal.ROLLOUT_DEADLINE, strength, Scope.WORKLOAD)])

    assert answer.responses == (
        EvidenceResponse.PUBLISH_CONDITION,
        EvidenceResponse.READ_AGAIN,
        EvidenceResponse.PAUSE_ROLLOUT,
    )


@pytest.mark.parametrize("strength", Strength)
def test_bind_conflicts_mean_a_fresh_candidate_and_never_that_the_workload_is_invalid(strength):
    answer = allowed([Evidence(Signal.BIND_CONFLICTS, strength, Scope.POD)])

    assert EvidenceResponse.CHOOSE_ANOTHER_NODE in answer
    assert EvidenceResponse.REJECT_WORKLOAD not in answer
    assert EvidenceResponse.STOP_NEW_PLACEMENT not in answer


def test_a_sign_cannot_be_about_something_it_knows_nothing_of():
    with pytest.raises(ValueError, match="ApiTimeouts is no sign about a Node"):
        Evidence(Signal.API_TIMEOUTS, Strength.HINT, Scope.NODE)


# Several signs


def test_the_binding_that_timed_out_while_the_heartbeat_was_late_is_looked_for_and_nothing_is_evicted():
    answer = allowed([OURSELVES_CUT[0], heartbeats(Strength.REPEATED)], [ZoneSilence("a", 10, 1)], "a")

    assert EvidenceResponse.READ_AGAIN in answer
    assert EvidenceResponse.STOP_NEW_PLACEMENT in answer
    assert destructive(answer) == []


@pytest.mark.parametrize("cut", OURSELVES_CUT, ids=lambda cut: cut.signal)
def test_when_we_are_cut_off_silence_destroys_nothing_however_long_it_lasts(cut):
    answer = allowed([heartbeats(Strength.CONCLUSIVE), lease(Strength.CONCLUSIVE), cut])

    assert destructive(answer) == []
    assert [refusal.response for refusal in answer.refused] == [
        EvidenceResponse.REPLACE_POD,
        EvidenceResponse.EVICT_FROM_NODE,
        EvidenceResponse.REPLACE_AT_MOST_ONE,
    ]
    assert cut.signal in answer.refused[0].why
    assert EvidenceResponse.STOP_NEW_PLACEMENT in answer


def test_when_every_zone_is_silent_it_is_us_and_no_zone_is_evicted():
    zones = [ZoneSilence("a", 10, 9), ZoneSilence("b", 10, 10)]

    assert destructive(allowed([heartbeats(Strength.CONCLUSIVE)], zones, "b")) == []


def test_when_all_nodes_of_the_only_zone_are_silent_it_is_us():
    assert destructive(allowed([heartbeats(Strength.CONCLUSIVE)], [ZoneSilence("a", 3, 3)], "a")) == []


def test_when_most_of_one_zone_is_silent_eviction_is_slow():
    zones = [ZoneSilence("a", 10, 6), ZoneSilence("b", 10, 0)]
    evidence = [heartbeats(Strength.SUSTAINED)]

    paces = [allowed(evidence, zones, zone).pace for zone in ("a", "b")]

    assert paces == [Pace.SLOW, Pace.USUAL]
    assert EvidenceResponse.EVICT_FROM_NODE in allowed(evidence, zones, "a")


@given(evidence=st.lists(PIECES, max_size=12), zones=ZONES)
def test_no_evidence_whatsoever_evicts_a_zone_removes_replicas_or_rejects_a_workload(evidence, zones):
    answer = allowed(evidence, zones, "a")

    assert EvidenceResponse.EVICT_ZONE not in answer
    assert EvidenceResponse.REMOVE_REPLICAS not in answer
    assert EvidenceResponse.REJECT_WORKLOAD not in answer


@given(evidence=st.lists(PIECES, max_size=12), zones=ZONES, cut=st.sampled_from(OURSELVES_CUT))
def test_with_our_own_cut_among_it_no_evidence_destroys_anything(evidence, zones, cut):
    assert destructive(allowed([*evidence, cut], zones, "a")) == []


@given(evidence=st.lists(PIECES, max_size=8), more=PIECES, zones=ZONES)
def test_more_evidence_about_others_than_ourselves_never_allows_less(evidence, more, zones):
    if more.scope is not Scope.OURSELVES:
        before, after = allowed(evidence, zones, "a"), allowed([*evidence, more], zones, "a")
        assert all(response in after for response in before.responses)


@given(evidence=st.lists(PIECES, max_size=12), zones=ZONES)
def test_everything_allowed_is_allowed_by_a_sign_that_was_seen_strongly_enough(evidence, zones):
    answer = allowed(evidence, zones, "a")

    for response, signals in answer.because.items():
        for signal in signals:
            strongest = max(piece.strength for piece in evidence if piece.signal is signal)
            assert TABLE[signal].may[response] <= strongest


@given(evidence=st.permutations([heartbeats(Strength.SUSTAINED), lease(Strength.REPEATED), *OURSELVES_CUT]))
def test_the_order_in_which_evidence_came_makes_no_difference(evidence):
    assert allowed(evidence) == allowed(sorted(evidence, key=lambda piece: piece.signal))
