"""Whether traffic is sent to a pod, as its condition says."""

from datetime import timedelta

import msgspec
import pytest

from mainstay.api.kind_names import ENDPOINT_SLICES
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import Change, ChangeType
from mainstay.controllers.endpoints.serving import PATIENCE, Serving
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.decision import Decision, WakeAt
from tests.controllers.endpoints.services import Object, a_pod, a_service, a_slice, a_view, an_endpoint
from tests.controllers.objects import NOON

KEY = ObjectKey("default", "p")
WEB = a_service()
SERVING = Serving()


def decide(pod: Object, *, services=(WEB,), slices=()) -> Decision:
    return SERVING.decide(a_view(SERVING, pods=[pod], services=services, slices=slices), KEY, None)


def said(status: Truth, reason: str, message: str) -> Decision:
    return Decision(conditions=(Condition("mainstay.dev/Serving", status, reason, message),))


LISTED = a_slice("s", [an_endpoint("p")])


def test_a_pod_serves_when_it_is_ready_and_in_a_slice_of_a_service():
    assert decide(a_pod("p"), slices=[LISTED]) == said(Truth.TRUE, "InSlice", "Service web routes to it")


def test_a_slice_that_was_made_by_hand_counts():
    by_hand = a_slice("s", [an_endpoint("p")], manager="me", owner="")

    assert decide(a_pod("p"), services=[a_service(selector={})], slices=[by_hand]).conditions[0].status is Truth.TRUE


@pytest.mark.parametrize(
    "slices",
    [
        [],
        [a_slice("s", [an_endpoint("q")])],
        [a_slice("s", [an_endpoint("p", ready=False)])],
        [a_slice("s", [an_endpoint("p")], service="gone")],
    ],
)
def test_until_it_stands_there_as_ready_nothing_is_said_for_a_while_and_then_that_it_is_missing(slices):
    new, old = a_pod("p", ready_at=-1), a_pod("p", ready_at=-60)

    assert decide(new, slices=slices).result == WakeAt(
        NOON + PATIENCE - timedelta(seconds=1), "a slice should contain it by then"
    )
    assert decide(new, slices=slices).conditions == ()
    expected = said(Truth.FALSE, "NotInSlice", "Service web selects it, but none of its EndpointSlices contains it")
    assert decide(old, slices=slices) == expected


def test_a_pod_without_a_service_gets_no_serving_condition():
    assert decide(a_pod("p"), services=[]) == Decision()
    assert decide(a_pod("p"), services=[a_service(selector={"app": "other"})]) == Decision()


def test_one_that_did_serve_says_when_that_ends_and_why():
    unready, left = a_pod("p", ready=False, serving="True"), a_pod("p", serving="True")

    assert decide(unready, slices=[LISTED]) == said(Truth.FALSE, "NotReady", "it is not ready")
    assert decide(left, services=[]) == said(Truth.FALSE, "NotSelected", "no Service routes to it")
    expected = said(Truth.FALSE, "NotInSlice", "Service web selects it, but none of its EndpointSlices contains it")
    assert decide(left) == expected


@pytest.mark.parametrize("pod", [a_pod("p", leaving=True, serving="True"), a_pod("p", phase="Failed", serving="True")])
def test_one_that_leaves_or_is_over_is_left_alone(pod):
    assert decide(pod, slices=[LISTED]) == Decision()


def test_one_that_was_never_ready_says_nothing():
    assert decide(a_pod("p", ready=False), slices=[a_slice("s", [an_endpoint("p", ready=False)])]) == Decision()


@pytest.mark.parametrize(
    ("before", "after", "woken"),
    [
        ([], ["p"], ["p"]),
        (["p"], [], ["p"]),
        (["p"], ["p"], []),
        (["p", "q"], ["p", "r"], ["q", "r"]),
    ],
)
def test_a_slice_wakes_the_pods_that_it_has_begun_or_ceased_to_lead_to(before, after, woken):
    assert woken_by(map(an_endpoint, before), map(an_endpoint, after)) == woken


def test_a_slice_that_leads_to_another_pod_of_the_same_name_wakes_it():
    other = an_endpoint("p")
    other["targetRef"]["uid"] = "p-2"

    assert woken_by([an_endpoint("p")], [other]) == ["p"]
    assert woken_by([an_endpoint("p")], [an_endpoint("p", ready=False)]) == ["p"]


def woken_by(before, after) -> list[str]:
    cache = Cache(ENDPOINT_SLICES, ())
    entries = [cache.read_item(msgspec.json.encode(a_slice("s", each))) for each in (before, after)]
    wakes = SERVING.reads[0].wakes
    assert wakes is not None
    change = Change(ENDPOINT_SLICES, entries[0].key, ChangeType.MODIFIED, entries[0], entries[1], 8)
    return sorted(key.name for key in wakes(change))
