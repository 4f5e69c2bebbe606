"""Whatever a client sends as a body: a clear refusal, nothing stored, and a server that is still there."""

import json
import random

import pytest

from tests.api.encode_protobuf import encode, envelope
from tests.server.world import CONFIGMAPS, PODS, a_configmap, a_pod, a_server

NESTED = b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
NASTY = {
    "nothing": b"",
    "white space": b"  \n",
    "half an object": b'{"metadata":{"na',
    "invalid UTF-8": b'{"metadata":{"name":"\xff\xfe"}}',
    "deep nesting": NESTED,
    "deep arrays": b"[" * 100_000,
    "a huge number": b'{"metadata":{"name":"x","generation":' + b"9" * 5000 + b"}}",
    "a number out of range": b'{"metadata":{"name":"x","generation":1e999}}',
    "a duplicate key": b'{"metadata":{"name":"x"},"data":{"a":"1","a":"2"}}',
    "a lone surrogate": b'{"metadata":{"name":"x"},"data":{"a":"\\ud800"}}',
    "a NUL": b'{"metadata":{"name":"x\\u0000"}}',
    "no object": b'"text"',
    "null": b"null",
    "metadata that is no object": b'{"metadata":[]}',
    "protobuf in JSON's place": b"k8s\x00\n\x0f\n\x02v1",
}


@pytest.mark.parametrize("what", NASTY)
@pytest.mark.parametrize(
    "content_type", ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"]
)
async def test_a_nasty_body_is_refused_and_nothing_is_stored(sim, what, content_type):
    async with a_server(sim) as client:
        before = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]

        answer = await client.ask("POST", f"{CONFIGMAPS}?fieldValidation=Strict", NASTY[what], content_type)

        assert 400 <= answer.status < 500, answer
        assert answer.body["kind"] == "Status"
        assert answer.body["message"]
        assert (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"] == before


async def test_mutated_bodies_are_accepted_or_refused_but_never_break_the_server(sim):
    chance = random.Random(82219)
    bodies = {
        "application/json": json.dumps(a_pod("web", nodeName="n1", restartPolicy="Never")).encode(),
        "application/yaml": b"metadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: x, env: [{name: A}]}\n",
        "application/vnd.kubernetes.protobuf": envelope("v1", "Pod", encode("k8s.io.api.core.v1.Pod", a_pod("web"))),
    }
    async with a_server(sim) as client:
        for number in range(600):
            content_type = list(bodies)[number % 3]
            body = bytearray(bodies[content_type])
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(body))
                match chance.randrange(3):
                    case 0:
                        body[at] = chance.randrange(256)
                    case 1:
                        del body[at : at + chance.randint(1, 20)]
                    case _:
                        body[at:at] = body[chance.randrange(len(body)) :][: chance.randint(1, 30)]
            answer = await client.ask("POST", PODS, bytes(body), content_type)
            assert answer.status in (201, 400, 403, 409, 415, 422), (content_type, bytes(body), answer)
        await client.create(CONFIGMAPS, a_configmap("alive"))


@pytest.mark.parametrize("kind", ["json", "merge", "strategic-merge"])
async def test_mutated_patches_never_break_the_server(sim, kind):
    chance = random.Random(7)
    patch: object = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "y"}]}}
    if kind == "json":
        patch = [{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}, {"op": "test", "path": "/a"}]
    original = json.dumps(patch).encode()
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("web"))
        for _ in range(200):
            body = bytearray(original)
            for _ in range(chance.randint(1, 3)):
                body[chance.randrange(len(body))] = chance.randrange(32, 127)
            answer = await client.ask("PATCH", f"{PODS}/web", bytes(body), f"application/{kind}-patch+json")
            assert answer.status in (200, 400, 409, 413, 422), (bytes(body), answer)
        assert (await client.get(f"{PODS}/web"))["metadata"]["name"] == "web"
