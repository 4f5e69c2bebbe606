"""What pods say of themselves: where they are asked, and what of the answer counts."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.agent.serve.pod_metrics import ANSWER_BYTES_MAX, SCRAPED_EVERY, PodScraper, find_endpoint, find_value
from mainstay.api import labels
from mainstay.env import tasks
from mainstay.http.messages import Request, Response
from mainstay.http.server import HttpServer

ANY = labels.parse("")
TEXT = """\
# HELP queue_length Jobs that wait.
# TYPE queue_length gauge
queue_length{queue="a"} 3
queue_length{queue="b",tier="x"} 1.5
queue_length_max 9
# TYPE served_total counter
served_total 100
# TYPE latency histogram
latency_bucket{le="1"} 2
latency_sum 3
plain 7
broken NaN
"""


def a_pod(name: str = "web", address: str = "pod-1", **annotations: str) -> dict[str, Any]:
    given = {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", **annotations}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": given}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"podIP": address}}


@pytest.mark.parametrize(
    ("metric", "selector", "milli"),
    [
        ("queue_length", "", 4500),
        ("queue_length", "queue=a", 3000),
        ("queue_length", "queue notin (a)", 1500),
        ("queue_length", "queue=c", None),
        ("queue_length_max", "", 9000),
        ("plain", "", 7000),
        ("queue", "", None),
        ("served_total", "", None),
        ("latency_sum", "", None),
        ("broken", "", None),
        ("none", "", None),
    ],
)
def test_the_series_of_a_gauge_that_are_selected_are_added(metric, selector, milli):
    assert find_value(TEXT, metric, labels.parse(selector)) == milli


@pytest.mark.parametrize("text", ["queue_length{ 3", "queue_length x", "queue_length 1e300", "", "\x00 queue_length"])
def test_what_is_not_in_the_format_has_no_value(text):
    assert find_value(text, "queue_length", ANY) is None


@pytest.mark.parametrize(
    ("change", "endpoint"),
    [
        ({}, ("pod-1", 8080, "/metrics")),
        ({"prometheus.io/path": "custom?x=1"}, ("pod-1", 8080, "/custom?x=1")),
        ({"prometheus.io/scrape": "yes"}, None),
        ({"prometheus.io/port": "http"}, None),
        ({"prometheus.io/port": "70000"}, None),
    ],
)
def test_annotations_say_where_a_pod_serves_its_metrics(change, endpoint):
    assert find_endpoint(a_pod(**change)) == endpoint


def test_without_a_port_it_is_the_first_that_the_pod_declares():
    pod = a_pod()
    del pod["metadata"]["annotations"]["prometheus.io/port"]
    assert find_endpoint(pod) is None
    pod["spec"]["containers"].append({"name": "d", "ports": [{"containerPort": 9090}]})
    assert find_endpoint(pod) == ("pod-1", 9090, "/metrics")


def test_a_pod_on_the_network_of_its_host_is_not_asked():
    pod = a_pod()
    pod["spec"]["hostNetwork"] = True
    assert find_endpoint(pod) is None


async def test_a_pod_is_asked_now_and_then_and_one_that_does_not_answer_is_left_out(sim):
    asked: list[str] = []
    answers = {
        "/metrics": Response(200, TEXT.encode()),
        "/moved": Response(302, b"queue_length 1\n", headers=(("Location", "/metrics"),)),
        "/large": Response(200, b"queue_length 1\n" * (ANSWER_BYTES_MAX // 15 + 1)),
    }

    def answer(request: Request) -> Response:
        asked.append(request.path)
        return answers[request.path]

    env = sim.env("agent")
    scraper = PodScraper(env.clock)
    with sim.network.host("pod-1").active():
        server = await HttpServer.start(answer, "0.0.0.0", 8080, clock=env.clock)
    pods = [a_pod(), a_pod("gone", "nowhere")]
    pods += [a_pod(path, **{"prometheus.io/path": f"/{path}"}) for path in ("moved", "large")]

    first = await scraper.scrape(pods, "queue_length", ANY)
    again = await scraper.scrape(pods, "queue_length", ANY)

    assert {name: each.milli for name, each in first.items()} == {"web": 4500}
    assert (again, sorted(asked)) == (first, ["/large", "/metrics", "/moved"])
    answers["/metrics"] = Response(200, b"queue_length 2\n")
    await tasks.sleep(SCRAPED_EVERY + timedelta(seconds=1))
    later = await scraper.scrape(pods[:1], "queue_length", ANY)
    assert {name: each.milli for name, each in later.items()} == {"web": 2000}
    with sim.network.host("pod-1").active():
        await server.drain(timedelta(seconds=1))
