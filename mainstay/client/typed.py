"""Objects with types: read from JSON into structs, and written back without losing what the types do not know.

    class WidgetSpec(Part):
        replicas: int = 1

    class Widget(Resource):
        KIND = KindName("example.com", "v1", "Widget", "widgets", True)
        spec: WidgetSpec

    widget = Widget.from_object(await client.get(Widget.KIND, "one", "default"))
    widget.spec.replicas += 1
    await client.replace(Widget.KIND, widget.to_object())

A field of a struct is `snake_case` here and `camelCase` on the wire; `msgspec.field(name=…)` says otherwise. A class in
which a field that must be there comes after one that need not be is written `class X(Part, kw_only=True)`. Each part
remembers the mapping that it was read from, so what another version, or another controller, put there stays where it
was, at any depth, also in the elements of lists that were sorted, cut or added to. A field that the object had is
written even if its value is the default one; set it to None to leave it out.

Values are checked against the types when they are read, not when they are set. What the types do not know is shared
with the object that was read: change neither it nor what `to_object` returns in place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Final, Self, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName

_SOURCE: Final = "__source"  # On the Python side only: `to_object` leaves it out.

Read = Callable[[Any], Any]


class Unreadable(ValueError):
    """The object does not have the form that its type says."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path
        """Of the field, such as `spec.containers[0].image`."""

    def within(self, outer: str) -> "Unreadable":
        """The same as seen from one level further out."""
        if not self.path:
            return Unreadable(self.problem, outer)
        return Unreadable(self.problem, f"{outer}{self.path}" if self.path[0] == "[" else f"{outer}.{self.path}")


class Part(msgspec.Struct, kw_only=True, rename="camel", eq=False, omit_defaults=True):
    """Any mapping within an object."""

    source_: Mapping[str, Any] = msgspec.field(name=_SOURCE, default_factory=dict)
    """What this was read from. Empty for what was made here."""

    @classmethod
    def from_object(cls, obj: Object) -> Self:
        """Raises `Unreadable`."""
        return cast(Self, _plan(cls).read(obj))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The same from JSON. Raises `Unreadable`."""
        try:
            obj = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(f"it is no JSON: {error}") from None
        return cls.from_object(obj)

    def to_object(self) -> Object:
        """All of it: what the types know as it is now, and the rest as it was read."""
        return _plan(type(self)).write(self)

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self.to_object())

    def __eq__(self, other: object) -> bool:
        return self.to_object() == other.to_object() if isinstance(other, type(self)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # It can be changed.

    def __repr__(self) -> str:
        return f"{type(self).__name__}.from_object({self.to_object()!r})"


class OwnerReference(Part):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class Metadata(Part):
    """What all objects have. Of the rest, such as managedFields, everything is kept."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class Resource(Part, kw_only=True):
    """An object of the API. Subclasses say their `KIND`, and give `spec`, `status` and so on a type."""

    KIND: ClassVar[KindName]

    metadata: Metadata

    @classmethod
    def from_object(cls, obj: Object) -> Self:
        if not isinstance(obj, dict):
            raise Unreadable(f"expected an object, got {_kind_of(obj)}")
        found = obj.get("kind"), obj.get("apiVersion")
        # Items of a list do not say what they are.
        if any(found) and found != (cls.KIND.kind, cls.KIND.group_version):
            raise Unreadable(f"it is {found[0]} of {found[1]}, not {cls.KIND.kind} of {cls.KIND.group_version}")
        return super().from_object(obj)

    def to_object(self) -> Object:
        written = super().to_object()
        written["kind"] = self.KIND.kind
        written["apiVersion"] = self.KIND.group_version
        return written


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    wire_name: str
    read: Read
    default: Callable[[], Any] | None
    """What makes the value of a field that is not there. None: it has to be there."""

    def is_unsaid(self, value: Any) -> bool:
        """Whether this is what leaving it out says."""
        return value is None or (self.default is not None and bool(value == self.default()))


class _Plan:
    """How one type of part is read and written. Made once for each type."""

    __slots__ = ("_fields", "_type")

    def __init__(self, part: type[Part]) -> None:
        self._type = part
        own = [each for each in msgspec.structs.fields(part) if each.encode_name != _SOURCE]
        self._fields = {
            each.encode_name: _Field(each.name, each.encode_name, _reader(each.type), _default(each)) for each in own
        }

    def read(self, value: Any) -> Part:
        if not isinstance(value, dict):
            raise Unreadable(f"expected an object, got {_kind_of(value)}")
        values: dict[str, Any] = {"source_": value}
        for wire_name, field in self._fields.items():
            found = value.get(wire_name)
            # In the API, null is the same as not being there.
            if found is not None:
                try:
                    values[field.name] = field.read(found)
                except Unreadable as error:
                    raise error.within(wire_name) from None
            elif field.default is None:
                raise Unreadable("it is missing", wire_name)
        return self._type(**values)

    def write(self, part: Part) -> Object:
        source, fields = part.source_, self._fields
        written: Object = {}
        for wire_name, found in source.items():
            field = fields.get(wire_name)
            if field is None:
                written[wire_name] = found
                continue
            value = getattr(part, field.name)
            if found is None and field.is_unsaid(value):
                written[wire_name] = None
            elif value is not None:
                written[wire_name] = _written(value)
        for wire_name, field in fields.items():
            if wire_name not in source and not field.is_unsaid(value := getattr(part, field.name)):
                written[wire_name] = _written(value)
        return written


_plan = cache(_Plan)


def _default(field: FieldInfo) -> Callable[[], Any] | None:
    if field.default_factory is not msgspec.NODEFAULT:
        factory: Callable[[], Any] = field.default_factory
        return factory
    if field.default is not msgspec.NODEFAULT:
        value = field.default
        return lambda: value
    return None


def _reader(kind: Any) -> Read:
    """What turns a value of JSON into one of this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Part):
        # Looked up when it is needed: a type may contain itself.
        return lambda value: _plan(kind).read(value)
    if origin in (Union, UnionType) and NoneType in arguments:
        inner = [each for each in arguments if each is not NoneType]
        if len(inner) == 1:
            read = _reader(inner[0])
            return lambda value: None if value is None else read(value)
    if origin is list and _has_parts(arguments[0]):
        read_item = _reader(arguments[0])
        return lambda value: _read_list(value, read_item)
    if origin is dict and _has_parts(arguments[1]):
        read_value = _reader(arguments[1])
        return lambda value: _read_mapping(value, read_value)
    if _has_parts(kind):
        raise TypeError(
            f"{kind} is not a type that can keep unknown fields: use Part, list, dict with text keys, | None"
        )
    return lambda value: _converted(value, kind)


def _has_parts(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, Part):
        return True
    return any(_has_parts(each) for each in get_args(kind))


def _read_list(value: Any, read: Read) -> list[Any]:
    if not isinstance(value, list):
        raise Unreadable(f"expected a list, got {_kind_of(value)}")
    items = []
    for index, each in enumerate(value):
        try:
            items.append(read(each))
        except Unreadable as error:
            raise error.within(f"[{index}]") from None
    return items


def _read_mapping(value: Any, read: Read) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"expected an object, got {_kind_of(value)}")
    items = {}
    for key, each in value.items():
        try:
            items[key] = read(each)
        except Unreadable as error:
            raise error.within(key) from None
    return items


def _converted(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from None


def _written(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_object()
    if isinstance(value, list | tuple):
        return [_written(each) for each in value]
    if isinstance(value, dict):
        return {key: _written(each) for key, each in value.items()}
    if isinstance(value, str | int | float | bool | NoneType):
        return value
    return msgspec.to_builtins(value)


def _kind_of(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "text", bool: "true or false", NoneType: "null"}.get(
        type(value), "a number"
    )
