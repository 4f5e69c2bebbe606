"""What a table is made of: columns, each with a way to fill it from an object.

`kubectl get` shows what the server sends, so that a client need not know a kind to show it. Most kinds are declared
column by column with `table(...)`; where several cells come out of one look at the object, `Table` takes a function
for the row. Every cell is always computed, whether a client shows its column or not: that is for the client to
choose.

The ages are of the moment of the request. See kind.py for what a column says about itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mainstay.api.kind import Column, Object
from mainstay.api.tables import fields
from mainstay.api.tables.texts import NONE, UNKNOWN, container_images, container_names, selector, since
from mainstay.api.times import format_time

Cell = Callable[[Object, datetime], Any]


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    cells: Callable[[Object, datetime], list[Any]]
    """The row of an object at a moment, one cell for each column. Does not raise, whatever the object is."""
    conditions: Callable[[Object], Sequence[Object]] | None = None
    """What is said of a row besides its cells; does not raise either. None: nothing, of any row."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A column, and what goes into it."""

    column: Column
    cell: Cell


def filled(name: str, cell: Cell, description: str, *, holds: str = "string", wide: bool = False) -> Filled:
    """A column. `holds` is the type that clients are told; a wide one is only shown with `-o wide`."""
    return Filled(Column(name, holds, "", description, 1 if wide else 0), cell)


def table(*parts: Filled) -> Table:
    def row(found: Object, now: datetime) -> list[Any]:
        return [part.cell(found, now) for part in parts]

    return Table(tuple(part.column for part in parts), row)


def text_at(path: str, otherwise: str = "") -> Cell:
    return lambda found, now: fields.text(found, path, otherwise)


def whole_at(path: str, otherwise: int = 0) -> Cell:
    return lambda found, now: fields.whole(found, path, otherwise)


def flag_at(path: str, otherwise: bool = False) -> Cell:
    return lambda found, now: fields.flag(found, path, otherwise)


def count_at(*paths: str) -> Cell:
    """How many entries there are in lists or objects, together."""

    def count(found: Object, now: datetime) -> int:
        held = (fields.at(found, path) for path in paths)
        return sum(len(each) for each in held if isinstance(each, list | dict))

    return count


def age_at(path: str, otherwise: str) -> Cell:
    """How long ago a field says, or something else when it says nothing."""
    return lambda found, now: since(fields.at(found, path), now) if fields.has(found, path) else otherwise


def of(write: Callable[[Object], Any]) -> Cell:
    """A cell that does not depend on the time."""
    return lambda found, now: write(found)


def of_field(path: str, write: Callable[[Any], Any]) -> Cell:
    """A cell made of one field, with the words for it from elsewhere."""
    return lambda found, now: write(fields.at(found, path))


def name_column(priority: int = 0) -> Column:
    return Column("Name", "string", "name", "What the object is called; unique for its kind and namespace.", priority)


NAME = Filled(name_column(), text_at("metadata.name"))
AGE = filled("Age", age_at("metadata.creationTimestamp", UNKNOWN), "How long ago it was created.")


def pod_columns(template: str) -> tuple[Filled, Filled]:
    """The wide columns of a kind that makes pods from a template."""
    return (
        filled("Containers", of_field(template, container_names), "The containers in the template.", wide=True),
        filled("Images", of_field(template, container_images), "The images of these containers.", wide=True),
    )


def selector_column(path: str) -> Filled:
    return filled("Selector", of_field(path, selector), "Which pods belong to it.", wide=True)


def progress_columns() -> tuple[Filled, Filled]:
    """Two of ours, after all that the real server has: how far a workload has come, and what limits it (progress.py).

    Only shown with `-o wide`, and last, so that a client that counts columns finds those it knows.
    """
    return (
        filled("Progress", text_at("status.progress.verdict", NONE), "What to make of how far it has come.", wide=True),
        filled("Limited By", of(_limit), "Who its missing replicas wait for, and why.", wide=True),
    )


def _limit(found: Object) -> str:
    limit = fields.mapping(found, "status.progress.limitedBy")
    if not limit:
        return NONE
    return f"{fields.text(limit, 'component')}: {fields.text(limit, 'reason')} ({fields.whole(limit, 'count')})"


def _created_at(found: Object, now: datetime) -> str:
    """The time itself. An object without one is as old as time."""
    created = fields.moment(fields.at(found, "metadata.creationTimestamp"))
    return format_time(created or datetime(1, 1, 1, tzinfo=UTC))


DEFAULT = table(NAME, filled("Created At", _created_at, "When it was created.", holds="date"))
"""For kinds without a table of their own."""
