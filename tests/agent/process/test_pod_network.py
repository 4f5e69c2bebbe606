"""When the machine does not let us give pods a network of their own."""

import os
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from mainstay.agent.runner import CannotRun
from mainstay.agent.runners.process.pod_network import RoutedNetwork
from tests.requirements import needs, needs_root

NETWORK = IPv4Network("10.244.1.0/24")


def test_an_agent_that_is_not_root_is_told_so_and_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(CannotRun, match="run the agent as root; or leave --pod-cidr out"):
        RoutedNetwork(tmp_path, NETWORK).start()


def test_a_machine_without_the_programs_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRun, match="not found: install iproute2 and util-linux"):
        RoutedNetwork(tmp_path, NETWORK).start()


@needs("ip")
@needs_root
@pytest.mark.slow
def test_a_pod_that_cannot_be_linked_waits_with_the_kernels_words_and_leaves_nothing(tmp_path: Path):
    pod = tmp_path / "6e5f1a52-0000-4000-8000-000000000001"
    pod.mkdir()
    network = RoutedNetwork(tmp_path, NETWORK)
    with pytest.raises(CannotRun, match="cannot make the network of the pod") as caught:
        network.connect(pod, "no address", ())
    assert caught.value.reason == "FailedCreatePodSandBox"
    assert str(pod) not in Path("/proc/self/mountinfo").read_text()
    network.disconnect(pod)
    assert list(pod.iterdir()) == []
