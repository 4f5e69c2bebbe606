"""Pages of an older state are the same whether they are made from the present one or from all that is kept."""

from random import Random

import pytest

from mainstay.store import index as indexing
from mainstay.store.index import StoreIndex, Transaction
from mainstay.store.interface import Entry, KeyChange, RangePage

KEYS = [f"{kind}/{number:02}" for kind in "abc" for number in range(12)]


def an_index(chance: Random, steps: int) -> StoreIndex:
    index = StoreIndex()
    for _ in range(steps):
        revision = index.revision + 1
        changes = []
        for key in chance.sample(KEYS, chance.choice([1, 1, 2])):
            previous = index.live.get(key)
            is_deleted = previous is not None and chance.random() < 0.4
            entry = None if is_deleted else Entry(key, b"%d" % revision, revision, revision, 1)
            changes.append(KeyChange(revision, key, entry, previous))
        index.apply(Transaction(revision, tuple(changes)))
    return index


def paged(index: StoreIndex, prefix: str, at: int, limit: int) -> list[RangePage]:
    pages: list[RangePage] = []
    while not pages or pages[-1].remaining:
        pages.append(index.range(prefix, at, limit, pages[-1].entries[-1].key if pages else None))
    return pages


@pytest.mark.parametrize("seed", range(20))
def test_pages_of_an_older_state_are_the_same_however_they_are_made(seed: int, monkeypatch: pytest.MonkeyPatch):
    chance = Random(seed)
    index = an_index(chance, 200)
    asked = [
        (chance.choice(["", "a/", "b/", "c/1"]), index.revision - chance.randrange(199), chance.choice([1, 3, 10, 100]))
        for _ in range(50)
    ]
    quick = [paged(index, *each) for each in asked]
    monkeypatch.setattr(indexing, "LATER_MAX", 0)

    assert quick == [paged(index, *each) for each in asked]
    for (prefix, at, _), pages in zip(asked, quick, strict=True):
        whole = index.range(prefix, at, None, None)
        assert [entry for page in pages for entry in page.entries] == list(whole.entries)


def test_a_page_of_many_does_not_look_at_all_of_them(monkeypatch: pytest.MonkeyPatch):
    index = StoreIndex()
    for number in range(2_000):
        revision = index.revision + 1
        key = f"a/{number:05}"
        index.apply(Transaction(revision, (KeyChange(revision, key, Entry(key, b"", revision, revision, 1), None),)))
    at = index.revision - 5
    looked: list[str] = []
    version = StoreIndex._version

    def counted(self: StoreIndex, key: str, at: int) -> Entry | None:
        looked.append(key)
        return version(self, key, at)

    monkeypatch.setattr(StoreIndex, "_version", counted)

    page = index.range("", at, 10, "a/00100")

    assert (len(page.entries), page.remaining) == (10, 2_000 - 101 - 10 - 5)
    assert len(looked) < 50
