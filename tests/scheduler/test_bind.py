"""What a server may answer to bindings, and what is made of it."""

import pytest

from mainstay.api.causes import BindingCause
from mainstay.client.client import Client
from mainstay.client.connection import ServerResponse
from mainstay.client.errors import BadRequest, Conflict, Fenced, NotFound, Throttled, Unavailable
from mainstay.scheduler import bind as binding
from mainstay.scheduler.bind import Bind, Binder, BindRefused, Bound, NotDone, SeenRevisions, Unknown
from tests.client.world import a_world
from tests.scheduler.running import a_scheduler

TWO = [Bind("default", name, f"uid-{name}", "n1", SeenRevisions(5), f"op-{name}", f"op-{name}") for name in ("a", "b")]


def answering(monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception) -> Binder:
    async def request(client, method, path, **more):
        if isinstance(answer, Exception):
            raise answer
        return ServerResponse(200, {}, answer)

    monkeypatch.setattr(Client, "request", request)
    return Binder(object.__new__(Client))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (b'{"status":"Bound","revision":7}', Bound(7)),
        (
            b'{"status":"Refused","code":409,"reason":"CapacityChanged","message":"cpu"}',
            BindRefused(BindingCause.CAPACITY_CHANGED, "cpu"),
        ),
        (
            b'{"status":"Refused","code":409,"reason":"NeverHeardOf","message":"?"}',
            BindRefused(BindingCause.OTHER, "?"),
        ),
        (
            b'{"status":"Refused","code":404,"reason":"NotFound","message":"gone"}',
            BindRefused(BindingCause.POD_GONE, "gone"),
        ),
        (b'{"status":"Refused","code":503,"message":"later"}', NotDone("later")),
        (b'{"status":"Unknown","code":504,"message":"perhaps"}', Unknown("perhaps")),
    ],
)
async def test_each_item_has_its_own_answer(item, expected, monkeypatch):
    binder = answering(monkeypatch, b'{"items":[%b,{"status":"Bound","revision":8}]}' % item)

    assert await binder.bind(TWO) == [expected, Bound(8)]


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"items":[]}', b'{"items":[{"status":"Bound"}]}', b"[1]"])
async def test_an_answer_that_makes_no_sense_is_none(answer, monkeypatch):
    found = await answering(monkeypatch, answer).bind(TWO)

    assert [type(each) for each in found] == [Unknown, Unknown]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unavailable("no answer", may_have_happened=True), Unknown),
        (Unavailable("not sent"), NotDone),
        (Throttled("too many"), NotDone),
        (BadRequest("what?", status=400), NotDone),
    ],
)
async def test_a_failure_is_of_all_of_them(error, expected, monkeypatch):
    found = await answering(monkeypatch, error).bind(TWO)

    assert [type(each) for each in found] == [expected, expected]


async def test_a_deposed_leader_is_told(monkeypatch):
    with pytest.raises(Fenced):
        await answering(monkeypatch, Fenced("over", status=409)).bind(TWO)


async def test_a_server_without_batches_gets_plain_bindings(sim, monkeypatch):
    monkeypatch.setattr(binding, "BATCHES", "/apis/mainstay.dev/v1/there-is-nothing")
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", "n2", cpu="2")
        for number in range(5):
            await running.add_pod(f"web-{number}", cpu="1")

        await running.until(lambda: running.scheduler.counts.bound == 4)

        nodes = [await running.find_node(f"web-{number}") for number in range(5)]
        assert sorted(nodes) == ["", "n1", "n1", "n2", "n2"]


async def test_a_conflict_without_a_cause_is_cleared_up_by_looking(sim, monkeypatch):
    """As a Kubernetes server answers to the repeat of a binding that was done."""
    async with a_world(sim) as world:
        binder = Binder(world.client)
        binder._has_batches = False

        async def request(client, method, path, **more):
            raise Conflict("already assigned", status=409)

        async def get(client, kind, name, namespace):
            if name == "gone":
                raise NotFound("gone", status=404)
            uid = "another" if name == "new" else f"uid-{name}"
            return {"metadata": {"uid": uid}, "spec": {"nodeName": "n1"} if name == "bound" else {}}

        monkeypatch.setattr(Client, "request", request)
        monkeypatch.setattr(Client, "get", get)
        binds = [
            Bind("default", name, f"uid-{name}", "n1", SeenRevisions(5), "", name)
            for name in ("bound", "gone", "new", "free")
        ]

        found = await binder.bind(binds)

        causes = [each.cause for each in found if isinstance(each, BindRefused)]
        assert causes == [
            BindingCause.ALREADY_BOUND,
            BindingCause.POD_GONE,
            BindingCause.POD_DELETED,
            BindingCause.OTHER,
        ]
