"""The Endpoints of a Service, as old clients read them."""

from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_names import ENDPOINTS
from mainstay.api.object_key import ObjectKey
from mainstay.controllers.endpoints.endpoints import Endpoints, build_subsets, truncated
from mainstay.loop.decision import Create, Decision, Delete, Patch
from mainstay.loop.freshness import Freshness
from tests.controllers.endpoints.services import Object, a_pod, a_service, a_view

KEY = ObjectKey("default", "web")
CONTROLLER = Endpoints()
LABELS = {
    "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    "endpointslice.kubernetes.io/skip-mirror": "true",
}
HTTP = {"name": "http", "port": 8080, "protocol": "TCP"}


def decide(service: Object | None, **given) -> Decision:
    return CONTROLLER.decide(a_view(CONTROLLER, services=[] if service is None else [service], **given), KEY, None)


def an_address(pod: str, address: str) -> Object:
    target = {"kind": "Pod", "namespace": "default", "name": pod, "uid": pod}
    return {"ip": address, "nodeName": "n1", "targetRef": target}


def the_endpoints(subsets: list[Object], labels: Object | None = None, **annotations: str) -> Object:
    metadata: Object = {"name": "web", "namespace": "default", "uid": "e", "resourceVersion": "7"}
    metadata["labels"] = LABELS if labels is None else labels
    if annotations:
        metadata["annotations"] = {"endpoints.kubernetes.io/over-capacity": annotations["over_capacity"]}
    return {"metadata": metadata, "subsets": subsets}


def test_ready_and_unready_addresses_stand_apart_below_their_ports():
    pods = [a_pod("p", "10.0.0.2"), a_pod("q", "10.0.0.1", ready=False), a_pod("r", "10.0.0.3", leaving=True)]

    subset = {
        "addresses": [an_address("p", "10.0.0.2")],
        "notReadyAddresses": [an_address("q", "10.0.0.1")],
        "ports": [HTTP],
    }
    metadata = {"name": "web", "namespace": "default", "labels": LABELS}
    assert decide(a_service(), pods=pods).actions == (Create(ENDPOINTS, {"metadata": metadata, "subsets": [subset]}),)


def test_when_all_is_said_nothing_is_written():
    said = the_endpoints(build_subsets(a_service(), [a_pod("p")]))

    assert decide(a_service(), pods=[a_pod("p")], endpoints=[said]) == Decision()


def test_only_what_differs_is_written_in_the_version_that_was_seen():
    said = the_endpoints([], labels={**LABELS, "team": "a"})

    (action,) = decide(a_service(labels={"team": "b"}), pods=[a_pod("p")], endpoints=[said]).actions

    body = {
        "subsets": [{"addresses": [an_address("p", "10.0.0.1")], "ports": [HTTP]}],
        "metadata": {"labels": {"team": "b", **LABELS}},
    }
    assert action == Patch(ENDPOINTS, KEY, "e", body, resource_version="7", freshness=Freshness.SEEN_VERSION)


def test_when_unready_ones_are_published_they_are_all_ready_even_if_they_leave():
    service = a_service(publishNotReadyAddresses=True)

    (subset,) = build_subsets(service, [a_pod("p", ready=False), a_pod("q", "10.0.0.2", leaving=True)])

    assert [each["ip"] for each in subset["addresses"]] == ["10.0.0.1", "10.0.0.2"]
    assert "notReadyAddresses" not in subset


def test_addresses_stand_below_each_set_of_ports_that_they_share():
    ports = [
        {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},
        {"name": "admin", "port": 81, "targetPort": "admin", "protocol": "TCP"},
    ]
    both = a_pod("both", "10.0.0.1", ports=[{"name": "admin", "containerPort": 9000}])

    subsets = build_subsets(a_service(ports=ports), [both, a_pod("one", "10.0.0.2")])

    assert [(sorted(a["ip"] for a in s["addresses"]), [p["name"] for p in s["ports"]]) for s in subsets] == [
        (["10.0.0.1"], ["admin"]),
        (["10.0.0.1", "10.0.0.2"], ["http"]),
    ]


def test_a_port_without_a_name_and_a_headless_service_without_ports():
    (unnamed,) = build_subsets(a_service(ports=[{"port": 80, "targetPort": 80, "protocol": "TCP"}]), [a_pod("p")])
    (headless,) = build_subsets(a_service(ports=[], clusterIP="None"), [a_pod("p")])

    assert unnamed["ports"] == [{"port": 80, "protocol": "TCP"}]
    assert headless == {"addresses": [an_address("p", "10.0.0.1")]}


def test_what_is_too_much_is_cut_off_and_that_is_said_until_it_fits_again():
    pods = [a_pod(f"p{number:04}", f"10.0.{number // 250}.{number % 250 + 1}") for number in range(1001)]
    (created,) = decide(a_service(), pods=pods).actions
    assert isinstance(created, Create)
    assert len(created.object["subsets"][0]["addresses"]) == 1000
    assert created.object["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}

    said = the_endpoints(created.object["subsets"], over_capacity="truncated")
    assert decide(a_service(), pods=pods, endpoints=[said]) == Decision()
    (fits,) = decide(a_service(), pods=pods[:1000], endpoints=[said]).actions
    assert isinstance(fits, Patch)
    assert fits.body == {"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": None}}}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5), st.integers(1, 40))
def test_as_much_as_may_be_is_kept_and_what_is_ready_first(counts, most):
    subsets = [
        {
            name: [{"ip": f"{number}.{each}"} for each in range(count)]
            for name, count in (("addresses", ready), ("notReadyAddresses", unready))
            if count
        }
        for number, (ready, unready) in enumerate(counts)
        if ready or unready
    ]

    cut, is_cut = truncated(subsets, most)

    ready, unready = sum(ready for ready, _ in counts), sum(unready for _, unready in counts)
    kept_ready = sum(len(each.get("addresses") or ()) for each in cut)
    kept_unready = sum(len(each.get("notReadyAddresses") or ()) for each in cut)
    assert is_cut == (ready + unready > most)
    assert kept_ready == min(ready, most)
    assert kept_unready == min(unready, most - kept_ready)


def test_when_the_service_is_gone_ours_goes_and_others_stay():
    (action,) = decide(None, endpoints=[the_endpoints([])]).actions

    assert action == Delete(ENDPOINTS, KEY, "e", resource_version="7", freshness=Freshness.SEEN_VERSION)
    assert decide(None, endpoints=[the_endpoints([], labels={})]) == Decision()


def test_endpoints_of_a_service_without_a_selector_are_left_alone():
    assert decide(a_service(selector={}), endpoints=[the_endpoints([])]) == Decision()
