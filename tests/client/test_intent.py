"""The operation id of a write: the same for the same intent, another one for any other."""

import pytest

from mainstay.client.intent import Intent

PATCH = ("PATCH", "/api/v1/namespaces/default/pods/web-1?fieldManager=set", "application/merge-patch+json", b"{}")


def name(intent: Intent, *, is_conditional: bool = False, request: tuple[str, str, str, bytes] = PATCH) -> str:
    return intent.operation(*request, is_conditional=is_conditional)


def test_the_same_intent_decided_on_again_has_the_same_id():
    assert name(Intent("set", "set-1", "@7")) == name(Intent("set", "set-2", "@7"))
    assert name(Intent("set", "set-1"), is_conditional=True) == name(Intent("set", "set-2"), is_conditional=True)


@pytest.mark.parametrize(
    "other",
    [
        name(Intent("job", "set-1", "@7")),
        name(Intent("set", "set-1", "@8")),
        name(Intent("set", "set-1", "@7").after("uid-1")),
        name(Intent("set", "set-1", "@7"), request=("POST", *PATCH[1:])),
        name(Intent("set", "set-1", "@7"), request=(PATCH[0], f"{PATCH[1]}&force=true", *PATCH[2:])),
        name(Intent("set", "set-1", "@7"), request=(*PATCH[:2], "application/json", PATCH[3])),
        name(Intent("set", "set-1", "@7"), request=(*PATCH[:3], b"{} ")),
    ],
    ids=["decider", "version", "after", "method", "address", "form", "body"],
)
def test_whatever_makes_another_intent_makes_another_id(other: str):
    assert other != name(Intent("set", "set-1", "@7"))


def test_a_request_that_says_nothing_of_what_it_is_based_on_is_another_one_for_each_decision():
    assert name(Intent("set", "set-1")) != name(Intent("set", "set-2"))
    assert name(Intent("set")) == ""


def test_an_id_is_one_that_a_server_accepts():
    assert len(name(Intent("s" * 200, "d", "@1"))) <= 128
