"""What controllers say about objects."""

from datetime import UTC, datetime, timedelta

from mainstay.loop.conditions import Condition, Truth, with_conditions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
READY = Condition("Ready", Truth.TRUE, "AllThere", "3 of 3")


def test_a_condition_says_which_generation_it_is_about_and_since_when():
    assert with_conditions({"x": 1}, [READY], 4, NOON) == {
        "x": 1,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "observedGeneration": 4,
                "reason": "AllThere",
                "message": "3 of 3",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            }
        ],
    }


def test_saying_the_same_later_changes_nothing():
    status = with_conditions({}, [READY], 4, NOON)
    assert with_conditions(status, [READY], 4, LATER) == status


def test_only_another_status_is_a_transition():
    status = with_conditions({}, [READY], 4, NOON)
    more = with_conditions(status, [Condition("Ready", Truth.TRUE, "AllThere", "4 of 4")], 5, LATER)["conditions"][0]
    assert (more["message"], more["observedGeneration"], more["lastTransitionTime"]) == (
        "4 of 4",
        5,
        "2026-01-01T12:00:00Z",
    )
    less = with_conditions(status, [Condition("Ready", Truth.FALSE, "Missing")], 5, LATER)["conditions"][0]
    assert (less["status"], less["lastTransitionTime"]) == ("False", "2026-01-01T12:05:00Z")


def test_what_others_say_stays_and_what_is_over_goes():
    status = {"conditions": [{"type": "Theirs", "status": "True"}, {"type": "Stalled", "status": "True"}]}
    result = with_conditions(status, [READY], 1, NOON, without=["Stalled"])
    assert [each["type"] for each in result["conditions"]] == ["Theirs", "Ready"]
    assert with_conditions({}, [], 1, NOON, without=["Stalled"]) == {}


def test_the_cause_of_a_condition_goes_with_it():
    refused = Condition("ReplicaFailure", Truth.TRUE, "FailedCreate", "no room", "QuotaExceeded")
    status = with_conditions({}, [refused], None, NOON)
    assert status["conditions"][0]["cause"] == "QuotaExceeded"
    again = with_conditions(status, [Condition("ReplicaFailure", Truth.TRUE, "FailedCreate", "odd")], None, LATER)
    assert "cause" not in again["conditions"][0]
