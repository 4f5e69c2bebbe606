"""Which host ports are taken on which node, found by port: few pods take one, so nodes are not looked at one by one."""

from collections.abc import Iterable

from mainstay.api.pod_resources import HostPort, conflicts


class PortsInUse:
    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], dict[int, dict[HostPort, int]]] = {}
        """By protocol and port, then by row: who has it, and how often."""

    def add(self, ports: Iterable[HostPort], row: int, times: int) -> None:
        """Ports were taken on a node, or given back (-1)."""
        for port in ports:
            rows = self._taken.setdefault((port.protocol, port.port), {})
            held = rows.setdefault(row, {})
            held[port] = held.get(port, 0) + times
            if held[port] == 0:
                del held[port]
                if not held:
                    del rows[row]
                if not rows:
                    del self._taken[port.protocol, port.port]

    def rows_refusing(self, wanted: HostPort, own: tuple[HostPort, ...] = (), own_row: int = -1) -> list[int]:
        """The rows where a port cannot be taken. `own` ports on `own_row` are held for the pod in question."""
        rows = self._taken.get((wanted.protocol, wanted.port))
        if not rows:
            return []
        return [row for row in rows if self._refuses(rows[row], wanted, own if row == own_row else ())]

    def refuses(self, row: int, wanted: HostPort, own: tuple[HostPort, ...] = ()) -> bool:
        held = self._taken.get((wanted.protocol, wanted.port), {}).get(row)
        return held is not None and self._refuses(held, wanted, own)

    @staticmethod
    def _refuses(held: dict[HostPort, int], wanted: HostPort, own: tuple[HostPort, ...]) -> bool:
        return any(conflicts(port, wanted) and times > own.count(port) for port, times in held.items())
