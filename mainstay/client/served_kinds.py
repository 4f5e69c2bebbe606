"""Which kinds a server serves, from its discovery: for those who must look at all of them, custom ones included.

A kind comes once, in the version that its group prefers. What a server cannot tell is listed in `problems`: callers
that need
*all* kinds must not go on as if there were no more. Nothing is remembered here; ask again.
"""

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEFINITIONS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound, Throttled, Unavailable

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@dataclass(frozen=True, slots=True)
class ServedKind:
    name: KindName
    verbs: frozenset[str]


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, sorted by group and name."""

    kinds: tuple[ServedKind, ...] = ()
    problems: dict[str, str] = field(default_factory=dict)
    """By group and version: why its kinds are unknown."""

    def find(self, group: str, kind: str) -> KindName | None:
        """The kind of this name, in whatever version. None: it is not served, or unknown."""
        return next((each.name for each in self.kinds if (each.name.group, each.name.kind) == (group, kind)), None)

    def doubts(self, group: str) -> str:
        """Why there may be more kinds in this group than are known; empty if there are not."""
        return next((text for name, text in self.problems.items() if _parse_group(name) == group), "")


async def served_kinds(client: Client) -> Served:
    """Ask. Raises `ApiError` if the server does not answer at all."""
    found: dict[tuple[str, str], ServedKind] = {}
    problems: dict[str, str] = {}
    for path in ("/api", "/apis"):
        answer = await _ask(client, path, _AGGREGATED)
        if answer.get("kind") == "APIGroupDiscoveryList":
            _read_aggregated(answer, found, problems)
        else:
            await _read_one_by_one(client, path, answer, found, problems)
    return Served(tuple([found[key] for key in sorted(found)]), problems)


async def all_kinds(client: Client) -> Served:
    """The same, and nothing is left out: a kind that is defined, and that this server does not know yet, is a problem.

    Raises `ApiError`.
    """
    served = await served_kinds(client)
    if served.find(DEFINITIONS.group, DEFINITIONS.kind) is None:
        return served
    known = {(each.name.group, each.name.plural) for each in served.kinds}
    problems = dict(served.problems)
    for crd in (await client.list(DEFINITIONS)).items:
        spec = crd["spec"]
        place = (spec["group"], spec["names"]["plural"])
        if place not in known and is_established(crd):
            problems[f"{spec['group']}/{spec['versions'][0]['name']}"] = f"{place[1]} are defined but not served yet"
    return Served(served.kinds, problems)


def is_established(definition: Object) -> bool:
    """Whether there may be objects of a kind that is defined so."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def _ask(client: Client, path: str, accept: str = "application/json") -> dict[str, Any]:
    response = await client.request("GET", path, headers={"Accept": accept})
    try:
        answer = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"GET {path}: cannot parse the answer: {error}") from None
    if not isinstance(answer, dict):
        raise Unavailable(f"GET {path}: the answer is not an object")
    return answer


def _read_aggregated(
    answer: dict[str, Any], found: dict[tuple[str, str], ServedKind], problems: dict[str, str]
) -> None:
    for item in answer.get("items") or ():
        group = (item.get("metadata") or {}).get("name", "")
        for version in item.get("versions") or ():
            if version.get("freshness", "Current") != "Current":
                problems[_group_version(group, version["version"])] = "the server's discovery data is stale"
            for each in version.get("resources") or ():
                kind = (each.get("responseKind") or {}).get("kind", "")
                name = KindName(group, version["version"], kind, each["resource"], each.get("scope") == "Namespaced")
                found.setdefault((group, name.plural), ServedKind(name, frozenset(each.get("verbs") or ())))


async def _read_one_by_one(
    client: Client,
    path: str,
    answer: dict[str, Any],
    found: dict[tuple[str, str], ServedKind],
    problems: dict[str, str],
) -> None:
    """From a server that knows only the old form, in which each version of each group is asked for."""
    if path == "/api":
        versions = [("", version) for version in answer.get("versions") or ()]
    else:
        versions = [
            (group["name"], each["version"]) for group in answer.get("groups") or () for each in _preferred_first(group)
        ]
    for group, version in versions:
        name = _group_version(group, version)
        try:
            listed = await _ask(client, f"{path}/{name}")
        except (Unavailable, Throttled):
            raise
        except NotFound:
            problems[name] = "it is listed but not served"
            continue
        except ApiError as error:
            problems[name] = str(error)
            continue
        for each in listed.get("resources") or ():
            if "/" not in each["name"]:
                kind = KindName(group, version, each["kind"], each["name"], bool(each.get("namespaced")))
                found.setdefault((group, kind.plural), ServedKind(kind, frozenset(each.get("verbs") or ())))


def _preferred_first(group: dict[str, Any]) -> list[dict[str, Any]]:
    preferred = (group.get("preferredVersion") or {}).get("version")
    return sorted(group.get("versions") or (), key=lambda each: each["version"] != preferred)


def _group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _parse_group(group_version: str) -> str:
    return group_version.rpartition("/")[0]
