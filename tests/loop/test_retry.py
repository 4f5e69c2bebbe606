"""What follows from a failed write."""

from datetime import timedelta

import pytest

from mainstay.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from mainstay.loop.queue.items import KeyRetry, KeyTerminal
from mainstay.loop.retry import follow_up

QUOTA = {"causes": [{"reason": "QuotaExceeded", "message": "exceeded quota: small"}]}
AMOUNT = {"causes": [{"reason": "QuotaAmountMissing", "message": "failed quota: small: must specify cpu for: web"}]}
DENIED = {"causes": [{"reason": "AdmissionPolicyViolated", "message": "no pod may request 100m"}]}
FIELDS = {"causes": [{"reason": "FieldManagerConflict", "field": ".spec.replicas"}]}


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("no answer", may_have_happened=True),
        Forbidden("exceeded quota", status=403, reason="Forbidden", details=QUOTA),
        Forbidden("failed quota", status=403, reason="Forbidden", details=AMOUNT),
        Invalid("denied", status=422, reason="Invalid", details=DENIED),
        Forbidden("denied", status=403, reason="Forbidden", details=DENIED),
        Conflict("changed", status=409, reason="Conflict"),
    ],
    ids=lambda error: f"{type(error).__name__}-{error.cause}",
)
def test_a_failure_that_is_not_the_fault_of_the_object_does_not_count(error: ApiError):
    assert follow_up(error) == KeyRetry(counts=False)


def test_a_server_that_asks_for_patience_is_given_it():
    assert follow_up(Throttled("later", retry_after=timedelta(seconds=7))) == KeyRetry(
        timedelta(seconds=7), counts=False
    )


@pytest.mark.parametrize("error", [Invalid("no"), BadRequest("no")], ids=["invalid", "bad request"])
def test_what_can_never_be_accepted_is_terminal(error: ApiError):
    assert follow_up(error) == KeyTerminal()


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("exceeded quota, says a text without a cause", status=403, reason="Forbidden"),
        Conflict("another manager", status=409, reason="Conflict", details=FIELDS),
        Conflict("the name is taken", status=409, reason="NameTaken"),
        NotFound("no such namespace"),
        AlreadyExists("there"),
    ],
    ids=["forbidden", "field managers", "name taken", "not found", "exists"],
)
def test_everything_else_counts(error: ApiError):
    assert follow_up(error) == KeyRetry()
