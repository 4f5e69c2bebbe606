"""Which pods are taken to be on their nodes before anybody has seen them there."""

from mainstay.scheduler.bind import Bind
from mainstay.scheduler.cache.assumed import Assumed


def a_bind(uid: str = "u") -> Bind:
    return Bind("default", uid, uid, "n1", 5, f"op-{uid}", f"op-{uid}")


def sent(*uids: str) -> Assumed:
    assumed = Assumed()
    for uid in uids:
        assumed.send(a_bind(uid))
    return assumed


def test_what_got_no_answer_is_sent_again_as_it_was():
    assumed = sent("u", "v")
    assumed.unknown("u")

    assert assumed.to_repeat() == [a_bind("u")]
    assert assumed.to_repeat() == []
    assert "u" in assumed


def test_what_the_cache_shows_is_assumed_no_more():
    assumed = sent("u")
    assumed.unknown("u")

    assert assumed.drop("u")
    assert not assumed.drop("u")
    assert (len(assumed), assumed.to_repeat()) == (0, [])


def test_an_answer_that_comes_after_the_cache_has_shown_it_changes_nothing():
    assumed = sent("u")
    assumed.drop("u")

    assumed.bound("u", 7)
    assumed.unknown("u")

    assert (len(assumed), assumed.has_unknown) == (0, False)


def test_what_a_cache_that_is_as_far_does_not_show_is_unknown():
    assumed = sent("u", "v", "w")
    assumed.bound("u", 7)
    assumed.bound("v", 9)

    assert assumed.missed(8, has_gone_back=False) == ["u"]
    assert assumed.missed(8, has_gone_back=True) == ["v"]
    assert assumed.to_repeat() == [a_bind("u"), a_bind("v")]
