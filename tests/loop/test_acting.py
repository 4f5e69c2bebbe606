"""What an action has led to, by how the server answers it."""

from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.loop.act import OwnWrite, act
from mainstay.loop.decision import Delete
from mainstay.loop.freshness import Freshness

KEY = ObjectKey("default", "web-1")
UID = "3f0a2f5e-0000-4000-8000-000000000001"


class Answering:
    """A client whose every removal is answered with this."""

    def __init__(self, answer: Object) -> None:
        self._answer = answer

    async def delete(self, *_: Any, **__: Any) -> Object:
        return self._answer


def a_pod(**metadata: Any) -> Object:
    return {"kind": "Pod", "metadata": {"name": KEY.name, "uid": UID, "resourceVersion": "24", **metadata}}


@pytest.mark.parametrize(
    ("answer", "wrote"),
    [
        # As it was before, at a revision that each cache has long reached: that tells nothing about the removal.
        (a_pod(), OwnWrite(PODS, KEY, gone_uid=UID)),
        ({"kind": "Status", "status": "Success"}, OwnWrite(PODS, KEY, gone_uid=UID)),
        # It stays for its grace period, and was changed to say so.
        (a_pod(resourceVersion="31", deletionTimestamp="2026-01-01T00:00:30Z"), OwnWrite(PODS, KEY, revision=31)),
    ],
    ids=["gone at once", "gone, and not shown", "marked for deletion"],
)
async def test_a_removal_is_seen_when_the_cache_shows_that_it_is_gone_or_going(answer: Object, wrote: OwnWrite):
    client: Any = Answering(answer)

    assert await act(Delete(PODS, KEY, UID, freshness=Freshness.MAY_BE_STALE), client, WriteOptions()) == wrote
