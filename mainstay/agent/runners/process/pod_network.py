"""Pods with a network of their own, which other machines reach by routes. Done with `ip` and `unshare` of the machine.

A namespace is held by a file of the pod's directory on which it is mounted (`net`), so that it lasts while containers
come and go, and goes with the pod. If the mount is not there any more, although containers are (the agent was started
in another mount namespace), it is found by one of them.

All of this blocks: call it on a `tasks.Worker`. What the lines for `ip` are is in pod_links.py, which routes there are
to be in agent/node/routes.py. Not done: addresses are not translated, so machines outside of the cluster do not know
the way back; and `hostPort` is refused (agent/pod/admit.py).
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from mainstay.agent.runner import CannotRun
from mainstay.agent.runners.process import kernel, pod_links
from mainstay.env import commands

FILE: Final = "net"
SUBNET_FILE: Final = "pod-cidr"
"""In the directory of the agent: its subnet, for who cleans up after it (cleanup.py)."""
_FORWARDING: Final = Path("/proc/sys/net/ipv4/ip_forward")
_NAMESPACES: Final = b" nsfs "
# Ports below 1024 are nothing special where no other pod can listen: as with container runtimes.
_BEGIN: Final = "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start; exec ip -batch -"
_NO_SANDBOX: Final = "FailedCreatePodSandBox"


_T = TypeVar("_T")


class _Route(msgspec.Struct):
    dst: str
    gateway: str = ""


class _Link(msgspec.Struct):
    ifname: str


class RoutedNetwork:
    """The pods' network on one machine, for one agent. `start` comes first."""

    def __init__(self, directory: Path, subnet: IPv4Network) -> None:
        """`directory`: of the agent."""
        self._prefix = pod_links.find_prefix(str(directory.resolve()))
        self._subnet = subnet
        self._directory = directory

    def start(self) -> None:
        """Let the machine forward packets. Raises `CannotRun`, in words for who started the agent."""
        if os.geteuid() != 0:
            raise _refuse_start("only root can make network namespaces for pods: run the agent as root")
        try:
            (self._directory / SUBNET_FILE).write_text(f"{self._subnet}\n")
            if _FORWARDING.read_text().strip() != "1":
                _FORWARDING.write_text("1\n")
            self._ip(pod_links.build_closed(self._subnet))
            # What a pod will need, tried out before the first one is bound here.
            tried = commands.run_to_end(["unshare", "--net", "ip", "link", "set", "lo", "up"])
        except FileNotFoundError as error:
            raise _refuse_start(f"{error.filename} not found: install iproute2 and util-linux") from None
        except OSError as error:
            raise _refuse_start(f"{error.strerror or error}: {error.filename or 'ip'}") from None
        if tried.code:
            raise _refuse_start(f"unshare --net: {_explain(tried)}")

    # Pods.

    def connect(self, pod: Path, address: str, processes: Sequence[int]) -> str:
        """Have a pod, whose directory this is, on the network. `processes` are of its containers. Returns the file of
        its namespace. Raises `CannotRun`."""
        file = pod / FILE
        try:
            file.touch(mode=0o600)
            if not _is_namespace(file) and not _take_over(file, processes):
                self._make(file, pod_links.find_link(self._prefix, pod.name), address)
        except OSError as error:
            raise CannotRun(_NO_SANDBOX, f"cannot make the network of the pod: {error.strerror or error}") from error
        return str(file)

    def _make(self, file: Path, link: str, address: str) -> None:
        self._remove_link(link)  # Of a namespace that nothing holds any more, or soon.
        inside = "".join(f"{line}\n" for line in pod_links.build_inside(link, address, os.getpid()))
        done = commands.run_to_end(["unshare", f"--net={file}", "sh", "-c", _BEGIN], given=inside.encode())
        if done.code == 0:
            self._ip(pod_links.build_outside(link, address))
            return
        if _is_namespace(file):
            kernel.unmount(str(file))
        raise OSError(0, _explain(done))

    def disconnect(self, pod: Path) -> None:
        """Remove what there is of a pod's network. Of a pod without one, nothing."""
        file = pod / FILE
        if _is_namespace(file):
            kernel.unmount(str(file))
        file.unlink(missing_ok=True)
        self._remove_link(pod_links.find_link(self._prefix, pod.name))

    def remove_others(self, pods: Iterable[str]) -> None:
        """Remove the links of all pods but these: an agent was killed before it could."""
        kept = {pod_links.find_link(self._prefix, uid) for uid in pods}
        for found in self._show(list[_Link], "link", "show", "type", "veth"):
            if found.ifname.startswith(self._prefix) and found.ifname not in kept:
                self._remove_link(found.ifname)

    def remove_all(self) -> None:
        """Remove every link and route of this agent: the machine is no node any more."""
        self.remove_others(())
        self.apply({})
        protocol = str(pod_links.ROUTE_PROTOCOL)
        commands.run_to_end(["ip", "route", "delete", "unreachable", str(self._subnet), "protocol", protocol])

    def _remove_link(self, link: str) -> None:
        """And with it the other end, and the route."""
        if Path(f"/sys/class/net/{link}").exists():
            commands.run_to_end(["ip", "link", "delete", link])

    # Other machines.

    def apply(self, via: Mapping[str, str]) -> list[str]:
        """Have these routes, and none of ours to other machines beside them. Returns what could not be done."""
        have = {route.dst: route.gateway for route in self._show_routes() if route.gateway}
        problems = []
        for subnet in sorted(have.keys() - via.keys()):
            commands.run_to_end(["ip", "route", "delete", subnet, "protocol", str(pod_links.ROUTE_PROTOCOL)])
        for subnet, gateway in sorted(via.items()):
            if have.get(subnet) != gateway:
                try:
                    self._ip([f"route replace {subnet} via {gateway} protocol {pod_links.ROUTE_PROTOCOL}"])
                except OSError as error:
                    problems.append(f"no route to {subnet} by {gateway}: {error.strerror}")
        return problems

    def _show_routes(self) -> list[_Route]:
        return self._show(list[_Route], "route", "show", "protocol", str(pod_links.ROUTE_PROTOCOL))

    def _show(self, kind: type[list[_T]], *words: str) -> list[_T]:
        done = commands.run_to_end(["ip", "-json", *words])
        if done.code:
            raise OSError(0, _explain(done))
        return msgspec.json.decode(done.output or b"[]", type=kind)

    def _ip(self, lines: Sequence[str]) -> None:
        done = commands.run_to_end(["ip", "-batch", "-"], given="".join(f"{line}\n" for line in lines).encode())
        if done.code:
            raise OSError(0, _explain(done))


def _refuse_start(why: str) -> CannotRun:
    advice = "or leave --pod-cidr out: pods then share the network of this machine, and others do not reach them"
    return CannotRun("NoPodNetwork", f"cannot give pods a network of their own: {why}; {advice}")


def _explain(done: commands.Finished) -> str:
    """The last words of a program that failed."""
    lines = [
        line for line in done.errors.decode(errors="replace").splitlines() if not line.startswith("Command failed")
    ]
    return lines[-1].removeprefix("Error: ").rstrip(".") if lines else f"it ended with {done.code}"


def _is_namespace(file: Path) -> bool:
    """Whether a namespace is mounted there."""
    if not file.exists():
        return False
    with open("/proc/self/mountinfo", "rb") as mounts:
        path = os.fsencode(file.resolve())
        return any(_NAMESPACES in line and line.split(b" ")[4] == path for line in mounts)


def _take_over(file: Path, processes: Iterable[int]) -> bool:
    """Hold the namespace that containers of the pod are in."""
    own = os.readlink("/proc/self/ns/net")
    for process in processes:
        try:
            if os.readlink(f"/proc/{process}/ns/net") == own:
                continue
            kernel.bind(f"/proc/{process}/ns/net", str(file))
        except OSError:
            continue  # It has ended meanwhile.
        return True
    return False
