"""Objects for a simulated cluster from whatever they are written in, and the kinds that they are of.

What a kind is called in addresses (`websites`) is not in an object (`Website`). For kinds that every server has it is
known; for others it is in their definition, which must come first.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN
from mainstay.env.disk import read_text
from mainstay.sim.errors import SimulationError

Manifest = Mapping[str, Any] | Iterable[Mapping[str, Any]] | str | Path
"""An object, several of them, YAML with one or several, or the path of a file with that."""


class BadManifest(SimulationError):
    """This does not say what objects there should be. Says what is missing."""


class NoSuchKind(SimulationError):
    """No kind of this name is defined. Says what to do."""


def parse_objects(manifest: Manifest) -> list[Object]:
    """Raises `BadManifest`."""
    match manifest:
        case Path():
            return parse_objects(read_text(manifest))
        case str():
            found = list(yaml.safe_load_all(manifest))
            if any(isinstance(each, str) for each in found):
                raise BadManifest(f"{manifest[:60]!r} is not YAML of objects; for a file, pass a pathlib.Path")
            return [each for each in found if each is not None]
        case Mapping():
            return [dict(manifest)]
        case _:
            return [dict(each) for each in manifest]


def set_namespace(kind: KindName, obj: Object) -> Object:
    """The object, in `default` if it does not say where."""
    metadata = obj.get("metadata") or {}
    if not kind.namespaced or metadata.get("namespace"):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": "default"}}


class KindIndex:
    """The kinds of one cluster."""

    def __init__(self) -> None:
        self._kinds = [kind.reference for kind in BUILTIN]

    def define(self, definition: Object) -> None:
        """Know what a CustomResourceDefinition defines."""
        spec = definition["spec"]
        names, is_namespaced = spec["names"], spec["scope"] == "Namespaced"
        for version in spec["versions"]:
            kind = KindName(spec["group"], version["name"], names["kind"], names["plural"], is_namespaced)
            self._kinds.append(kind)

    def of(self, obj: Object) -> KindName:
        """Of an object. Raises `NoSuchKind` and `BadManifest`."""
        version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
        if not version or not kind:
            raise BadManifest(f"apiVersion or kind is missing: {str(obj)[:200]}")
        for each in self._kinds:
            if (each.group_version, each.kind) == (version, kind):
                return each
        raise NoSuchKind(f"unknown kind {kind} in {version}; add its CustomResourceDefinition first")

    def named(self, name: str) -> KindName:
        """By kind or plural, with the group or without. Raises `NoSuchKind`."""
        wanted = name.lower()
        for each in reversed(self._kinds):
            if wanted in (each.kind.lower(), each.plural, each.text):
                return each
        raise NoSuchKind(f"unknown kind {name!r}; add its CustomResourceDefinition first")
