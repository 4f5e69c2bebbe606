"""State machines as tables: every step that is possible, with what leads to it. The diagram is drawn from the table.

    STEPS = StateTable(
        (
            (Door.OPEN, "pushed", Door.SHUT),
            (Door.SHUT, "pulled", Door.OPEN),
        )
    )
    if after not in STEPS.after[before]:
        raise broken("a door is opened and shut in turn", …)

`render` gives the diagram as Mermaid text, which GitHub draws. Put it into a page of docs/, with a test that asks
`is_current`: then the picture cannot become outdated.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Generic, TypeVar

S = TypeVar("S", bound=StrEnum)


class StateTable(Generic[S]):
    """`steps` are (before, what happens, after); the first one's state is where it begins."""

    def __init__(self, steps: Sequence[tuple[S, str, S]]) -> None:
        self.steps = tuple(steps)
        self.states: tuple[S, ...] = tuple(
            dict.fromkeys(state for before, _, after in steps for state in (before, after))
        )
        self.after: Mapping[S, frozenset[S]] = {
            state: frozenset(after for before, _, after in steps if before is state) for state in self.states
        }
        """By state, those that may come next."""
        self.next: Mapping[tuple[S, str], S] = {(before, event): after for before, event, after in steps}
        """By state and event, what follows, in a table that has one step for each event."""

    def render(self) -> str:
        """The diagram, as Mermaid text. Steps between the same two states share an arrow."""
        arrows: dict[tuple[S, S], list[str]] = {}
        for before, event, after in self.steps:
            arrows.setdefault((before, after), []).append(event)
        names = [f'    state "{state}" as {state.name}' for state in self.states]
        drawn = [
            f"    {before.name} --> {after.name}: {', '.join(events)}" for (before, after), events in arrows.items()
        ]
        return "\n".join(["stateDiagram-v2", *names, f"    [*] --> {self.states[0].name}", *drawn])

    def is_current(self, text: str) -> bool:
        """Whether a page shows the diagram as it is now."""
        return f"```mermaid\n{self.render()}\n```" in text
