"""Whatever the cluster: arrays, caches and batches decide as one would who goes over the nodes one by one."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mainstay.scheduler.cache.charge import build_unconfirmed_charge
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.decide import decide, decide_batch, scores
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.policy import DEFAULT, Allocation, Policy
from mainstay.scheduler.reasons import Decision, Placed
from mainstay.scheduler.what_if import Objects, build_columns, what_if
from tests.scheduler import naive
from tests.scheduler.random_clusters import random_objects, random_pod, something_happens, with_random_ghosts
from tests.scheduler.telling import tell

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)
EMPTY = Objects()
POLICIES = (
    DEFAULT,
    Policy("packed", allocation=Allocation.MOST, affinity_weight=5, spread_weight=1),
    Policy("three", resources=(("cpu", 2), ("memory", 1), ("example.com/gpu", 3)), balance_weight=4, taints_weight=1),
    Policy("level", max_zone_skew=1),
    Policy("relaxed", max_zone_skew=2, enforces_spread=False),
)


def outcome(vectors: Vectors, pod: dict[str, Any], policy: Policy, seed: str = "s") -> naive.Outcome:
    """A decision in the words of the naive one."""
    placing = pod_to_place(pod)
    decision = decide(vectors, placing, policy, seed)
    if isinstance(decision, Placed):
        found = scores(vectors, placing, policy)
        assert found[decision.node] == decision.score
        return naive.Outcome(decision.node, found, {})
    refused: dict[str, set[naive.Refused]] = {}
    for refusal in decision.refusals:
        assert list(refusal.nodes) == sorted(refusal.nodes)
        assert refusal.cures
        for node in refusal.nodes:
            refused.setdefault(node, set()).add((str(refusal.reason), refusal.detail))
    return naive.Outcome(None, {}, {node: frozenset(reasons) for node, reasons in refused.items()})


def agree(found: naive.Outcome, wanted: naive.Outcome) -> None:
    if wanted.node is not None:  # Reasons are told only when there is no node at all.
        wanted = replace(wanted, refused={})
    assert found == wanted


@settings(max_examples=500)
@given(SEEDS)
def test_a_decision_is_that_of_who_looks_at_every_node(number: int) -> None:
    random = Random(number)
    objects, pod, policy = random_objects(random), random_pod(random, "p"), random.choice(POLICIES)

    agree(outcome(Vectors(build_columns(objects)), pod, policy), naive.decide(objects, pod, policy, "s"))


@settings(max_examples=300)
@given(SEEDS)
def test_ghosts_are_counted_as_who_looks_at_every_node_does(number: int) -> None:
    random = Random(number)
    objects = with_random_ghosts(random, random_objects(random))
    pod, policy = random_pod(random, "p"), random.choice(POLICIES)
    wanted = naive.decide(objects, pod, policy, "s")
    agree(outcome(Vectors(build_columns(objects)), pod, policy), wanted)

    # Told later, and in place of others, they count the same; and when they are gone nothing is left of them.
    columns = build_columns(with_random_ghosts(random, replace(objects, unconfirmed=())))
    told = dict(objects.unconfirmed)
    for node in objects.nodes:
        columns.unconfirmed_changed(node["metadata"]["name"], {})
    for name, found in told.items():
        columns.unconfirmed_changed(name, {each["uid"]: build_unconfirmed_charge(each) for each in found})
    agree(outcome(Vectors(columns), pod, policy), wanted)
    for name in told:
        columns.unconfirmed_changed(name, {})
    agree(outcome(Vectors(columns), pod, policy), naive.decide(replace(objects, unconfirmed=()), pod, policy, "s"))
    assert not columns.unconfirmed.any()


@settings(max_examples=60)
@given(SEEDS)
def test_columns_that_were_kept_up_to_date_decide_as_freshly_built_ones(number: int) -> None:
    random = Random(number)
    pods = [random_pod(random, f"p{each}") for each in range(4)]
    objects = random_objects(random)
    columns = build_columns(EMPTY)
    tell(columns, EMPTY, objects, random)
    vectors = Vectors(columns)
    for step in range(12):
        for pod in pods:
            policy = random.choice(POLICIES)
            found = outcome(vectors, pod, policy)
            assert found == outcome(Vectors(build_columns(objects)), pod, policy)
            agree(found, naive.decide(objects, pod, policy, "s"))
        after = something_happens(random, objects, step)
        tell(columns, objects, after, random)
        objects = after


@settings(max_examples=60)
@given(SEEDS)
def test_a_batch_is_decided_as_one_by_one_and_never_against_a_hard_constraint(number: int) -> None:
    random = Random(number)
    objects = random_objects(random)
    like = [random_pod(random, "p") for _ in range(random.randint(1, 3))]
    pods = [_renamed(random.choice(like), f"p{each}") for each in range(10)]

    vectors = Vectors(build_columns(objects))
    found = decide_batch(vectors, map(pod_to_place, pods), DEFAULT, "s")

    one_by_one: list[Decision] = []
    for pod, decision in zip(pods, found, strict=True):
        alone = what_if(objects, [pod], DEFAULT, "s")
        one_by_one += alone
        wanted = naive.decide(objects, pod, DEFAULT, "s")
        assert wanted.node == (decision.node if isinstance(decision, Placed) else None)
        if isinstance(decision, Placed):
            assert decision.node not in wanted.refused
            objects = replace(objects, assumed=(*objects.assumed, (pod, decision.node)))
    assert found == one_by_one


@settings(max_examples=60)
@given(SEEDS)
def test_what_is_assumed_and_forgotten_again_leaves_no_trace(number: int) -> None:
    random = Random(number)
    objects = random_objects(random)
    pods = [random_pod(random, f"p{each}") for each in range(6)]
    columns = build_columns(objects)
    vectors = Vectors(columns)
    before = [outcome(vectors, pod, DEFAULT) for pod in pods]

    decide_batch(vectors, map(pod_to_place, pods), DEFAULT, "s")
    for pod in random.sample(pods, len(pods)):
        columns.forget(pod["metadata"]["uid"])

    assert [outcome(vectors, pod, DEFAULT) for pod in pods] == before
    assert [outcome(Vectors(columns), pod, DEFAULT) for pod in pods] == before


@settings(max_examples=60)
@given(SEEDS)
@example(1)
def test_an_assumed_pod_counts_as_the_bound_one_that_takes_its_place(number: int) -> None:
    random = Random(number)
    objects = random_objects(random)
    pods = [random_pod(random, f"p{each}") for each in range(6)]
    columns = build_columns(objects)
    vectors = Vectors(columns)
    found = decide_batch(vectors, map(pod_to_place, pods), DEFAULT, "s")
    asked = random_pod(random, "asked")
    assumed = outcome(vectors, asked, DEFAULT)

    bound = [
        {**pod, "spec": {**pod["spec"], "nodeName": decision.node}}
        for pod, decision in zip(pods, found, strict=True)
        if isinstance(decision, Placed)
    ]
    for pod in random.sample(bound, len(bound)):
        columns.pod_changed(None, pod)

    assert outcome(vectors, asked, DEFAULT) == assumed
    assert outcome(Vectors(build_columns(objects.with_changes(pods=bound))), asked, DEFAULT) == assumed


def _renamed(pod: dict[str, Any], name: str) -> dict[str, Any]:
    return {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"uid-{name}"}}


@pytest.mark.parametrize("seed", ["s", "t", "u"])
def test_another_seed_breaks_ties_otherwise_and_changes_nothing_else(seed: str) -> None:
    for number in range(40):
        random = Random(number)
        objects, pod = random_objects(random), random_pod(random, "p")

        agree(outcome(Vectors(build_columns(objects)), pod, DEFAULT, seed), naive.decide(objects, pod, DEFAULT, seed))
