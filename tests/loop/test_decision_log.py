"""Decisions as lines of the log, under the names that all signals share."""

import logging

import pytest

from mainstay.journal.record import DecisionRecord, Ending, Outcome, RecordedAction, Subject, WriteResult
from mainstay.journal.trace_id import derive_trace_id
from mainstay.loop.decision_log import log_decision


def a_record(
    ending: Ending = Ending.DONE, *, actions: tuple[RecordedAction, ...] = (), reason: str = ""
) -> DecisionRecord:
    return DecisionRecord(
        id="deployment-1",
        at=0,
        component="deployment",
        build="",
        subject=Subject("deployments.apps", "shop", "web", uid="u-1", generation=4),
        outcome=Outcome(ending, reason),
        actions=actions,
        writes=tuple(WriteResult("replicasets.apps", "shop", "web-1", revision=77) for _ in actions),
        audits=("a-1",),
    )


def test_a_decision_that_did_something_is_told_with_the_ids_that_all_signals_share(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "mainstay.decisions"):
        log_decision(a_record(actions=(RecordedAction("create", "replicasets.apps", "shop", "web-1"),)))

    [line] = caplog.records
    told = vars(line)
    assert told["object"] == "deployments.apps/shop/web"
    assert (told["uid"], told["generation"], told["decision"]) == ("u-1", 4, "deployment-1")
    assert (told["trace"], told["audit"], told["revisions"]) == (derive_trace_id("deployment-1"), "a-1", "77")
    assert (told["component"], told["outcome"]) == ("deployment", "Done")
    assert line.levelno == logging.INFO


def test_one_that_found_all_as_it_should_be_says_nothing(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "mainstay.decisions"):
        log_decision(a_record())

    assert caplog.records == []


def test_what_was_given_up_is_a_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "mainstay.decisions"):
        log_decision(a_record(Ending.GIVE_UP, reason="Invalid"))
        log_decision(a_record(Ending.RETRY, reason="Conflict"))

    [line] = caplog.records
    assert vars(line)["reason"] == "Invalid"
    assert line.levelno == logging.WARNING
