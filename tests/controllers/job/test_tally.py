"""Jobs over a plain model: every pod is counted exactly once, wherever the controller crashes, and the end is right."""

import copy
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import pod_state
from mainstay.controllers.job import tally as job_counting
from mainstay.controllers.job.tally import tally
from tests.controllers.job.job_model import Model, a_job

pytestmark = pytest.mark.slow

CASES: dict[str, dict[str, Any]] = {
    "plain": {"completions": 3, "parallelism": 2},
    "indexed": {"completions": 3, "parallelism": 2, "completionMode": "Indexed"},
    "per-index": {
        "completions": 3,
        "parallelism": 3,
        "completionMode": "Indexed",
        "backoffLimit": 2**31 - 1,
        "backoffLimitPerIndex": 1,
    },
    "queue": {"completions": None, "parallelism": 2},
    "only-failed": {"completions": 3, "parallelism": 2, "podReplacementPolicy": "Failed"},
}


def play(model: Model) -> None:
    """One pod fails, one is deleted, all others succeed; the user suspends it in between."""
    model.settle()
    if model.living():
        model.end(model.living()[0], "Failed", 1)
    model.settle()
    model.now += timedelta(seconds=30)
    model.settle()
    if model.active():
        model.leave(model.active()[0])
    model.settle()
    for pod in model.living():
        if pod_state.is_leaving(pod):
            model.end(pod, "Failed", 143)
    model.now += timedelta(minutes=2)
    model.settle()
    model.change(suspend=True)
    model.settle()
    model.change(suspend=False)
    model.settle()
    model.run_to_the_end()


def ending(model: Model) -> dict[str, Any]:
    names = ("succeeded", "failed", "completedIndexes", "failedIndexes")
    return {**{name: model.status.get(name) for name in names}, "conditions": model.conditions()}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_a_crash_between_any_two_writes_changes_nothing_in_the_end(case: str):
    def played(crash_at: int | None, *, after: bool = False) -> Model:
        model = Model(a_job(**CASES[case]))
        model.crash_at, model.crashes_after = crash_at, after
        play(model)
        model.check_counts()
        assert model.held() == []
        return model

    whole = played(None)
    assert "Complete" in whole.conditions()
    assert whole.writes > 12
    for number in range(1, whole.writes + 1):
        for after in (False, True):
            assert ending(played(number, after=after)) == ending(whole), (number, after)


moves = st.lists(
    st.tuples(
        st.sampled_from(
            ["succeed", "succeed", "fail", "delete", "wait", "round", "suspend", "resume", "size", "crash"]
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


@given(case=st.sampled_from(sorted(CASES)), moves=moves, limit=st.integers(0, 4))
def test_whatever_becomes_of_the_pods_the_counts_are_exact_and_the_end_is_the_right_one(case, moves, limit):
    spec = dict(CASES[case])
    if spec.get("backoffLimitPerIndex") is None:
        spec["backoffLimit"] = limit
    model = Model(a_job(**spec))
    for move, number in moves:
        living = sorted(model.living(), key=lambda pod: pod["metadata"]["name"])
        match move:
            case "succeed" | "fail" if living:
                pod = living[number % len(living)]
                is_well = move == "succeed" and not pod_state.is_leaving(pod)
                model.end(pod, "Succeeded" if is_well else "Failed", 0 if is_well else 1)
            case "delete" if living:
                model.leave(living[number % len(living)])
            case "wait":
                model.now += timedelta(seconds=10 * number)
            case "suspend" | "resume":
                model.change(suspend=move == "suspend")
            case "size":
                model.change(parallelism=number)
            case "crash":
                # Some of the writes of this round come about, and the next round is another leader's.
                model.crash_at, model.crashes_after = model.writes + 1 + number // 2, number % 2 == 0
                model.round()
            case _:
                model.round()
    model.change(suspend=False, parallelism=2)
    model.run_to_the_end()

    model.check_counts()
    assert model.held() == []
    assert not model.living()
    said = model.conditions()
    if said.get("Failed") == "BackoffLimitExceeded":
        assert model.count("failed") > limit
    elif said.get("Failed") == "FailedIndexes":
        failed = model.status["failedIndexes"]
        assert failed
        assert case == "per-index"
    else:
        assert said["Complete"] == "CompletionsReached"
        wanted = spec["completions"]
        assert model.count("succeeded") == wanted if wanted is not None else model.count("succeeded") >= 1
    assert ("Complete" in said) == ("SuccessCriteriaMet" in said) == bool(model.status.get("completionTime"))
    assert ("Failed" in said) == ("FailureTarget" in said)


def test_a_pod_is_listed_before_it_is_let_go_and_counted_after():
    model = Model(a_job(completions=2))
    model.settle()
    (pod,) = model.living()
    uid = pod["metadata"]["uid"]
    model.end(pod, "Succeeded")

    model.round()
    assert model.status["uncountedTerminatedPods"] == {"succeeded": [uid]}
    assert model.status.get("succeeded") is None
    assert pod["metadata"]["name"] in model.held()

    model.round()
    assert pod["metadata"]["name"] not in model.held()
    assert model.status.get("succeeded") is None

    model.round()
    assert model.status["succeeded"] == 1
    assert model.status["uncountedTerminatedPods"] == {}


def test_a_listed_pod_that_is_gone_is_counted():
    job = a_job(
        completions=5, status={"succeeded": 2, "uncountedTerminatedPods": {"succeeded": ["x"], "failed": ["y"]}}
    )

    counted = tally(job, [], is_failing=False, is_ending=False)

    assert (counted.succeeded, counted.failed, counted.listed) == (3, 1, ((), ()))


def test_what_a_pod_was_counted_as_stays_even_if_it_ends_otherwise():
    model = Model(a_job(completions=1))
    model.settle()
    (pod,) = model.living()
    model.leave(pod)
    model.round()
    leaving = model.pods[pod["metadata"]["name"]]
    assert model.status["uncountedTerminatedPods"] == {"failed": [pod["metadata"]["uid"]]}
    model.end(leaving, "Succeeded")

    counted = tally(copy.deepcopy(model.job or {}), list(model.pods.values()), is_failing=False, is_ending=False)

    assert (counted.succeeded_in_all, counted.failed_in_all) == (0, 1)


def test_a_status_lists_only_so_many_at_a_time(monkeypatch):
    monkeypatch.setattr(job_counting, "UNCOUNTED_MAX", 2)
    model = Model(a_job(completions=5, parallelism=5))
    model.settle()
    for pod in model.living():
        model.end(pod, "Succeeded")

    model.round()
    assert len(model.status["uncountedTerminatedPods"]["succeeded"]) == 2
    assert model.conditions() == {"SuccessCriteriaMet": "CompletionsReached"}

    model.settle()
    model.check_counts()
    assert model.status["succeeded"] == 5
    assert "Complete" in model.conditions()
