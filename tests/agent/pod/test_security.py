"""What is read from a securityContext, and what is refused."""

from typing import Any

import pytest

from mainstay.agent.pod.security import SecurityRefused, read_security
from mainstay.agent.runner import SecurityOptions


def read(pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **spec: Any) -> SecurityOptions:
    return read_security({**spec, "securityContext": pod}, {"name": "c", "securityContext": container})


def test_what_is_not_said_is_up_to_the_runner() -> None:
    assert read() == SecurityOptions()
    assert read({"seccompProfile": None}, {"privileged": False, "allowPrivilegeEscalation": True}) == SecurityOptions()


def test_what_is_said_reaches_the_runner() -> None:
    container = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["NET_BIND_SERVICE", "CAP_chown"], "drop": ["ALL"]},
        "procMount": "Default",
        "appArmorProfile": {"type": "Unconfined"},
    }
    found = read({"seccompProfile": {"type": "RuntimeDefault"}}, container, hostPID=True, hostIPC=True, hostUsers=False)
    assert found == SecurityOptions(
        is_read_only=True,
        gains_nothing=True,
        capabilities_added=("CHOWN", "NET_BIND_SERVICE"),
        capabilities_dropped=("ALL",),
        seccomp="RuntimeDefault",
        has_host_pids=True,
        has_host_ipc=True,
        has_own_users=True,
    )
    assert read(None, {"privileged": True}) == SecurityOptions(is_privileged=True)


def test_the_container_has_the_last_word() -> None:
    found = read({"seccompProfile": {"type": "RuntimeDefault"}}, {"seccompProfile": {"type": "Unconfined"}})
    assert found == SecurityOptions(seccomp="Unconfined")


@pytest.mark.parametrize(
    ("pod", "container", "spec", "message"),
    [
        ({"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}, {}, {}, "sysctls net.core.somaxconn: pods share"),
        ({"seLinuxOptions": {"level": "s0"}}, {}, {}, "seLinuxOptions: this node has no SELinux"),
        ({}, {"seLinuxOptions": {"level": "s0"}}, {}, "seLinuxOptions: this node has no SELinux"),
        ({"windowsOptions": {"hostProcess": True}}, {}, {}, "windowsOptions: this node has no Windows"),
        ({}, {"appArmorProfile": {"type": "RuntimeDefault"}}, {}, "appArmorProfile RuntimeDefault: this node has no"),
        ({}, {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}}, {}, "seccompProfile Localhost is not"),
        ({}, {"procMount": "Unmasked"}, {}, "procMount Unmasked is not supported"),
        ({}, {}, {"shareProcessNamespace": True}, "shareProcessNamespace is not supported"),
        ({"runAsUser": 1000}, {}, {"hostUsers": True}, "hostUsers: true with runAsUser: only a privileged container"),
        ({}, {"privileged": True}, {"hostUsers": False}, "a privileged container has the users of the machine"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    pod: dict[str, Any], container: dict[str, Any], spec: dict[str, Any], message: str
) -> None:
    with pytest.raises(SecurityRefused, match=message):
        read(pod, container, **spec)
