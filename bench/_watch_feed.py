"""A process that only sends the watch it was started with, for benchmarks of watch clients.

    python -m bench._watch_feed PODS CHANGES SEED

Prints its port. The first request gets a state of so many pods, and the bookmark that ends it; then, when it is told so
on its standard input, so many changes of them, each in a chunk of its own, and a last bookmark. A real server would
have to be written to at the same time and would be the slower one; what is sent is what ours sends.
"""

import asyncio
import random
import sys
from typing import Any, Final

import msgspec

NODES: Final = 1000
NAMESPACES: Final = 50
PODS_OF_AN_OWNER: Final = 10
ENDS_STATE: Final = {"k8s.io/initial-events-end": "true"}

_encode = msgspec.json.Encoder().encode


def a_pod(number: int, revision: int, chance: random.Random) -> dict[str, Any]:
    """A pod as clusters have them, of about 2.5 KB."""
    owner = number // PODS_OF_AN_OWNER
    app = f"app-{owner % 300}"
    containers = [
        {
            "name": name,
            "image": f"registry.example.org/{app}/{name}:1.{owner % 9}",
            "imagePullPolicy": "IfNotPresent",
            "env": [{"name": f"SETTING_{each}", "value": f"{app}.{each}.internal"} for each in range(5)],
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io", "readOnly": True}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
        for name in ("main", "proxy")
    ]
    conditions = [
        {"type": each, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-03-01T10:00:00Z"}
        for each in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"{app}-{owner:08x}-{number:05}",
            "generateName": f"{app}-{owner:08x}-",
            "namespace": f"team-{owner % NAMESPACES}",
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": str(revision),
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "labels": {"app": app, "pod-template-hash": f"{owner:08x}", "tier": "backend"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-{owner:08x}",
                    "uid": f"{owner:08x}-1111-4000-8000-{owner:012x}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{chance.randrange(NODES)}",
            "containers": containers,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "priorityClassName": "standard",
            "schedulerName": "default-scheduler",
        },
        "status": {"phase": "Running", "hostIP": "10.1.2.3", "podIP": "10.9.8.7", "conditions": conditions},
    }


def an_event(kind: str, obj: dict[str, Any]) -> bytes:
    line = b'{"type":"%b","object":%b}\n' % (kind.encode(), _encode(obj))
    return b"%x\r\n%b\r\n" % (len(line), line)


def a_bookmark(revision: int, annotations: dict[str, str] | None = None) -> bytes:
    metadata = {"resourceVersion": str(revision), "annotations": annotations or {}}
    return an_event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


class Feed:
    """What is sent, made before any request."""

    def __init__(self, pods: int, changes: int, seed: int) -> None:
        chance = random.Random(seed)
        made = [a_pod(number, number + 1, chance) for number in range(pods)]
        self.state = b"".join([an_event("ADDED", pod) for pod in made]) + a_bookmark(pods, ENDS_STATE)
        parts = []
        for revision in range(pods + 1, pods + changes + 1):
            pod = chance.choice(made)
            pod["metadata"]["resourceVersion"] = str(revision)
            pod["status"]["podIP"] = f"10.9.{revision % 250}.{revision // 250 % 250}"
            parts.append(an_event("MODIFIED", pod))
        self.changes = b"".join(parts) + a_bookmark(pods + changes + 1)


async def _serve(feed: Feed) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), told.set)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(feed.state)
        await told.wait()
        writer.write(feed.changes)
        await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(Feed(*map(int, sys.argv[1:]))))
