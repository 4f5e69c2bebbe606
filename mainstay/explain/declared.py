"""What each component declares to read and to write, by kind: the static half of the coupling map. (SPEC O6)

Controllers declare it themselves, and cannot read anything else (loop/view.py). The table (mainstay/registry.py) has
loops of their own, the scheduler, agents and the server's commit points as well; a test compares it with what they
write in a simulated cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind_name import KindName
from mainstay.loop.controller import Controller

EVERYTHING: Final = "*"
"""Whatever there is: the clean-up behind owners and namespaces."""


@dataclass(frozen=True, slots=True)
class Declared:
    reads: Mapping[str, bool]
    """By kind: whether a change of it wakes the component."""
    writes: tuple[str, ...]


Declarations = Mapping[str, Declared]
"""By the name of the component."""


def find_declared(declarations: Declarations, component: str) -> Declared | None:
    """By its name, or by that of an instance: `scheduler-1` is a `scheduler`."""
    if component in declarations:
        return declarations[component]
    base, _, number = component.rpartition("-")
    return declarations.get(base) if number.isdigit() else None


def declared_by(controller: Controller) -> Declared:
    reads = {controller.kind.text: True}
    for each in controller.reads:
        reads[each.kind.text] = reads.get(each.kind.text, False) or bool(each.wakes or each.wakes_among)
    writes = dict.fromkeys((controller.kind.text, *(kind.text for kind in controller.writes)))
    return Declared(reads, tuple(writes))


def declare(wakes: Iterable[KindName], reads: Iterable[KindName], writes: Iterable[KindName]) -> Declared:
    seen = {kind.text: True for kind in wakes} | {kind.text: False for kind in reads}
    return Declared(seen, tuple(kind.text for kind in writes))
