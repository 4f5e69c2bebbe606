"""A crash between any two writes of any controller: what is there in the end is the same as without.

Here each of the small situations is tried at a part of its points; `make sim-long` tries all of them.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mainstay.sim.cluster.final_state import final_objects
from mainstay.sim.run.sweep import sweep
from mainstay.store.interface import Entry
from tests.sim.compact_scenarios import COMPACT, CRASHES, HEARTBEATS, WHO
from tests.twins import jobs, scenarios

pytestmark = pytest.mark.slow

Twin = Callable[[pytest.MonkeyPatch], None]

ONE_IN = 7  # A prime: so the points tried are not always of the same fault.


@pytest.mark.deep
@pytest.mark.parametrize("name", COMPACT)
def test_a_crash_between_two_writes_of_a_controller_makes_no_difference_to_the_end(name: str):
    found = sweep(COMPACT[name], jobs=2, faults=CRASHES, programs=WHO, without=HEARTBEATS, one_in=ONE_IN)

    assert found.bad == (), str(found)
    assert found.points >= 3


@pytest.mark.parametrize(
    ("name", "twin", "problem"),
    [
        ("compact-job", jobs.lets_go_what_is_not_stored_as_listed, "job counts: "),
        pytest.param(
            *("compact-rollout", scenarios.tells_a_new_leader_only_what_is_new, "final state: "), marks=pytest.mark.deep
        ),
    ],
)
def test_a_controller_that_loses_what_it_was_about_to_do_is_found(name: str, twin: Twin, problem: str):
    found = sweep(
        COMPACT[name],
        jobs=2,
        faults=CRASHES,
        programs=WHO,
        without=HEARTBEATS,
        one_in=ONE_IN,
        patch=lambda: twin(pytest.MonkeyPatch()),
    )

    assert any(point is not None and result.problem.startswith(problem) for point, result in found.bad), str(found)


# What is compared


def entry(key: str, obj: dict[str, Any]) -> Entry:
    return Entry(key, json.dumps(obj).encode(), created=1, revision=1, version=1)


def a_set(uid: str, **status: Any) -> Entry:
    metadata = {"name": "web", "uid": uid, "resourceVersion": uid[-1], "generation": 7, "creationTimestamp": uid}
    return entry("apps/replicasets/default/web", {"metadata": metadata, "status": {"observedGeneration": 7, **status}})


def a_pod(name: str, owner: str, image: str = "x:1") -> Entry:
    reference = {"name": "web", "uid": owner, "controller": True}
    metadata = {"name": name, "uid": f"uid of {name}", "ownerReferences": [reference]}
    return entry(f"core/pods/default/{name}", {"metadata": metadata, "spec": {"image": image}})


def test_uids_times_and_names_made_for_an_owner_make_no_difference():
    one = [a_set("uid-1", at="2026-01-01T00:00:01Z"), a_pod("web-abc", "uid-1")]
    other = [a_set("uid-2", at="2026-01-01T00:00:09Z"), a_pod("web-xyz", "uid-2")]

    assert final_objects(one) == final_objects(other)


def test_another_spec_another_owner_or_one_more_object_makes_a_difference():
    there = [a_set("uid-1"), a_pod("web-abc", "uid-1")]

    assert final_objects(there) != final_objects([a_set("uid-1"), a_pod("web-abc", "uid-1", "x:2")])
    assert final_objects(there) != final_objects([a_set("uid-1"), a_pod("web-abc", "uid-0")])
    assert final_objects(there) != final_objects([*there, a_pod("web-def", "uid-1")])
    assert final_objects(there) != final_objects([a_set("uid-1", observedGeneration=6), a_pod("web-abc", "uid-1")])


def test_heartbeats_and_the_books_of_servers_are_left_out():
    lease = entry("coordination.k8s.io/leases/kube-system/x", {"metadata": {"name": "x", "uid": "3"}})

    assert final_objects([lease]) == {}
