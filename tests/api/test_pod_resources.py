"""What a pod needs, by the rules of Kubernetes, case by case."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.pod_resources import (
    HostPort,
    conflicts,
    count_requests,
    count_scored_requests,
    is_over,
    list_host_ports,
    parse_amounts,
    read_allocatable,
)

MI = 1024 * 1024


def container(name: str = "main", **requests: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def sidecar(name: str = "side", **requests: Any) -> dict[str, Any]:
    return {**container(name, **requests), "restartPolicy": "Always"}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


CASES = {
    "nothing is asked for": (pod(container()), {}),
    "containers without resources": (pod({"name": "main"}, {"name": "more"}), {}),
    "one container": (pod(container(cpu="250m", memory="64Mi")), {"cpu": 250, "memory": 64 * MI}),
    "containers are added": (
        pod(container("a", cpu="1", memory="1Mi"), container("b", cpu="500m", memory="2Mi")),
        {"cpu": 1500, "memory": 3 * MI},
    ),
    "sums are exact and rounded up at the end": (
        pod(container("a", cpu="100u"), container("b", cpu="100u")),
        {"cpu": 1},
    ),
    "a little memory is a byte": (pod(container(memory="100m")), {"memory": 1}),
    "extended resources are counted": (
        pod(container("a", **{"example.com/gpu": "2"}), container("b", **{"example.com/gpu": 1})),
        {"example.com/gpu": 3},
    ),
    "storage and huge pages": (
        pod(container(**{"ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"})),
        {"ephemeral-storage": 1024 * MI, "hugepages-2Mi": 4 * MI},
    ),
    "a large init container": (pod(container(cpu="1"), init=(container("i", cpu="2"),)), {"cpu": 2000}),
    "a small init container": (pod(container(cpu="1"), init=(container("i", cpu="500m"),)), {"cpu": 1000}),
    "init containers run one after the other": (
        pod(
            container(cpu="2", memory="1Mi"), init=(container("i", cpu="2", memory="1Mi"), container("j", memory="3Mi"))
        ),
        {"cpu": 2000, "memory": 3 * MI},
    ),
    "a sidecar runs beside the containers": (pod(container(cpu="1"), init=(sidecar(cpu="1"),)), {"cpu": 2000}),
    "an init container after a sidecar": (
        pod(container(cpu="1"), init=(sidecar(cpu="1"), container("i", cpu="5"))),
        {"cpu": 6000},
    ),
    "an init container before a sidecar": (
        pod(container(cpu="1"), init=(container("i", cpu="5"), sidecar(cpu="1"))),
        {"cpu": 5000},
    ),
    "several sidecars and init containers": (
        pod(
            container(cpu="1"),
            init=(sidecar("s1", cpu="1"), container("i", cpu="3"), sidecar("s2", cpu="2"), container("j", cpu="2")),
        ),
        {"cpu": 5000},
    ),
    "the pod says it for all": (
        pod(container(cpu="1", memory="1Mi"), resources={"requests": {"cpu": "3"}}),
        {"cpu": 3000, "memory": MI},
    ),
    "the pod may say less than its containers": (
        pod(container(cpu="2"), resources={"requests": {"cpu": "1"}}),
        {"cpu": 1000},
    ),
    "what cannot be said of a pod is not heard": (
        pod(container(cpu="1"), resources={"requests": {"ephemeral-storage": "1Gi"}}),
        {"cpu": 1000},
    ),
    "only limits are said of the pod": (pod(container(cpu="1"), resources={"limits": {"cpu": "3"}}), {"cpu": 1000}),
    "huge pages of the pod": (
        pod(container(), resources={"requests": {"hugepages-2Mi": "2Mi"}}),
        {"hugepages-2Mi": 2 * MI},
    ),
    "overhead is added": (
        pod(container(cpu="1"), overhead={"cpu": "250m", "memory": "120Mi"}),
        {"cpu": 1250, "memory": 120 * MI},
    ),
    "overhead comes after init containers and the pod's own": (
        pod(
            container(cpu="1"),
            init=(container("i", cpu="4"),),
            overhead={"cpu": "1"},
            resources={"requests": {"cpu": "2"}},
        ),
        {"cpu": 3000},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_pod_needs(case: str) -> None:
    given_pod, wanted = CASES[case]

    assert count_requests(given_pod) == {**wanted, "pods": 1}


def resized(given_pod: dict[str, Any], *states: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {**given_pod, "status": {"containerStatuses": list(states), **status}}


RESIZES = {
    "it grows: what it asks for counts": (
        resized(pod(container(cpu="2")), {"name": "main", "allocatedResources": {"cpu": "1"}}),
        2000,
    ),
    "it shrinks: what it has counts until it is given back": (
        resized(
            pod(container(cpu="1")),
            {"name": "main", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "3"}}},
        ),
        3000,
    ),
    "it was promised more than it has": (
        resized(
            pod(container(cpu="1")),
            {"name": "main", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1"}}},
        ),
        2000,
    ),
    "it can never grow: what it asks for does not count": (
        resized(
            pod(container(cpu="9")),
            {"name": "main", "allocatedResources": {"cpu": "1"}},
            conditions=[{"type": "PodResizePending", "reason": "Infeasible"}],
        ),
        1000,
    ),
    "it cannot grow yet": (
        resized(
            pod(container(cpu="9")),
            {"name": "main", "allocatedResources": {"cpu": "1"}},
            conditions=[{"type": "PodResizePending", "reason": "Deferred"}],
        ),
        9000,
    ),
    "one that nothing is known of asks": (
        resized(
            pod(container("main", cpu="1"), container("more", cpu="2")),
            {"name": "main", "allocatedResources": {"cpu": "4"}},
        ),
        6000,
    ),
}


@pytest.mark.parametrize("case", RESIZES)
def test_what_a_pod_needs_while_it_is_resized(case: str) -> None:
    given_pod, milli = RESIZES[case]

    assert count_requests(given_pod)["cpu"] == milli


SCORED = {
    "who says nothing counts a little": (pod(container()), {"cpu": 100, "memory": 200 * MI}),
    "for each container": (pod(container("a"), container("b", cpu="1")), {"cpu": 1100, "memory": 400 * MI}),
    "an explicit zero is said": (pod(container(cpu="0", memory="0")), {"cpu": 0, "memory": 0}),
    "the pod says it for all": (
        pod(container(), resources={"requests": {"cpu": "1"}}),
        {"cpu": 1000, "memory": 200 * MI},
    ),
    "an init container counts too": (
        pod(container(memory="1Mi", cpu="0"), init=(container("i"),)),
        {"cpu": 100, "memory": 200 * MI},
    ),
}


@pytest.mark.parametrize("case", SCORED)
def test_what_scores_take_a_pod_to_need(case: str) -> None:
    given_pod, wanted = SCORED[case]

    assert count_scored_requests(given_pod) == {**wanted, "pods": 1}


AMOUNTS = st.integers(0, 50).map(lambda number: f"{number * 100}m")


@given(st.lists(AMOUNTS, min_size=1, max_size=4), st.lists(st.tuples(st.booleans(), AMOUNTS), max_size=5))
def test_a_pod_always_has_room_for_whatever_runs_at_one_time(
    running: list[str], starting: list[tuple[bool, str]]
) -> None:
    milli = {text: parse_amounts({"cpu": text})["cpu"] for text in [*running, *(text for _, text in starting)]}
    given_pod = pod(
        *(container(f"c{number}", cpu=text) for number, text in enumerate(running)),
        init=tuple((sidecar if stays else container)(f"i{n}", cpu=text) for n, (stays, text) in enumerate(starting)),
    )

    at_one_time, beside = [], 0
    for stays, text in starting:
        at_one_time.append(beside + milli[text])
        beside += milli[text] if stays else 0
    at_one_time.append(beside + sum(milli[text] for text in running))

    assert count_requests(given_pod)["cpu"] == max(at_one_time)


def test_what_a_node_has_is_read_from_its_status() -> None:
    allocatable = {"cpu": "3920m", "memory": "8Gi", "pods": "110", "example.com/gpu": "4", "ephemeral-storage": "10Gi"}

    assert read_allocatable({"status": {"allocatable": allocatable}}) == {
        "cpu": 3920,
        "memory": 8192 * MI,
        "pods": 110,
        "example.com/gpu": 4,
        "ephemeral-storage": 10240 * MI,
    }
    assert read_allocatable({}) == {}
    assert read_allocatable({"status": {}}) == {}


def test_ports_are_those_of_the_machine_and_of_what_keeps_running() -> None:
    given_pod = {
        "spec": {
            "initContainers": [
                {"name": "once", "ports": [{"containerPort": 1, "hostPort": 1}]},
                {"name": "side", "restartPolicy": "Always", "ports": [{"containerPort": 9, "hostPort": 9}]},
            ],
            "containers": [
                {
                    "name": "main",
                    "ports": [
                        {"containerPort": 80},
                        {"containerPort": 80, "hostPort": 8080, "protocol": "UDP"},
                        {"containerPort": 81, "hostPort": 8081, "hostIP": "10.0.0.1"},
                        {"containerPort": 82, "hostPort": 8081, "hostIP": "10.0.0.1"},
                    ],
                }
            ],
        }
    }

    assert list_host_ports(given_pod) == (
        HostPort("0.0.0.0", "TCP", 9),
        HostPort("0.0.0.0", "UDP", 8080),
        HostPort("10.0.0.1", "TCP", 8081),
    )


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_two_ports_conflict(one: tuple[str, str, int], other: tuple[str, str, int], wanted: bool) -> None:
    assert conflicts(HostPort(*one), HostPort(*other)) is wanted
    assert conflicts(HostPort(*other), HostPort(*one)) is wanted


@pytest.mark.parametrize(
    ("phase", "wanted"), [("Succeeded", True), ("Failed", True), ("Running", False), ("Pending", False), (None, False)]
)
def test_a_pod_is_over_when_it_has_ended(phase: str | None, wanted: bool) -> None:
    assert is_over({"status": {"phase": phase}}) is wanted
    assert is_over({}) is False
