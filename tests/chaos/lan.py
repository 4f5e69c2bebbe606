"""Several machines on one network: a namespace each, and a bridge between them and the control plane."""

import os
import subprocess
from types import TracebackType
from typing import Self

NETWORK = "10.213.8"
_LISTEN = "0A"  # As /proc/net/tcp has it.


class LanMachine:
    """Processes started with `prefix` are on it."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"{NETWORK}.{number + 2}"
        self.cable = f"{name}c"

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def ip(self, *words: str) -> str:
        """Run `ip` on it."""
        return _ip("-n", self.name, *words)

    def listens(self, port: int) -> bool:
        """Whether a process on it accepts connections there."""
        done = subprocess.run([*self.prefix, "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True)
        rows = [line.split() for line in done.stdout.splitlines()[1:]]
        return any(int(row[1].rpartition(":")[2], 16) == port and row[3] == _LISTEN for row in rows)


class Lan:
    """Use it as a context manager. Needs root."""

    host_address = f"{NETWORK}.1"

    def __init__(self, count: int) -> None:
        self._bridge = f"mb{os.getpid()}"
        self.machines = [LanMachine(f"ml{os.getpid()}-{number}", number) for number in range(count)]

    def __enter__(self) -> Self:
        _ip("link", "add", self._bridge, "type", "bridge")
        try:
            _ip("address", "add", f"{self.host_address}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for machine in self.machines:
                self._plug_in(machine)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _plug_in(self, machine: LanMachine) -> None:
        _ip("netns", "add", machine.name)
        _ip("link", "add", machine.cable, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
        _ip("link", "set", machine.cable, "master", self._bridge, "up")
        machine.ip("link", "set", "lo", "up")
        machine.ip("address", "add", f"{machine.address}/24", "dev", "eth0")
        machine.ip("link", "set", "eth0", "up")
        machine.ip("route", "add", "default", "via", self.host_address)

    def cut(self, machine: LanMachine) -> None:
        _ip("link", "set", machine.cable, "down")

    def heal(self, machine: LanMachine) -> None:
        _ip("link", "set", machine.cable, "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        there = _ip("netns", "list").split()
        for machine in self.machines:
            if machine.name in there:
                _ip("netns", "delete", machine.name)  # And with it the cable.
        _ip("link", "delete", self._bridge)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout
