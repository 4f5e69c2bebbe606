"""What is told of a request besides its answer."""

import gc
import warnings

from mainstay.env import Env
from mainstay.http.messages import Headers, Peer, Request, Response
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.flow.control import FlowControl, FlowLimits
from mainstay.server.request.context import ApiCall
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.observer import Handle, Observer


def a_request() -> Request:
    return Request("GET", "/x", "/x", "", Headers(), b"", Peer("h", 1))


def an_observer(env: Env, handle: Handle) -> Observer:
    metrics = Metrics(env.clock)
    flow = FlowControl(env.clock, FlowLimits(600), lambda target: 0, metrics)
    return Observer(handle, env, Authenticator({}), metrics, flow, None)


def test_a_request_whose_client_is_gone_leaves_nothing_behind(sim):
    begun: list[str] = []

    async def later() -> Response:
        begun.append("begun")
        return Response(200)

    def handle(call: ApiCall):
        return later()

    env = sim.env("server")
    observer = an_observer(env, handle)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        pending = observer.answer(a_request())
        pending.close()  # type: ignore[union-attr]
        del pending
        gc.collect()
    assert (begun, [str(each.message) for each in heard]) == ([], [])


async def test_an_answer_that_comes_later_has_an_audit_id_too(sim):
    async def later() -> Response:
        return Response(200)

    env = sim.env("server")
    observer = an_observer(env, lambda call: later())
    answer = await observer.answer(a_request())  # type: ignore[misc]
    assert [name for name, _ in answer.headers] == ["Audit-Id"]
