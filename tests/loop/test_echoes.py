"""Own writes that come back, told from changes of others."""

from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import CachedObject, Change, ChangeType
from mainstay.loop.echoes import Echoes

KEY = ObjectKey("default", "web")


def a_step(before: int, after: int) -> Change:
    old, new = CachedObject(KEY, "uid", before, b""), CachedObject(KEY, "uid", after, b"")
    return Change(PODS, KEY, ChangeType.MODIFIED, old, new, after)


def test_a_write_that_comes_back_after_its_answer_is_nothing_new():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    echoes.wrote(KEY, 8, is_exact=True)
    assert echoes.end(KEY) == []
    assert echoes.takes(a_step(5, 8))
    assert not echoes.takes(a_step(8, 9))


def test_a_write_that_comes_back_before_its_answer_is_nothing_new_either():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    assert echoes.takes(a_step(5, 8))
    echoes.wrote(KEY, 8, is_exact=True)
    assert echoes.end(KEY) == []


def test_a_change_by_another_client_meanwhile_is_looked_at():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    assert echoes.takes(a_step(5, 7))
    assert echoes.takes(a_step(7, 8))
    echoes.wrote(KEY, 8, is_exact=True)
    assert [change.revision for change in echoes.end(KEY)] == [7, 8]


def test_a_relist_that_joins_our_step_with_another_one_is_looked_at():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    echoes.wrote(KEY, 8, is_exact=True)
    echoes.end(KEY)
    assert not echoes.takes(a_step(5, 9))


def test_several_writes_come_back_one_after_the_other():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    echoes.wrote(KEY, 8, is_exact=True)
    assert echoes.takes(a_step(5, 8))
    echoes.wrote(KEY, 10, is_exact=True)
    assert echoes.end(KEY) == []
    assert echoes.takes(a_step(8, 10))


def test_a_write_that_changed_nothing_has_no_echo():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    echoes.wrote(KEY, 5, is_exact=True)
    echoes.end(KEY)
    assert not echoes.takes(a_step(5, 6))


def test_another_object_of_the_same_name_is_no_echo():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    echoes.wrote(KEY, 8, is_exact=True)
    echoes.end(KEY)
    other = Change(PODS, KEY, ChangeType.ADDED, None, CachedObject(KEY, "other", 8, b""), 8)
    assert not echoes.takes(other)


def test_a_write_that_others_may_have_written_before_is_no_echo():
    echoes = Echoes()
    echoes.begin(KEY, 5)
    echoes.wrote(KEY, 8, is_exact=False)
    assert echoes.known(KEY) == 8
    echoes.wrote(KEY, 9, is_exact=True)
    assert echoes.end(KEY) == []
    assert not echoes.takes(a_step(5, 8))
