"""What is served here, for clients that ask: discovery, in its old form and its aggregated one, and a small OpenAPI.

Everything is made from the registry, and made again when that has changed. The OpenAPI documents say just what
`kubectl` looks for before it applies something: that a kind can be patched, and that its fields can be validated by
the server.
"""

import hashlib
from typing import Any, Final

import msgspec

from mainstay.api.kind import Kind
from mainstay.http.messages import Request, Response
from mainstay.server.request.answers import NO_CACHE, no_page
from mainstay.server.request.served_kinds import Registry

AGGREGATED_TYPE: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# kubectl asks for the old form of OpenAPI, in protobuf only, when it meets a kind that the new form does not have, such
# as a List. It is content with a document that says nothing: version 2.0, a title, and no paths.
OPEN_API_V2_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
OPEN_API_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPEN_API_V2: Final = b"\x0a\x032.0" + b"\x12\x0e\x0a\x08Mainstay\x12\x02v1" + b"\x42\x00"

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0",
    "gitCommit": "mainstay",
    "gitTreeState": "clean",
    "buildDate": "2026-11-15T00:00:00Z",
    "goVersion": "none",
    "compiler": "CPython",
    "platform": "linux/amd64",
}
"""What clients take for the version of Kubernetes whose API this is."""

_encode = msgspec.json.Encoder().encode


class Discovery:
    """Answers from the registry, remembered until it changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._made_from = -1
        self._answers: dict[str, bytes] = {}

    def page(self, request: Request) -> Response:
        """The answer to a request; 404 if nothing is there."""
        path = request.path.rstrip("/") or "/"
        accept = request.headers.get("accept") or ""
        if path in ("/api", "/apis") and "as=APIGroupDiscoveryList" in accept:
            found = self.aggregated(path)
            if found is not None:
                body, tag = found
                headers = (("Cache-Control", "public"), ("ETag", tag), ("Vary", "Accept"))
                if request.headers.get("if-none-match") == tag:
                    return Response(304, b"", AGGREGATED_TYPE, headers)
                return Response(200, body, AGGREGATED_TYPE, headers)
        if path == "/openapi/v2" and OPEN_API_V2_ASKED in accept:
            return Response(200, OPEN_API_V2, OPEN_API_V2_TYPE, (NO_CACHE,))
        answer = self.answer(path)
        return no_page() if answer is None else Response(200, answer, headers=(NO_CACHE,))

    def answer(self, path: str) -> bytes | None:
        """The body for a path such as `/apis/apps/v1`, or None if nothing is there."""
        self._refresh()
        return self._answers.get(path.rstrip("/") or "/")

    def aggregated(self, path: str) -> tuple[bytes, str] | None:
        """The body for `/api` or `/apis` in the aggregated form, and its entity tag."""
        self._refresh()
        body = self._answers.get(f"aggregated {path.rstrip('/')}")
        return None if body is None else (body, f'"{_hash(body)}"')

    def _refresh(self) -> None:
        if self._made_from != self._registry.generation:
            self._made_from = self._registry.generation
            self._answers = _answers(self._registry)


def _answers(registry: Registry) -> dict[str, bytes]:
    versions = registry.versions()
    kinds: dict[tuple[str, str], list[Kind]] = {}
    for kind in registry:
        kinds.setdefault((kind.group, kind.version), []).append(kind)
    groups = {group: _group(group, versions[group]) for group in versions if group}
    found: dict[str, object] = {
        "/api": {"kind": "APIVersions", "versions": versions.get("", []), "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(groups.values())},
        "aggregated /api": _aggregated({"": versions.get("", [])}, kinds),
        "aggregated /apis": _aggregated({group: versions[group] for group in groups}, kinds),
    }
    for group, described in groups.items():
        found[f"/apis/{group}"] = {"kind": "APIGroup", "apiVersion": "v1", **described}
    documents = {}
    for (group, version), members in kinds.items():
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        found[path] = _resource_list(members)
        documents[path] = _open_api(path, members)
        found[f"/openapi/v3{path}"] = documents[path]
    found["/openapi/v3"] = {
        "paths": {
            path[1:]: {"serverRelativeURL": f"/openapi/v3{path}?hash={_hash(_encode(document))}"}
            for path, document in documents.items()
        }
    }
    found["/"] = {"paths": sorted(path for path in found if path.startswith("/"))}
    return {path: _encode(body) for path, body in found.items()}


def _group(group: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(kinds: list[Kind]) -> dict[str, Any]:
    resources = []
    for kind in kinds:
        entry: dict[str, Any] = {
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": list(kind.verbs),
        }
        if kind.short_names:
            entry["shortNames"] = list(kind.short_names)
        if kind.categories:
            entry["categories"] = list(kind.categories)
        if "watch" in kind.verbs:
            entry["storageVersionHash"] = _hash(f"{kind.group}/{kind.kind}".encode())[:12]
        resources.append(entry)
        for sub in kind.subresources:
            part: dict[str, Any] = {
                "name": f"{kind.plural}/{sub.name}",
                "singularName": "",
                "namespaced": kind.namespaced,
            }
            if sub.kind and (sub.group, sub.version) != (kind.group, kind.version):
                part |= {"group": sub.group, "version": sub.version}
            resources.append({**part, "kind": sub.kind or kind.kind, "verbs": list(sub.verbs)})
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kinds[0].group_version,
        "resources": resources,
    }


def _aggregated(versions: dict[str, list[str]], kinds: dict[tuple[str, str], list[Kind]]) -> dict[str, Any]:
    items = []
    for group, names in versions.items():
        items.append(
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated_resource(kind) for kind in kinds[group, version]],
                        "freshness": "Current",
                    }
                    for version in names
                ],
            }
        )
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resource(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind or kind.kind},
                "verbs": list(sub.verbs),
            }
            for sub in kind.subresources
        ]
    return entry


def _open_api(path: str, kinds: list[Kind]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for kind in kinds:
        if "patch" in kind.verbs:
            scope = "/namespaces/{namespace}" if kind.namespaced else ""
            paths[f"{path}{scope}/{kind.plural}/{{name}}"] = {
                "patch": {
                    "parameters": [
                        {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
                    ],
                    "responses": {"200": {"description": "OK"}},
                    "x-kubernetes-action": "patch",
                    "x-kubernetes-group-version-kind": {
                        "group": kind.group,
                        "kind": kind.kind,
                        "version": kind.version,
                    },
                }
            }
    return {"openapi": "3.0.0", "info": {"title": "Mainstay", "version": "v1"}, "paths": paths}


def _hash(data: bytes) -> str:
    return hashlib.sha512(data).hexdigest().upper()
