"""The kinds of a cluster, and how users name them: `pods`, `pod`, `po`, `Pod`, `deployments.apps`.

Read from the server by aggregated discovery each time: two small responses. If a word fits several kinds, the first
one counts, in the order of the server: the core group first, and of each group the preferred version.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mainstay.api.kind_name import KindName

if TYPE_CHECKING:
    from mainstay.client.client import Client

_ACCEPT: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@dataclass(frozen=True, slots=True)
class KnownKind:
    """A kind of the cluster."""

    name: KindName
    singular: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]

    def shown(self, name: str) -> str:
        """Render the name of one of its objects: `pod/web`, `deployment.apps/web`."""
        group = f".{self.name.group}" if self.name.group else ""
        return f"{self.name.kind.lower()}{group}/{name}"

    def is_called(self, word: str) -> bool:
        """Whether a word, in lower case, names this kind."""
        first, _, rest = word.partition(".")
        if first not in (self.name.plural, self.singular, self.name.kind.lower(), *self.short_names):
            return False
        group, version = self.name.group, self.name.version
        return rest in ("", group, f"{version}.{group}" if group else version)


@dataclass(frozen=True, slots=True)
class KindSelection:
    """One kind on a command line, with names if there are any."""

    kind: KnownKind
    names: tuple[str, ...] = ()


class Kinds:
    def __init__(self, known: Iterable[KnownKind]) -> None:
        self.known = tuple(known)

    def find(self, word: str) -> KnownKind:
        """Find the kind that a word names. Raises `click.ClickException`."""
        lowered = word.lower()
        for kind in self.known:
            if kind.is_called(lowered):
                return kind
        raise click.ClickException(
            f'the server doesn\'t have a resource type "{word}"{_similar(lowered, self.words())}'
        )

    def find_for(self, api_version: str, kind: str) -> KnownKind | None:
        """Find the kind of an object."""
        for each in self.known:
            if each.name.kind == kind and each.name.group_version == api_version:
                return each
        return None

    def in_category(self, word: str) -> list[KnownKind]:
        """List the kinds of a category, such as `all`, each in one version."""
        found: dict[tuple[str, str], KnownKind] = {}
        for kind in self.known:
            if word in kind.categories and "list" in kind.verbs:
                found.setdefault((kind.name.group, kind.name.plural), kind)
        return list(found.values())

    def words(self) -> list[str]:
        """List the plural names of the kinds, sorted, for completion."""
        return sorted({kind.name.plural for kind in self.known if "get" in kind.verbs})

    def select(self, words: Sequence[str]) -> list[KindSelection]:
        """Find what arguments name: `TYPE [NAME…]`, `TYPE1,TYPE2 [NAME…]` or `TYPE/NAME…`."""
        if any("/" in word for word in words):
            return self._select_by_path(words)
        if not words:
            raise click.UsageError("missing argument TYPE, TYPE NAME or TYPE/NAME (for example pods or pod/web-1)")
        first, *names = words
        kinds: list[KnownKind] = []
        for word in first.split(","):
            kinds += self.in_category(word) or [self.find(word)]
        return [KindSelection(kind, tuple(dict.fromkeys(names))) for kind in dict.fromkeys(kinds)]

    def _select_by_path(self, words: Sequence[str]) -> list[KindSelection]:
        found: dict[KnownKind, list[str]] = {}
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash or not kind or not name or "/" in name or "," in kind:
                raise click.UsageError(f"{word!r} must be TYPE/NAME (for example pod/web-1), as the other arguments")
            found.setdefault(self.find(kind), []).append(name)
        return [KindSelection(kind, tuple(dict.fromkeys(names))) for kind, names in found.items()]


async def read_kinds(client: "Client") -> Kinds:
    """Read the kinds of a cluster. Raises `ApiError`."""
    known: list[KnownKind] = []
    for path in ("/api", "/apis"):
        answer = await client.request("GET", path, headers={"Accept": _ACCEPT})
        listed = msgspec.json.decode(answer.body)
        if listed.get("kind") != "APIGroupDiscoveryList":
            raise click.ClickException(f"{path}: the server does not support aggregated discovery (Kubernetes 1.27+)")
        for group in listed.get("items") or ():
            known += _parse_group(group)
    return Kinds(known)


def _parse_group(group: Mapping[str, Any]) -> Iterable[KnownKind]:
    name = (group.get("metadata") or {}).get("name") or ""
    for version in group.get("versions") or ():
        for each in version.get("resources") or ():
            kind = (each.get("responseKind") or {}).get("kind") or ""
            yield KnownKind(
                KindName(name, version["version"], kind, each["resource"], each.get("scope") == "Namespaced"),
                each.get("singularResource") or kind.lower(),
                tuple(each.get("shortNames") or ()),
                tuple(each.get("categories") or ()),
                tuple(each.get("verbs") or ()),
            )


def _similar(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
