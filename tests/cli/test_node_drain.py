"""Which pods of a node a drain evicts, and which stop it."""

from datetime import timedelta
from typing import Any

from mainstay.api.times import parse_time
from mainstay.cli.node_drain import DrainOptions, sort_pods
from mainstay.cli.node_removal import is_renewed

TEN = timedelta(minutes=10)


def a_pod(name: str, owner: str = "ReplicaSet", phase: str = "Running", **more: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "x", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners, **more}
    return {"metadata": metadata, "spec": {}, "status": {"phase": phase}}


def with_local_data(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "spec": {"volumes": [{"name": "t", "emptyDir": {}}]}}


def test_pods_of_controllers_are_evicted_in_the_order_of_their_names():
    found = sort_pods([a_pod("b"), a_pod("a")], DrainOptions(TEN))
    assert [pod["metadata"]["name"] for pod in found.evicted] == ["a", "b"]
    assert (found.left, found.problems) == ((), ())


def test_what_would_be_lost_stops_a_drain_and_names_the_option():
    pods = [a_pod("lonely", owner=""), with_local_data(a_pod("data")), a_pod("daemon", owner="DaemonSet")]
    problems = " ".join(sort_pods(pods, DrainOptions(TEN)).problems)
    for name, option in (("lonely", "--force"), ("data", "--delete-emptydir-data"), ("daemon", "--ignore-daemonsets")):
        assert f"default/{name}" in problems
        assert option in problems


def test_with_the_options_nothing_stops_it_and_daemons_stay():
    pods = [a_pod("lonely", owner=""), with_local_data(a_pod("data")), a_pod("daemon", owner="DaemonSet")]
    found = sort_pods(pods, DrainOptions(TEN, -1, True, True, True))
    assert [pod["metadata"]["name"] for pod in found.evicted] == ["data", "lonely"]
    assert (found.left, found.problems) == (("default/daemon",), ())


def test_finished_pods_and_mirrors_stop_nothing():
    mirror = a_pod("mirror", owner="", annotations={"kubernetes.io/config.mirror": "x"})
    found = sort_pods([with_local_data(a_pod("done", owner="", phase="Succeeded")), mirror], DrainOptions(TEN))
    assert [pod["metadata"]["name"] for pod in found.evicted] == ["done"]
    assert found.problems == ()


def test_a_lease_is_renewed_while_its_own_agent_holds_it():
    spec = {"holderIdentity": "w", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T12:00:00.000000Z"}
    lease = {"metadata": {"name": "w"}, "spec": spec}
    now = parse_time("2026-01-01T12:00:39Z")
    assert is_renewed(lease, now)
    assert not is_renewed(lease, now + timedelta(seconds=2))
    assert not is_renewed({**lease, "spec": {**spec, "holderIdentity": "control-plane"}}, now)
    assert not is_renewed({"metadata": {"name": "w"}}, now)
