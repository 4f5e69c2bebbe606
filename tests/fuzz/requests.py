"""Requests of all sorts, most of them almost right: a function of the chance and of the kinds that are served."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final
from urllib.parse import quote, urlencode

from mainstay.api.kind import Kind, Object
from tests.fuzz.bodies import APPLY, BodySource
from tests.fuzz.deliveries import BodyFate
from tests.fuzz.queries import JSON, PROTOBUF, YAML, Learned, build_headers, build_query
from tests.fuzz.samples import CRDS, SUBRESOURCES
from tests.fuzz.values import TEXTS, mutated, odd_value, to_json

NAMES: Final = ("a", "b", "c")
NAMESPACES: Final = ("default", "default", "default", "two", "two", "kube-system", "missing")
USERS: Final = (
    *("root",) * 300,
    *("admin",) * 80,
    *("alice", "bob", "carol", "carol", "node-a", "node-a", "scheduler", "controllers", "") * 10,
    *("wrong", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "é", " ", "x y"),
)
"""By token. Empty: anonymous."""
_PAGES: Final = (
    *("/", "/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/fuzz.dev/v1", "/version", "/metrics"),
    *("/healthz", "/livez", "/readyz", "/readyz?verbose", "/readyz/ping", "/openapi/v2", "/openapi/v3", "/nope", "//"),
    *(
        "/openapi/v3/apis/apps/v1",
        "/openapi/v3/api/v1",
        "/api/v9/pods",
        "/apis/nope/v1/x",
        "/journal/",
        "/journal/nope",
    ),
    *(
        "/journal/decisions",
        "/journal/records",
        "/journal/writes",
        "/journal/history",
        "/journal/object",
        "/.well-known/x",
    ),
    *(
        "/openid/v1/jwks",
        "/.well-known/openid-configuration",
        "/api/v1/watch/pods",
        "/api/v1/namespaces/default/pods/a/b/c",
    ),
)

_METHODS: Final = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


@dataclass(frozen=True)
class FuzzRequest:
    user: str
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    fate: BodyFate | None = None
    """Of a body that does not come with the head. None: it does."""
    delivery: int | None = None
    """The seed of how it comes over a connection (deliveries.py). None: straight to the handler."""

    @property
    def changes_nothing(self) -> bool:
        """Whatever the answer is."""
        return self.method not in ("POST", "PUT", "PATCH", "DELETE") or "dryRun=All" in self.target

    def __str__(self) -> str:
        way = "" if self.delivery is None else ", over a connection"
        way += "" if self.fate is None else f", its body {self.fate.name}"
        lines = [f"{self.method} {self.target}   (user {self.user or 'anonymous'}{way})"]
        lines += [f"{name}: {value!r}" for name, value in self.headers.items()]
        return "\n".join([*lines, repr(self.body) if len(self.body) < 20_000 else f"{self.body[:20_000]!r}…"])


class RequestSource:
    """`find` is what is stored of a kind, in a namespace, under a name; `learned` what answers have said."""

    def __init__(self, chance: Random, find: Callable[[Kind, str, str], Object | None], learned: Learned) -> None:
        self._chance = chance
        self._find = find
        self._bodies = BodySource(chance)
        self._learned = learned

    def next(self, kinds: Sequence[Kind]) -> FuzzRequest:
        request, chance = self._build(kinds), self._chance
        if chance.random() < 0.04:
            return replace(request, delivery=chance.randrange(2**32))
        if chance.random() < 0.1:
            return replace(request, fate=chance.choice((*(BodyFate.COMES,) * 4, BodyFate.COMES_IN_VAIN, *BodyFate)))
        return request

    def _build(self, kinds: Sequence[Kind]) -> FuzzRequest:
        chance = self._chance
        if chance.random() < 0.03:
            return self._page()
        kind = chance.choice(kinds)
        if chance.random() < 0.15:  # What others depend on, and what has most code, deserves more.
            kind = next((each for each in kinds if each.plural == "pods" and not each.group), kind)
        subresource = ""
        if kind.subresources and chance.random() < 0.35:
            subresource = chance.choice(kind.subresources).name
        methods = ("POST",) * 4 + ("PUT",) * 3 + ("PATCH",) * 4 + ("GET", "DELETE")
        method = chance.choice(methods)
        if kind.verbs == ("create",) and chance.random() < 0.97:
            method = "POST"
        elif "create" not in kind.verbs and chance.random() < 0.97:
            method = "GET"
        part = kind.subresource(subresource) if subresource else None
        if part is not None and chance.random() < 0.97:
            method = _METHODS[chance.choice(part.verbs)]
        namespace, name = chance.choice(NAMESPACES), self._name()
        if (kind.group, kind.plural) == ("apiextensions.k8s.io", "customresourcedefinitions"):
            name = chance.choice(CRDS)["metadata"]["name"] if chance.random() < 0.9 else name
        if kind.plural == "nodes" and chance.random() < 0.5:
            name = "node-a"
        is_collection = not subresource and (
            method == "POST" or (method in ("GET", "DELETE") and chance.random() < 0.3)
        )
        there = None
        if not is_collection and chance.random() < 0.9:
            namespace, name, there = self._existing(kind, namespace, name)
        path = self._path(kind, namespace, "" if is_collection else name, subresource)
        query = build_query(chance, method, is_collection, subresource, self._learned)
        headers = build_headers(chance, subresource)
        body = b""
        if method in ("POST", "PUT"):
            obj = self._bodies.build_object(kind, namespace, name, subresource)
            if method == "PUT" and there is not None and subresource not in SUBRESOURCES and chance.random() < 0.9:
                obj = (
                    there
                    if chance.random() < 0.1
                    else mutated(chance, there, kind.message, chance.choice((1, 1, 2, 4)))
                )
            media, body = self._bodies.encode(kind, obj, subresource)
            headers["Content-Type"] = media
        elif method == "PATCH":
            headers["Content-Type"], body = self._bodies.build_patch(kind, namespace, name, subresource)
            if headers["Content-Type"] == APPLY and chance.random() < 0.95:
                query += [("fieldManager", chance.choice(("me", "you"))), ("force", chance.choice(("true", "false")))]
        elif method == "DELETE" and chance.random() < 0.3:
            headers["Content-Type"] = JSON
            body = to_json(self._bodies.build_delete_options())
        if body and chance.random() < 0.03:
            body = self._bodies.damage(body)
        if chance.random() < 0.01:
            headers["Content-Type"] = chance.choice(
                (
                    *("text/plain", "", "application/json; charset=x", "APPLICATION/JSON", ";", "application/cbor"),
                    *("application/apply-patch+cbor", "application/merge-patch+json;x", "application/json-patch+json"),
                    *(YAML, PROTOBUF, "application/strategic-merge-patch+json", "multipart/form-data; boundary=x"),
                )
            )
        target = path + ("?" + urlencode(query, errors="replace") if query else "")
        return FuzzRequest(self._user(), method, target, headers, body)

    def _user(self) -> str:
        tokens = self._learned.tokens
        return self._chance.choice(tokens) if tokens and self._chance.random() < 0.03 else self._chance.choice(USERS)

    def _page(self) -> FuzzRequest:
        chance = self._chance
        if chance.random() < 0.15:
            media, records = self._bodies.build_records()
            headers = {**build_headers(chance), "Content-Type": media}
            return FuzzRequest(self._user(), "POST", "/journal/decisions", headers, records)
        method = chance.choice(("GET", "GET", "GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "X"))
        page = chance.choice(_PAGES)
        if chance.random() < 0.3:
            name = chance.choice(("limit", "kind", "at", "since", "name", "timeout", "component", "revision", "after"))
            page += f"?{name}={quote(chance.choice(TEXTS))}"
        body = to_json(odd_value(chance)) if method in ("POST", "PUT") else b""
        return FuzzRequest(chance.choice(USERS), method, page, build_headers(chance), body)

    def _existing(self, kind: Kind, namespace: str, name: str) -> tuple[str, str, Object | None]:
        """One that is there, if there is one."""
        places = [(each, other) for each in ("default", "two") for other in (*NAMES, "node-a", "default")]
        self._chance.shuffle(places)
        for each, other in [(namespace, name), *places]:
            if (there := self._find(kind, each, other)) is not None:
                return each, other, there
        return namespace, name, None

    def _name(self) -> str:
        return self._chance.choice(NAMES) if self._chance.random() < 0.95 else self._chance.choice(TEXTS)

    def _path(self, kind: Kind, namespace: str, name: str, subresource: str) -> str:
        if self._chance.random() < 0.01:
            namespace = self._chance.choice(TEXTS)
        parts = ["/apis/" + kind.group if kind.group else "/api", kind.version]
        if kind.namespaced and (name or self._chance.random() < 0.95):
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(kind.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)
