"""Into which slices the endpoints of a Service go: so that few slices change, and no endpoint ever stands in two.

An endpoint stays where it is for as long as it is wanted. New ones first fill slices that change anyway or are empty
now; what is left goes into one slice that has room for all of it, the fullest of these, or else into new ones. So a
change costs few writes, and slices need not be full: nothing is moved only to pack it more tightly. When the ports of a
Service change, its slices get the new ones in place, each in one write with what it held.

What has to go from one slice to another, because it has other ports than its neighbours now, is taken out first and put
in by the next look: in between it is in none, which is the lesser evil for an endpoint whose port has just changed. An
endpoint that is found in two slices stays in the first.

A Service without endpoints keeps one slice for each family, with nothing in it: a reader knows that it was
looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind import Object
from mainstay.controllers.endpoints.routes import Endpoint, EndpointGroup, Port

SLICE_SIZE_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class ExistingSlice:
    """A slice as it is."""

    name: str
    group: EndpointGroup
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class DesiredSlice:
    """A slice as it should be."""

    group: EndpointGroup
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    changed: Mapping[str, DesiredSlice]
    """Only those that are not so already. By name, sorted."""
    created: tuple[DesiredSlice, ...] = ()
    removed: tuple[str, ...] = ()
    waits: bool = False
    """Some endpoints were only taken out, and go to another slice when that is done."""


def held_in(piece: Object) -> ExistingSlice:
    """A slice as the API has it."""
    ports = tuple(
        Port(
            str(each.get("name") or ""),
            str(each.get("protocol") or ""),
            int(each.get("port") or 0),
            str(each.get("appProtocol") or ""),
        )
        for each in piece.get("ports") or ()
    )
    endpoints = tuple(Endpoint(_identity(each), each) for each in piece.get("endpoints") or ())
    return ExistingSlice(piece["metadata"]["name"], EndpointGroup(piece["addressType"], ports), endpoints)


def _identity(body: Object) -> str:
    uid = (body.get("targetRef") or {}).get("uid")
    return str(uid) if uid else "address " + " ".join(body.get("addresses") or ())


def packed(
    existing: Sequence[ExistingSlice],
    wanted: Mapping[EndpointGroup, Sequence[Endpoint]],
    families: Sequence[str],
    size_max: int = SLICE_SIZE_MAX,
) -> Packing:
    """What has to change for the slices to have exactly the endpoints that are wanted."""
    return _Packer(existing, wanted, families, size_max).packing()


class _Packer:
    def __init__(
        self,
        existing: Sequence[ExistingSlice],
        wanted: Mapping[EndpointGroup, Sequence[Endpoint]],
        families: Sequence[str],
        size_max: int,
    ) -> None:
        self._existing = {held.name: held for held in sorted(existing, key=lambda each: each.name)}
        self._wanted = wanted
        self._families = families
        self._size_max = size_max
        self._contents: dict[str, DesiredSlice] = {}
        """Of the slices that stay, as far as it is settled."""
        self._created: list[DesiredSlice] = []
        self._waits = False

    def packing(self) -> Packing:
        self._keep_what_is_wanted()
        self._give_new_ports()
        left = {name: held for name, held in self._existing.items() if name not in self._contents}
        for group, endpoints in self._wanted.items():
            self._place(group, self._unplaced(group, endpoints), left)
        self._keep_one(left)
        kept = {name: self._contents[name] for name in self._existing if name in self._contents}
        removed = [name for name in self._existing if name not in kept]
        changed = {name: each for name, each in kept.items() if not self._is_as_it_was(name)}
        return Packing(changed, tuple(self._created), tuple(removed), self._waits)

    def _keep_what_is_wanted(self) -> None:
        """What stands in a slice of its own group stays there."""
        missing = {group: {each.identity: each for each in endpoints} for group, endpoints in self._wanted.items()}
        for name, held in self._existing.items():
            if held.group in missing:
                self._settle(name, held.group, held, missing[held.group])

    def _give_new_ports(self) -> None:
        """A slice whose ports no endpoint has any more gets those that most of its endpoints have now."""
        missing = {}
        for group, endpoints in self._wanted.items():
            placed = self._placed(group.family)
            missing[group] = {each.identity: each for each in endpoints if each.identity not in placed}
        for name, held in self._existing.items():
            if name in self._contents:
                continue
            groups = [group for group in missing if group.family == held.group.family]
            overlap = {group: sum(1 for each in held.endpoints if each.identity in missing[group]) for group in groups}
            best = max(groups, key=lambda group: overlap[group], default=None)
            if best is not None and overlap[best]:
                self._settle(name, best, held, missing[best])

    def _settle(self, name: str, group: EndpointGroup, held: ExistingSlice, missing: dict[str, Endpoint]) -> None:
        """Keep in a slice what is in it and still missing, as it is now. What is found so is not missing any more."""
        kept: list[Endpoint] = []
        for each in held.endpoints:
            if len(kept) < self._size_max and (endpoint := missing.pop(each.identity, None)) is not None:
                kept.append(endpoint)
        if kept:
            self._contents[name] = DesiredSlice(group, tuple(kept))

    def _unplaced(self, group: EndpointGroup, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """What is nowhere yet. What still stands in another slice of the family has to be taken out there first."""
        placed = self._placed(group.family)
        standing = frozenset(
            each.identity
            for held in self._existing.values()
            if held.group.family == group.family
            for each in held.endpoints
        )
        unplaced = [each for each in endpoints if each.identity not in placed]
        moving = [each for each in unplaced if each.identity in standing]
        self._waits = self._waits or bool(moving)
        return [each for each in unplaced if each.identity not in standing]

    def _placed(self, family: str) -> frozenset[str]:
        pieces = [piece for piece in self._contents.values() if piece.group.family == family]
        return frozenset(each.identity for piece in pieces for each in piece.endpoints)

    def _place(self, group: EndpointGroup, endpoints: list[Endpoint], left: dict[str, ExistingSlice]) -> None:
        mine = [name for name, piece in self._contents.items() if piece.group == group]
        for name in mine:
            if endpoints and not self._is_as_it_was(name):
                endpoints = self._fill(name, endpoints)
        while endpoints:
            piece = DesiredSlice(group, tuple(endpoints[: self._size_max]))
            spare = next((name for name, held in left.items() if held.group.family == group.family), None)
            fitting = [(self._room(name), name) for name in mine if self._room(name) >= len(endpoints)]
            if spare is not None:  # It would have to be removed, which is a write as well.
                del left[spare]
                self._contents[spare] = piece
            elif fitting:
                endpoints = self._fill(min(fitting)[1], endpoints)
                continue
            else:
                self._created.append(piece)
            endpoints = endpoints[self._size_max :]

    def _keep_one(self, left: dict[str, ExistingSlice]) -> None:
        for family in self._families:
            pieces = [*self._contents.values(), *self._created]
            if any(piece.group.family == family for piece in pieces):
                continue
            empty = DesiredSlice(EndpointGroup(family, ()), ())
            spare = next((name for name, held in left.items() if held.group.family == family), None)
            if spare is None:
                self._created.append(empty)
            else:
                self._contents[spare] = empty

    def _room(self, name: str) -> int:
        return self._size_max - len(self._contents[name].endpoints)

    def _fill(self, name: str, endpoints: list[Endpoint]) -> list[Endpoint]:
        """Put in as many as there is room for; what is left is returned."""
        room, piece = self._room(name), self._contents[name]
        self._contents[name] = DesiredSlice(piece.group, (*piece.endpoints, *endpoints[:room]))
        return endpoints[room:]

    def _is_as_it_was(self, name: str) -> bool:
        held, piece = self._existing[name], self._contents[name]
        return (held.group, held.endpoints) == (piece.group, piece.endpoints)
