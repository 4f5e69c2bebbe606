"""The addresses of a node's pods: one for each pod, out of the node's own subnet.

They are given out in turn, so that one that was just given back does not belong to another pod at once: a client that
still sends to it is refused, and reaches no stranger. Nothing is kept here but in memory. Which address a pod has is in
its status before any of its containers starts (agent/pod/worker.py), so a new incarnation of the agent sees it, and
takes note (`keep`).
"""

from ipaddress import IPv4Address, IPv4Network


class PodAddresses:
    def __init__(self, subnet: IPv4Network) -> None:
        self._subnet = subnet
        self._first = int(subnet.network_address) + 1  # The first one is the network's, the last is everybody's.
        self._count = max(subnet.num_addresses - 2, 1)
        self._next = 0
        self._owners: dict[str, str] = {}
        self._held: dict[str, str] = {}

    def keep(self, uid: str, address: str) -> None:
        """This pod has this address already. If another one has it too, that cannot be undone."""
        self._held[uid] = address
        self._owners.setdefault(address, uid)

    def take(self, uid: str) -> str | None:
        """The address of a pod: always the same one. None: all are taken."""
        held = self._held.get(uid)
        if held is not None:
            return held
        for _ in range(self._count):
            address = str(IPv4Address(self._first + self._next))
            self._next = (self._next + 1) % self._count
            if address not in self._owners:
                self._owners[address] = uid
                self._held[uid] = address
                return address
        return None

    def give_back(self, uid: str) -> None:
        """The pod does not need its address any more, if it had one. May be said again."""
        address = self._held.pop(uid, None)
        if address is not None and self._owners.get(address) == uid:
            del self._owners[address]
