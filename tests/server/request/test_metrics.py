"""The metrics, and what the observer tells of each request."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mainstay.api.errors import StatusError, StatusReason, not_found
from mainstay.api.kinds import BUILTIN
from mainstay.env import SystemClock, tasks
from mainstay.env.health import Health
from mainstay.http.messages import Answer, Headers, Peer, Request, Response, StreamResponse
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.flow.control import FlowControl, FlowLimits
from mainstay.server.request.audit import Audit
from mainstay.server.request.chain import RequestChain
from mainstay.server.request.context import ApiCall
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.observer import Handle, Observer
from mainstay.server.request.router import PageRoute
from mainstay.server.request.routes import build_router
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import RequestTarget, Verb
from mainstay.server.watch.feed import EventTally
from mainstay.sim.simulation import Simulation
from tests.server.access import some_authorizers

PODS = next(kind for kind in BUILTIN if (kind.group, kind.kind) == ("", "Pod"))
GET_POD = RequestTarget(Verb.GET, PODS, "shop", "web", "")
WATCH_PODS = RequestTarget(Verb.WATCH, PODS, "shop", "", "")
ROOT = User("root", ("system:masters",))
AUTHENTICATOR = Authenticator({"root-token": ROOT, "ann-token": User("ann", ())})


class StoppedClock:
    def wall(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic_ns(self) -> int:
        return 0


def samples_of(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by the values of its labels, in the order of their names."""
    found = {}
    for family in text_string_to_metric_families(metrics.render().decode()):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(sample.labels[label] for label in sorted(sample.labels))] = sample.value
    return found


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(StoppedClock())


def answer(
    metrics: Metrics, method: str, path: str, target: RequestTarget | None, code: int, seconds: float = 0
) -> None:
    metrics.begun(method)
    metrics.answered(method, path, target, code, seconds)


def test_requests_are_counted_by_what_they_were_about(metrics: Metrics):
    answer(metrics, "GET", "/api/v1/namespaces/shop/pods/web", GET_POD, 200)
    answer(metrics, "GET", "/api/v1/namespaces/shop/pods/web", GET_POD, 200)
    answer(metrics, "POST", "/api/v1/namespaces/shop/pods", RequestTarget(Verb.CREATE, PODS, "shop", "", ""), 409)
    answer(metrics, "GET", "/api/v1/pods", RequestTarget(Verb.LIST, PODS, "", "", ""), 200)
    answer(metrics, "GET", "/healthz", None, 200)

    # code, group, resource, scope, subresource, verb, version
    assert samples_of(metrics, "apiserver_request_total") == {
        ("200", "", "pods", "resource", "", "GET", "v1"): 2,
        ("409", "", "pods", "namespace", "", "POST", "v1"): 1,
        ("200", "", "pods", "cluster", "", "LIST", "v1"): 1,
        ("200", "", "", "", "/healthz", "GET", ""): 1,
    }


def test_what_clients_make_up_does_not_make_new_series(metrics: Metrics):
    for number in range(100):
        answer(metrics, f"VERB{number}", f"/nothing/{number}", None, 404)

    assert samples_of(metrics, "apiserver_request_total") == {("404", "", "", "", "", "OTHER", ""): 100}


def test_durations_are_sorted_into_buckets(metrics: Metrics):
    for seconds in (0.0001, 0.0005, 0.03, 100):
        answer(metrics, "GET", "/x", GET_POD, 200, seconds)

    buckets = samples_of(metrics, "apiserver_request_duration_seconds_bucket")
    by_bound = {labels[1]: count for labels, count in buckets.items()}
    assert [by_bound[bound] for bound in ("0.0005", "0.001", "0.025", "0.05", "60", "+Inf")] == [2, 2, 2, 3, 3, 4]
    assert list(samples_of(metrics, "apiserver_request_duration_seconds_count").values()) == [4]
    assert list(samples_of(metrics, "apiserver_request_duration_seconds_sum").values()) == [pytest.approx(100.0306)]


def test_what_is_being_answered_is_shown_by_kind(metrics: Metrics):
    metrics.begun("GET")
    metrics.begun("GET")
    metrics.begun("PATCH")
    metrics.answered("GET", "/x", GET_POD, 200, 0)

    assert samples_of(metrics, "apiserver_current_inflight_requests") == {("readOnly",): 1, ("mutating",): 1}


def test_events_and_numbers_of_others_are_shown(metrics: Metrics):
    sent = EventTally()
    metrics.watched({("apps", "v1", "deployments"): sent})
    sent.events += 5
    metrics.gauge("mainstay_store_revision", "The latest.", lambda: 17)
    metrics.counter("mainstay_things_total", "Things.", lambda: 4)

    assert samples_of(metrics, "apiserver_watch_events_total") == {("apps", "deployments", "v1"): 5}
    assert samples_of(metrics, "mainstay_store_revision") == {(): 17}
    assert samples_of(metrics, "mainstay_things_total") == {(): 4}
    assert samples_of(metrics, "process_start_time_seconds") == {(): StoppedClock().wall().timestamp()}


# The observer.


def a_request(path: str = "/api/v1/namespaces/shop/pods/web", token: str = "root-token") -> Request:
    headers = Headers([("Authorization", f"Bearer {token}")] if token else [])
    return Request("GET", path, path, "", headers, b"", Peer("10.0.0.1", 4711))


def an_observer(sim: Simulation, metrics: Metrics, handle: Handle, audit: Audit | None = None) -> Observer:
    return Observer(handle, sim.env("server"), AUTHENTICATOR, metrics, some_flow(metrics), audit)


def some_flow(metrics: Metrics) -> FlowControl:
    """Without a configuration: it limits nothing."""
    return FlowControl(SystemClock(), FlowLimits(600), lambda target: 0, metrics)


async def answer_of(observer: Observer, request: Request) -> Answer:
    given = observer.answer(request)
    return given if isinstance(given, Response | StreamResponse) else await given  # type: ignore[misc]


async def a_pod(call: ApiCall) -> Answer:
    call.user, call.target = ROOT, GET_POD
    await tasks.sleep(timedelta(milliseconds=30))
    return Response(200, b"{}")


async def test_an_answer_is_counted_timed_and_has_an_id(sim: Simulation, metrics: Metrics):
    observer = an_observer(sim, metrics, a_pod)

    first, second = [await answer_of(observer, a_request()) for _ in range(2)]

    ids = [dict(answer.headers)["Audit-Id"] for answer in (first, second)]
    assert len(ids[0]) == 36
    assert ids[0] != ids[1]
    assert list(samples_of(metrics, "apiserver_request_total").values()) == [2]
    assert list(samples_of(metrics, "apiserver_request_duration_seconds_sum").values()) == [
        pytest.approx(0.06, abs=0.01)
    ]
    assert samples_of(metrics, "apiserver_current_inflight_requests") == {("readOnly",): 0, ("mutating",): 0}


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize(("error", "code"), [(not_found("pods", "", "web"), "404"), (ZeroDivisionError(), "500")])
async def test_a_failure_is_counted_and_goes_on_to_the_client(
    sim: Simulation, metrics: Metrics, error: Exception, code: str, is_at_once: bool
):
    async def fail_later() -> Answer:
        raise error

    def fail(call: ApiCall) -> Any:
        if is_at_once:
            raise error
        return fail_later()

    with pytest.raises(type(error)):
        await answer_of(an_observer(sim, metrics, fail), a_request())

    assert [labels[0] for labels in samples_of(metrics, "apiserver_request_total")] == [code]
    assert not isinstance(error, StatusError) or len(error.headers["Audit-Id"]) == 36


async def test_a_client_that_does_not_wait_is_counted_too(sim: Simulation, metrics: Metrics):
    observer = an_observer(sim, metrics, a_pod)

    task = tasks.spawn(answer_of(observer, a_request()), name="client")
    await tasks.sleep(timedelta(milliseconds=1))
    await tasks.stop(task)

    assert [labels[0] for labels in samples_of(metrics, "apiserver_request_total")] == ["499"]


async def test_a_stream_is_open_until_it_ends(sim: Simulation, metrics: Metrics):
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", AUTHENTICATOR)

    async def run(stream: object) -> None:
        assert list(samples_of(metrics, "apiserver_longrunning_requests").values()) == [1]
        assert samples_of(metrics, "apiserver_current_inflight_requests")[("readOnly",)] == 0

    def watch(call: ApiCall) -> Answer:
        call.user, call.target = ROOT, WATCH_PODS
        return StreamResponse(200, run)

    stream: Any = await answer_of(an_observer(sim, metrics, watch, audit), a_request())
    await stream.run(None)
    await audit.close()

    assert list(samples_of(metrics, "apiserver_longrunning_requests").values()) == [0]
    assert list(samples_of(metrics, "apiserver_request_total").values()) == [1]
    lines = [json.loads(line) for line in disk.read("audit.log").splitlines()]
    assert [(line["stage"], line["verb"]) for line in lines] == [
        ("ResponseStarted", "watch"),
        ("ResponseComplete", "watch"),
    ]
    assert lines[0]["auditID"] == lines[1]["auditID"] == dict(stream.headers)["Audit-Id"]


def pages(metrics: Metrics) -> Handle:
    authorizers = some_authorizers()
    nothing = PageRoute(lambda request: Response(404), authorizers)
    health, worker = Health(SystemClock()), tasks.Worker("pages")
    router = build_router(Registry(()), nothing, (), metrics, authorizers, health, worker)
    return RequestChain(router, AUTHENTICATOR, authorizers, some_flow(metrics)).run


def test_metrics_are_rendered_as_they_were_when_they_were_asked_for(metrics: Metrics):
    metrics.begun("GET")
    metrics.answered("GET", "/version", None, 200, 0.1)
    shown, render = metrics.render(), metrics.prepare()

    for code in (200, 404):
        metrics.begun("GET")
        metrics.answered("GET", "/version", None, code, 0.1)

    assert render() == shown
    assert metrics.render() != shown


async def test_those_who_may_see_the_metrics(sim: Simulation, metrics: Metrics):
    page: Any = await answer_of(an_observer(sim, metrics, pages(metrics)), a_request("/metrics"))

    assert b"apiserver_request_total" in page.body
    assert page.content_type.startswith("text/plain")


@pytest.mark.parametrize(("token", "name"), [("ann-token", "ann"), ("", "system:anonymous")])
async def test_others_may_not(sim: Simulation, metrics: Metrics, token: str, name: str):
    with pytest.raises(StatusError) as refusal:
        await answer_of(an_observer(sim, metrics, pages(metrics)), a_request("/metrics", token))

    assert (refusal.value.code, refusal.value.reason) == (403, StatusReason.FORBIDDEN)
    assert refusal.value.message == f'forbidden: User "{name}" cannot get path "/metrics"'
