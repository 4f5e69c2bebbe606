"""A table of steps, and the diagram that is drawn from it."""

from enum import StrEnum

from mainstay.env.state_table import StateTable


class Door(StrEnum):
    OPEN = "open"
    SHUT = "shut"
    GONE = "taken away"


DOORS = StateTable[Door](
    (
        (Door.OPEN, "pushed", Door.SHUT),
        (Door.SHUT, "pulled", Door.OPEN),
        (Door.SHUT, "kicked", Door.OPEN),
        (Door.SHUT, "sold", Door.GONE),
    )
)


def test_it_knows_what_may_come_next():
    assert DOORS.after == {
        Door.OPEN: frozenset({Door.SHUT}),
        Door.SHUT: frozenset({Door.OPEN, Door.GONE}),
        Door.GONE: frozenset(),
    }


def test_the_diagram_has_every_state_and_step():
    assert DOORS.render().splitlines() == [
        "stateDiagram-v2",
        '    state "open" as OPEN',
        '    state "shut" as SHUT',
        '    state "taken away" as GONE',
        "    [*] --> OPEN",
        "    OPEN --> SHUT: pushed",
        "    SHUT --> OPEN: pulled, kicked",
        "    SHUT --> GONE: sold",
    ]


def test_a_page_is_current_only_with_this_very_diagram():
    page = f"# Doors\n\n```mermaid\n{DOORS.render()}\n```\n"
    assert DOORS.is_current(page)
    assert not DOORS.is_current(page.replace("kicked", "knocked"))
