"""What is known about a kind: a declaration that the generic code reads.

Built-in kinds and those that users define (CustomResourceDefinition) are the same thing here and go through the same
code. Nothing but this says how a kind differs from another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mainstay.api.errors import StatusCause
from mainstay.api.kind_name import KindName

Object = dict[str, Any]  # As JSON has it.


class Propagation(StrEnum):
    """What becomes of what an object owns when it is deleted."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table that `kubectl get` shows."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    """0 is always shown, others only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object with an address of its own, such as `status`. An empty kind is that of the object."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


ANY_SUBRESOURCE = "*"
"""As the name of a subresource: whatever is asked for."""

STATUS = Subresource("status", ("get", "patch", "update"))
SCALE = Subresource("scale", ("get", "patch", "update"), "autoscaling", "v1", "Scale")

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def no_defaults(new: Object) -> None:
    """For a kind that has none."""


def always_valid(new: Object, old: Object | None) -> Sequence[StatusCause]:
    return ()


def nothing_to_prepare(new: Object, old: Object | None) -> None:
    """For a kind that takes an object as it comes."""


@dataclass(frozen=True, slots=True)
class TextAt:
    """Reads the text at a path in an object, for a field selector; the empty text if there is none."""

    path: tuple[str, ...]

    def __call__(self, obj: Object) -> str:
        value: Any = obj
        for step in self.path:
            value = value.get(step) if value else None
        return value if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    message: str = ""
    """The protobuf message that describes its fields, such as `k8s.io.api.core.v1.Pod`. Empty: any fields are kept."""
    defaults: Callable[[Object], None] = no_defaults
    """Fill in what was left out. Changes the object in place; safe to repeat."""
    prepare: Callable[[Object, Object | None], None] = nothing_to_prepare
    """Put right what a client may not set: the object as it would be stored, and the one that is there."""
    validate: Callable[[Object, Object | None], Sequence[StatusCause]] = always_valid
    """What is wrong with an object, given the one it would replace. Defaults have been filled in."""
    name_rule: str = "subdomain"
    """subdomain, label, label1035, path: what a name may look like (names.py)."""
    columns: tuple[Column, ...] = ()
    cells: Callable[[Object, datetime], list[Any]] | None = None
    """The cells of an object's row, one for each column."""
    row_conditions: Callable[[Object], Sequence[Object]] | None = None
    """What a table says of a row besides its cells, such as that what it shows is over. None: nothing, of any row."""
    selectable: Mapping[str, Callable[[Object], str]] | None = None
    """Fields that a field selector may name, besides metadata.name and metadata.namespace."""
    has_generation: bool = True
    """Whether metadata.generation counts changes of what is wanted (everything but metadata and status)."""
    put_creates: bool = False
    put_needs_version: bool = False
    delete_returns_object: bool = False
    default_propagation: Propagation = Propagation.BACKGROUND
    from_stored: Callable[[Object], Object] | None = None
    """How this version shows an object that is kept in the form of another one. None: as it is kept."""
    to_stored: Callable[[Object], Object] | None = None
    """The way back."""
    is_kept: bool = True
    """Whether the store has its objects. Others the server makes on request."""
    is_custom: bool = False
    """Defined by a CustomResourceDefinition: items of its lists carry kind and apiVersion, and so on."""

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def reference(self) -> KindName:
        """What those who only talk about the kind need of it."""
        return KindName(self.group, self.version, self.kind, self.plural, self.namespaced)

    @property
    def has_status(self) -> bool:
        return self.subresource("status") is not None

    def subresource(self, name: str) -> Subresource | None:
        for each in self.subresources:  # With every write: a loop costs half of what a generator does.
            if each.name == name or each.name == ANY_SUBRESOURCE:
                return each
        return None
