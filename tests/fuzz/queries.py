"""Queries and headers: options of reads and writes, selectors, tokens to continue, forms, impersonation, upgrades."""

import base64
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.fuzz.values import KEYS, TEXTS

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_TABLE: Final = "as=Table;v=v1;g=meta.k8s.io"
_FORMS: Final = (
    *(JSON, YAML, PROTOBUF, "*/*", "application/*", "text/html", "", ";;=,"),
    *(f"{JSON};{_TABLE}", f"{YAML};{_TABLE}", f"{PROTOBUF};{_TABLE}"),
    *(f"{JSON};as={each};v=v1;g=meta.k8s.io" for each in ("PartialObjectMetadata", "PartialObjectMetadataList", "X")),
    f"{JSON};as=Table;v=v9;g=x",
    f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
)
_WRITE_HEADERS: Final = (
    *("Mainstay-Operation", "Mainstay-Decision", "Mainstay-Cause", "Mainstay-Term", "Mainstay-Observed"),
    "Mainstay-Opening",
)
_UPGRADES: Final = (
    {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"},
    {
        "Connection": "keep-alive, Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": "v5.channel.k8s.io, base64.channel.k8s.io",
    },
    {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"},
    {"Connection": "Upgrade", "Upgrade": "h2c"},
)
_LABELS: Final = ("app=web", "app in (web,x)", "!app", "a=b,c!=d", "a==b", "app", "x notin (y)", "app>1", "app<x")
_FIELDS: Final = (
    *(
        "metadata.name=a",
        "spec.nodeName=node-a",
        "status.phase!=Running",
        "spec.text=abc",
        "metadata.namespace=default",
    ),
    *(
        "metadata.name=a,metadata.name!=b",
        r"metadata.name=a\,b",
        "spec.nodeName=",
        "metadata.name",
        "involvedObject.name=a",
    ),
)


@dataclass
class Learned:
    """What the server has said that later requests can make use of."""

    continues: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    revision: int = 1


def build_query(
    chance: Random, method: str, is_collection: bool, subresource: str, learned: Learned
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if method in ("POST", "PUT", "PATCH"):
        if chance.random() < 0.4:
            found.append(("fieldValidation", chance.choice((*("Strict", "Warn", "Ignore") * 5, "x", ""))))
        if chance.random() < 0.1:
            found.append(("dryRun", chance.choice((*("All",) * 9, "x", ""))))
        if chance.random() < 0.1:
            found.append(("fieldManager", chance.choice(TEXTS)))
    if method == "GET" and is_collection:
        found += _list_options(chance, learned)
    if method == "GET" and not is_collection and chance.random() < 0.1:
        found.append(("resourceVersion", _version(chance, learned)))
    if is_collection and method in ("GET", "DELETE"):
        if chance.random() < 0.3:
            found.append(("labelSelector", _selector(chance, _LABELS)))
        if chance.random() < 0.3:
            found.append(("fieldSelector", _selector(chance, _FIELDS)))
    if method == "DELETE":
        if chance.random() < 0.3:
            policies = ("Foreground", "Background", "Orphan", "x")
            found.append(("propagationPolicy", chance.choice(policies)))
        if chance.random() < 0.2:
            found.append(("gracePeriodSeconds", chance.choice(("0", "5", "-1", "x"))))
        if chance.random() < 0.1:
            found.append(("dryRun", "All"))
    if subresource in ("log", "exec", "attach", "portforward") and chance.random() < 0.7:
        for _ in range(chance.choice((1, 1, 2, 4))):
            name = chance.choice(("container", "command", "tailLines", "sinceSeconds", "sinceTime", "ports", "follow"))
            found.append((name, chance.choice(TEXTS)))
    if chance.random() < 0.1:
        found.append(("pretty", chance.choice(("true", "1", "x"))))
    if chance.random() < 0.02:
        found.append((chance.choice(KEYS), chance.choice(TEXTS)))
    return found


def _list_options(chance: Random, learned: Learned) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    numbers = ("0", "1", "2", "5", "99999999999", "-1", "x", "", "AAAA")
    for name in ("limit", "timeoutSeconds"):
        if chance.random() < 0.2:
            found.append((name, chance.choice(numbers)))
    if chance.random() < 0.2:
        found.append(("resourceVersion", _version(chance, learned)))
    if chance.random() < 0.2:
        found.append(("continue", _continue(chance, learned)))
        found.append(("limit", "1"))
    if chance.random() < 0.2:
        found.append(("resourceVersionMatch", chance.choice(("Exact", "NotOlderThan", "x"))))
    if chance.random() < 0.25:
        found.append(("watch", chance.choice(("1", "true", "false", "x"))))
        found.append(("allowWatchBookmarks", chance.choice(("true", "true", "false", "x"))))
        if chance.random() < 0.3:
            found.append(("sendInitialEvents", chance.choice(("true", "false"))))
            found.append(("resourceVersionMatch", "NotOlderThan"))
    return found


def _version(chance: Random, learned: Learned) -> str:
    some = str(chance.randint(0, learned.revision + 2))
    return chance.choice((some, some, str(learned.revision), "0", "-1", "x", "", "9" * 18, "9" * 30, "1.0", "٣", "+1"))


def _continue(chance: Random, learned: Learned) -> str:
    """A token that the server has given, perhaps changed; or one that looks like it."""
    if not learned.continues or chance.random() < 0.2:
        odd = (
            b'{"v":"meta.k8s.io/v1","rv":-1}',
            b'{"x":' + b"[" * 3000,
            b"\xff",
            b'{"v":"meta.k8s.io/v1","rv":5,"start":"a"}',
        )
        return chance.choice(("AAAA", "x", "e30=", "e30", base64.b64encode(chance.choice(odd)).decode()))
    token = chance.choice(learned.continues)
    if chance.random() < 0.5:
        return token
    raw = bytearray(base64.urlsafe_b64decode(token + "=="))
    if raw:
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return base64.urlsafe_b64encode(bytes(raw)).decode()


def _selector(chance: Random, known: tuple[str, ...]) -> str:
    """Terms that are right, odd, or cut somewhere."""
    if chance.random() < 0.3:
        return chance.choice(TEXTS)
    text = ",".join(chance.choice(known) for _ in range(chance.choice((1, 1, 1, 2, 5))))
    if chance.random() < 0.3:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(("", "(", ")", ",", "!", "=", " ", "\\", "é", "\0")) + text[at + 1 :]
    return text


def build_headers(chance: Random, subresource: str = "") -> dict[str, str]:
    headers: dict[str, str] = {}
    if chance.random() < 0.12:
        forms = [chance.choice(_FORMS) for _ in range(chance.choice((1, 1, 1, 2, 4)))]
        weights = ("", "", "", ";q=0.5", ";q=0", ";q=x", "; q=1.0; charset=utf-8")
        headers["Accept"] = ", ".join(form + chance.choice(weights) for form in forms)
    if chance.random() < 0.06:
        values = ("x", "5", "5;strict", "a" * 40, "default/a=5", "kube-system/x=1", "9" * 30, *TEXTS)
        headers[chance.choice(_WRITE_HEADERS)] = chance.choice(values)
    if chance.random() < 0.04:
        headers |= _impersonation(chance)
    if chance.random() < 0.03:
        headers["User-Agent"] = chance.choice(TEXTS)
    if chance.random() < 0.02:
        headers[chance.choice(("traceparent", "X-Forwarded-For", "Accept-Encoding", "If-None-Match"))] = chance.choice(
            TEXTS
        )
    if chance.random() < 0.01:
        headers["Content-Encoding"] = chance.choice(("gzip", "identity", "br", ""))
    if chance.random() < (0.4 if subresource in ("exec", "attach", "portforward", "log", "proxy") else 0.003):
        headers |= chance.choice(_UPGRADES)
    # What the HTTP layer lets through: no line breaks, no NUL.
    return {name: value.replace("\0", "").replace("\r", "").replace("\n", "") for name, value in headers.items()}


def _impersonation(chance: Random) -> dict[str, str]:
    users = ("bob", "alice", "system:node:node-a", "system:serviceaccount:default:default", "system:anonymous", *TEXTS)
    headers = {"Impersonate-User": chance.choice(users)}
    if chance.random() < 0.5:
        headers["Impersonate-Group"] = chance.choice(("readers", "system:masters", "system:nodes", *TEXTS))
        headers["impersonate-group"] = chance.choice(("devs", "system:authenticated", *TEXTS))
    if chance.random() < 0.3:
        headers["Impersonate-Uid"] = chance.choice(TEXTS)
    if chance.random() < 0.3:
        headers[f"Impersonate-Extra-{chance.choice(('scopes', 'a%2Fb', '%zz', '', 'A.b', '%ff'))}"] = chance.choice(
            TEXTS
        )
    if chance.random() < 0.2:
        del headers["Impersonate-User"]
    return headers
