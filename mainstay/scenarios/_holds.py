"""A user holds things for some seconds at a time, and releases them or forgets to."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

from mainstay.api.holds import HoldScope, build_hold_name
from mainstay.api.kind_names import HOLDS
from mainstay.api.times import format_time
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.sim.cluster.world import World


async def hold(
    world: World, client: Client, what: HoldScope, length: timedelta, *, target: str = "", namespace: str = ""
) -> None:
    """Hold something from now on. What is held already, or was, is held again."""
    name = build_hold_name(what, target, namespace)
    given = {"name": target, "namespace": namespace}
    until = format_time(world.sim.clock.wall() + length)
    spec: dict[str, Any] = {
        "what": str(what),
        "target": {field: value for field, value in given.items() if value},
        "owner": "anna",
        "reason": "to look at it",
        "expiresAt": until,
    }
    try:
        await client.create(HOLDS, {"metadata": {"name": name}, "spec": spec})
    except AlreadyExists:
        with suppress(NotFound):
            await client.patch(HOLDS, name, "", {"spec": {"expiresAt": until}})


async def release(client: Client, what: HoldScope, *, target: str = "", namespace: str = "") -> None:
    with suppress(NotFound):
        await client.delete(HOLDS, build_hold_name(what, target, namespace))
