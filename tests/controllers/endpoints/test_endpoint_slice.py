"""The slices of a Service: what is written for which pods."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.api.kind_names import ENDPOINT_SLICES, NODES, PODS, SERVICES
from mainstay.api.object_key import ObjectKey
from mainstay.api.well_known_labels import SERVICE_NAME
from mainstay.client.cache import Cache
from mainstay.client.entry import Change, ChangeType
from mainstay.controllers.endpoints.routes import Port
from mainstay.controllers.endpoints.selectors import LABELLED, SELECTING
from mainstay.controllers.endpoints.slices import BATCH, MANAGED_BY, MANAGER, EndpointSlices, LastSliceWrite
from mainstay.loop.decision import Create, Decision, Delete, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from tests.controllers.endpoints.services import HTTP, Object, a_pod, a_service, a_slice, a_view, an_endpoint
from tests.controllers.objects import NOON, a_node

KEY = ObjectKey("default", "web")
SLICES = EndpointSlices()
OWNER = {
    "apiVersion": "v1",
    "kind": "Service",
    "name": "web",
    "uid": "svc",
    "controller": True,
    "blockOwnerDeletion": True,
}


def decide(memory: LastSliceWrite | None = None, service: Object | None = None, **given) -> Decision:
    services = [a_service() if service is None else service]
    return SLICES.decide(a_view(SLICES, services=services, **given), KEY, memory)


def patch(name: str, body: Object) -> Patch:
    return Patch(
        ENDPOINT_SLICES, ObjectKey("default", name), name, body, resource_version="7", freshness=Freshness.SEEN_VERSION
    )


def test_the_first_pod_gets_a_slice_that_is_named_after_the_service():
    (action,) = decide(pods=[a_pod("p")], nodes=[a_node("n1", "zone-a")]).actions

    assert isinstance(action, Create)
    name = action.object["metadata"]["name"]
    assert name.startswith("web-")
    assert action == Create(
        ENDPOINT_SLICES,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {SERVICE_NAME: "web", MANAGED_BY: MANAGER},
                "ownerReferences": [OWNER],
            },
            "addressType": "IPv4",
            "endpoints": [{**an_endpoint("p"), "zone": "zone-a"}],
            "ports": [HTTP.as_object()],
        },
    )


def test_a_create_that_is_decided_again_has_the_same_name_whatever_is_in_it():
    (first,) = decide(pods=[a_pod("p")]).actions
    (second,) = decide(pods=[a_pod("p"), a_pod("q", "10.0.0.2")]).actions
    (of_another,) = decide(pods=[a_pod("p")], service=a_service(uid="svc-2")).actions

    assert isinstance(first, Create)
    assert isinstance(second, Create)
    assert isinstance(of_another, Create)
    assert first.object["metadata"]["name"] == second.object["metadata"]["name"]
    assert first.object["metadata"]["name"] != of_another.object["metadata"]["name"]


def test_a_hundred_pods_go_into_a_slice():
    pods = [a_pod(f"p{number:03}", f"10.0.{number // 200}.{number % 200 + 1}") for number in range(250)]

    actions = decide(pods=pods).actions

    assert [len(each.object["endpoints"]) for each in actions if isinstance(each, Create)] == [100, 100, 50]
    assert len({each.object["metadata"]["name"] for each in actions if isinstance(each, Create)}) == 3


def test_a_pod_with_an_address_that_no_slice_may_have_is_left_out_with_a_reason():
    decision = decide(pods=[a_pod("bad", "169.254.169.254"), a_pod("p")])

    assert [each.object["endpoints"] for each in decision.actions if isinstance(each, Create)] == [[an_endpoint("p")]]
    assert decision.reasons[1:] == (
        "pod bad is left out: status.podIP 169.254.169.254: may not be in the link-local range"
        " (169.254.0.0/16, fe80::/10)",
    )


def test_when_all_is_said_nothing_is_written():
    assert decide(pods=[a_pod("p")], slices=[a_slice("s", [an_endpoint("p")])]) == Decision()


def test_a_pod_that_is_not_ready_any_more_is_written_at_once_in_the_version_that_was_seen():
    decision = decide(LastSliceWrite(NOON), pods=[a_pod("p", ready=False)], slices=[a_slice("s", [an_endpoint("p")])])

    changed = {"endpoints": [an_endpoint("p", ready=False)], "ports": [HTTP.as_object()]}
    assert decision.actions == (patch("s", changed),)


@pytest.mark.parametrize("gone", [a_pod("p", phase="Succeeded"), a_pod("p", labels={"app": "debug"}), None])
def test_a_pod_that_is_over_or_not_selected_any_more_is_taken_out_and_the_slice_stays(gone):
    decision = decide(LastSliceWrite(NOON), pods=[gone] if gone else [], slices=[a_slice("s", [an_endpoint("p")])])

    assert decision.actions == (patch("s", {"endpoints": [], "ports": []}),)


def test_what_only_adds_waits_for_more_after_a_write_and_then_goes_together():
    pods = [a_pod("p"), a_pod("q", "10.0.0.2")]
    slices = [a_slice("s", [an_endpoint("p")])]

    soon = decide(LastSliceWrite(NOON - BATCH / 4), pods=pods, slices=slices)
    later = decide(LastSliceWrite(NOON - BATCH), pods=pods, slices=slices)
    after_the_clock_went_back = decide(LastSliceWrite(NOON + timedelta(hours=1)), pods=pods, slices=slices)

    assert (soon.actions, soon.result) == ((), WakeAt(NOON + BATCH * 3 / 4, "more may come"))
    assert soon.memory == LastSliceWrite(NOON - BATCH / 4)
    added = {"endpoints": [an_endpoint("p"), an_endpoint("q", "10.0.0.2")], "ports": [HTTP.as_object()]}
    assert later.actions == after_the_clock_went_back.actions == (patch("s", added),)


def test_new_ports_of_a_service_are_written_in_place():
    service = a_service(
        ports=[{"name": "http", "port": 80, "targetPort": 9090, "protocol": "TCP", "appProtocol": "h2c"}]
    )

    decision = decide(service=service, pods=[a_pod("p")], slices=[a_slice("s", [an_endpoint("p")])])

    new = Port("http", "TCP", 9090, "h2c")
    assert decision.actions == (patch("s", {"endpoints": [an_endpoint("p")], "ports": [new.as_object()]}),)


def test_slices_carry_the_labels_of_the_service_and_say_if_it_is_headless():
    service = a_service(labels={"team": "a", SERVICE_NAME: "not this"}, clusterIP="None")
    slices = [a_slice("s", [an_endpoint("p")], labels={"team": "b", "old": "x"})]

    (action,) = decide(service=service, pods=[a_pod("p")], slices=slices).actions

    wanted = {"old": None, "team": "a", SERVICE_NAME: "web", MANAGED_BY: MANAGER, "service.kubernetes.io/headless": ""}
    assert action == patch("s", {"metadata": {"labels": wanted}})


def test_a_slice_that_has_lost_its_owner_gets_it_back():
    (action,) = decide(pods=[a_pod("p")], slices=[a_slice("s", [an_endpoint("p")], owner="")]).actions

    assert action == patch("s", {"metadata": {"ownerReferences": [OWNER]}})


def test_what_a_former_service_of_that_name_has_left_goes_and_is_not_counted():
    left = a_slice("left", [an_endpoint("p")], owner="svc-0")

    removed, created = decide(pods=[a_pod("p")], slices=[left]).actions

    assert removed == Delete(
        ENDPOINT_SLICES, ObjectKey("default", "left"), "left", resource_version="7", freshness=Freshness.SEEN_VERSION
    )
    assert isinstance(created, Create)


def test_slices_of_others_are_left_alone():
    others = [
        a_slice("by-hand", [an_endpoint("p")], manager="me"),
        a_slice("mirror", [an_endpoint("p")], service="other"),
    ]

    (action,) = decide(pods=[a_pod("p")], slices=others).actions

    assert isinstance(action, Create)


@pytest.mark.parametrize("service", [a_service(selector={}), a_service(type="ExternalName")])
def test_a_service_that_selects_nothing_gets_no_slices(service):
    assert decide(service=service, pods=[a_pod("p")]) == Decision()


def test_a_service_without_pods_has_one_empty_slice_for_each_family():
    actions = decide(service=a_service(ipFamilies=["IPv4", "IPv6"])).actions

    made = [each.object for each in actions if isinstance(each, Create)]
    assert [(each["addressType"], each["endpoints"], each["ports"]) for each in made] == [
        ("IPv4", [], []),
        ("IPv6", [], []),
    ]
    assert len({each["metadata"]["name"] for each in made}) == 2


# Who is woken


def a_change(kind, old: Object | None, new: Object | None, index=()) -> Change:
    cache = Cache(kind, index)

    def entry(obj: Object | None, revision: int):
        if obj is None:
            return None
        metadata = {"uid": "u", **obj["metadata"], "resourceVersion": str(revision)}
        return cache.read_item(msgspec.json.encode({**obj, "metadata": metadata}))

    before, after = entry(old, 1), entry(new, 2)
    key = (after or before).key
    return Change(kind, key, ChangeType.MODIFIED, before, after, 2)


def services(*given: Object) -> Cache:
    cache = Cache(SERVICES, (SELECTING,))
    made = [{**each, "metadata": {**each["metadata"], "resourceVersion": "1"}} for each in given]
    cache.replace([cache.read_item(msgspec.json.encode(each)) for each in made], 1)
    return cache


ALL = services(
    a_service("web"),
    a_service("canary", selector={"app": "web", "track": "canary"}),
    a_service("other", selector={"app": "other"}),
    a_service("none", selector={}),
)


@pytest.mark.parametrize(
    ("old", "new", "woken"),
    [
        (None, a_pod("p"), ["web"]),
        (a_pod("p"), None, ["web"]),
        (a_pod("p"), a_pod("p", ready=False), ["web"]),
        (a_pod("p", address=""), a_pod("p"), ["web"]),
        (a_pod("p"), a_pod("p", leaving=True), ["web"]),
        (a_pod("p"), a_pod("p", phase="Failed"), ["web"]),
        (a_pod("p"), a_pod("p", labels={"app": "other"}), ["web", "other"]),
        (a_pod("p"), a_pod("p", labels={"app": "web", "track": "canary"}), ["web", "canary"]),
        (a_pod("p"), a_pod("p", serving="True"), []),
        (a_pod("p"), a_pod("p", generation=2), []),
        (None, a_pod("p", labels={}), []),
    ],
)
def test_a_pod_wakes_the_services_that_select_it_when_it_matters_to_them(old, new, woken):
    wakes = SLICES.reads[0].wakes_among
    assert wakes is not None
    assert sorted(key.name for key in wakes(a_change(PODS, old, new, (LABELLED,)), ALL)) == sorted(woken)


def test_a_node_wakes_them_when_its_zone_changes():
    wakes = SLICES.reads[1].wakes_among
    assert wakes is not None
    here, there = a_node("n1", "zone-a"), a_node("n1", "zone-b")

    assert list(wakes(a_change(NODES, here, here), ALL)) == []
    assert list(wakes(a_change(NODES, None, a_node("n1")), ALL)) == []
    assert len(list(wakes(a_change(NODES, here, there), ALL))) == len(ALL)
    assert len(list(wakes(a_change(NODES, None, here), ALL))) == len(ALL)


# Any pods, and what was there before


@st.composite
def pods(draw) -> list[Object]:
    numbers = draw(st.lists(st.integers(1, 30), unique=True, max_size=15))
    return [
        a_pod(
            f"p{number:02}",
            draw(st.sampled_from([f"10.0.0.{number}"] * 3 + [""])),
            ready=draw(st.booleans()),
            leaving=draw(st.integers(0, 4)) == 0,
            phase=draw(st.sampled_from(["Running"] * 4 + ["Failed"])),
            labels={"app": draw(st.sampled_from(["web", "web", "other"]))},
            ports=[{"name": "web", "containerPort": draw(st.sampled_from([8080, 9090]))}],
        )
        for number in numbers
    ]


def naive(found: list[Object]) -> list[tuple[str, str, bool, int]]:
    return sorted(
        (
            pod["metadata"]["uid"],
            pod["status"]["podIP"],
            pod["status"]["conditions"][0]["status"] == "True" and "deletionTimestamp" not in pod["metadata"],
            pod["spec"]["containers"][0]["ports"][0]["containerPort"],
        )
        for pod in found
        if pod["metadata"]["labels"]["app"] == "web"
        and pod["status"]["phase"] == "Running"
        and pod["status"].get("podIP")
    )


def carried_out(slices: list[Object], actions, revision: int) -> list[Object]:
    found = {each["metadata"]["name"]: each for each in slices}
    for action in actions:
        match action:
            case Create(object=made):
                assert made["metadata"]["name"] not in found
                found[made["metadata"]["name"]] = {
                    **made,
                    "metadata": {**made["metadata"], "uid": made["metadata"]["name"]},
                }
            case Patch(key=key, body=body, resource_version=version):
                there = found[key.name]
                assert version == there["metadata"]["resourceVersion"]
                found[key.name] = {**there, **body, "metadata": {**there["metadata"]}}
            case Delete(key=key, resource_version=version):
                assert found.pop(key.name)["metadata"]["resourceVersion"] == version
        if not isinstance(action, Delete):
            name = action.object["metadata"]["name"] if isinstance(action, Create) else action.key.name
            found[name]["metadata"]["resourceVersion"] = str(revision)
    return list(found.values())


@settings(max_examples=60)
@given(st.lists(pods(), min_size=1, max_size=4))
def test_the_slices_together_are_what_is_naively_found_and_a_second_look_writes_nothing(states):
    service = a_service(ports=[{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}])
    slices: list[Object] = []
    revision = 1
    for state in states:
        looks = 0
        while actions := decide(service=service, pods=state, slices=slices).actions:
            revision, looks = revision + 1, looks + 1
            slices = carried_out(slices, actions, revision)
            uids = [each["targetRef"]["uid"] for piece in slices for each in piece["endpoints"]]
            assert len(uids) == len(set(uids))
            assert looks <= 3

        assert naive(state) == sorted(
            (each["targetRef"]["uid"], each["addresses"][0], each["conditions"]["ready"], piece["ports"][0]["port"])
            for piece in slices
            for each in piece["endpoints"]
        )
