"""What a fault is: something that is planted, one question, and what the answer must name.

    @fault("taint", codes=[Cause.UNTOLERATED_TAINT], words=["dedicated"])
    async def taint(bed: Bed) -> Ask:
        '''All nodes have a taint that the pod does not tolerate.'''
        ...
        await bed.must_be_pending("web")
        return Ask(PODS, "web")

What is planted is the truth that an answer is judged by; no other opinion counts, the product's least of all. Each
fault makes sure that its trouble is there (`bed.must…`) before it is asked about.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind_name import KindName
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import NodeOptions
from tests.faults.bed import Bed, Node

DEFAULT: Final = "default"
TWO_NODES: Final[Mapping[str, Node]] = {"node-a": NodeOptions(zone="a"), "node-b": NodeOptions(zone="b")}


@dataclass(frozen=True, slots=True)
class Ask:
    """One question."""

    kind: KindName
    name: str
    namespace: str = DEFAULT
    generation: int | None = None

    def __str__(self) -> str:
        said = f"{self.kind.kind.lower()}/{self.name}"
        return said if self.generation is None else f"{said} --generation {self.generation}"


Plant = Callable[[Bed], Awaitable[Ask]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    about: str
    codes: tuple[Cause, ...]
    """One of them must be the cause."""
    words: tuple[str, ...]
    """Each must stand in the sentence, in capitals or not. `a|b`: one of them."""
    plant: Plant
    nodes: Mapping[str, Node]

    def missing_in(self, sentence: str) -> tuple[str, ...]:
        """The words that a sentence does not have."""
        said = sentence.lower()
        return tuple(word for word in self.words if not any(each.lower() in said for each in word.split("|")))


def fault(
    name: str, *, codes: Sequence[Cause], words: Sequence[str], nodes: Mapping[str, Node] = TWO_NODES
) -> Callable[[Plant], Fault]:
    """A fault from the function that plants it."""

    def made(plant: Plant) -> Fault:
        about = (plant.__doc__ or "").strip()
        return Fault(name=name, about=about, codes=tuple(codes), words=tuple(words), plant=plant, nodes=nodes)

    return made
