"""What a quota's refusal says to programs, and how they read it."""

import pytest

from mainstay.api.causes import find_cause
from mainstay.api.quota_refusal import build_amount_missing, build_exceeded, find_quota


def test_a_refusal_names_its_quota_and_what_was_requested_beside_the_words_of_kubernetes():
    hard, used = {"pods": "2", "requests.cpu": "4"}, {"pods": "1", "requests.cpu": "4"}
    refused = build_exceeded("team", {"requests.cpu": "500m"}, used, hard)

    text = "exceeded quota: team, requested: requests.cpu=500m, used: requests.cpu=4, limited: requests.cpu=4"
    assert refused.message == text
    assert refused.causes == [
        {"reason": "QuotaExceeded", "message": text, "field": "resourcequotas/team"},
        {"reason": "QuotaRequested", "message": "500m", "field": "requests.cpu"},
    ]


def test_a_container_that_says_no_amount_is_another_cause_than_a_quota_that_is_used_up():
    refused = build_amount_missing("team", {"limits.memory": ["b", "c"], "requests.cpu": ["b"]})

    assert refused.message == "failed quota: team: must specify limits.memory for: b,c; requests.cpu for: b"
    assert [each["reason"] for each in refused.causes] == ["QuotaAmountMissing"]


def test_what_was_written_is_read_again():
    refused = build_exceeded("team", {"pods": "1", "requests.cpu": "1"}, {"pods": "9", "requests.cpu": "9"}, REST)
    causes = [(each["reason"], each["field"], each["message"]) for each in refused.causes]

    assert find_quota(causes) == ("team", "pods=1,requests.cpu=1")
    assert find_quota([("NamespaceTerminating", "metadata.namespace", "it ends")]) == ("", "")
    assert find_quota([("QuotaExceeded", "", "as version 0.1 says it")]) == ("", "")


REST = {"pods": "9", "requests.cpu": "9"}


@pytest.mark.parametrize(
    ("status", "reason", "details", "cause"),
    [
        (403, "Forbidden", {"causes": [{"reason": "QuotaExceeded"}, {"reason": "QuotaRequested"}]}, "QuotaExceeded"),
        (403, "Forbidden", {"kind": "pods"}, "Forbidden"),
        (403, "Forbidden", None, "Forbidden"),
        (403, "Forbidden", {"causes": [{"message": "a cause without a reason"}]}, "Forbidden"),
        (422, "Invalid", {"causes": [{"reason": "FieldValueRequired", "field": "spec"}]}, "Invalid"),
        (404, "NotFound", {"kind": "namespaces", "name": "x"}, "NamespaceNotFound"),
        (404, "NotFound", {"kind": "pods", "name": "x"}, "NotFound"),
        (418, "", None, "418"),
    ],
)
def test_a_refusal_has_one_code(status, reason, details, cause):
    assert find_cause(status, reason, details) == cause
