"""Telling people what a loop has found: an Event that stands by itself, best effort. The same about the
same object at the same time is said once. What is done often is told through `Around.events`, which combines it."""

import logging

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import EVENTS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError
from mainstay.env import Clock
from mainstay.loop.events import About, Said, event_of

_logger = logging.getLogger(__name__)


async def tell(
    client: Client,
    clock: Clock,
    kind: KindName,
    about: Object,
    reason: str,
    message: str,
    *,
    who: str,
    write: WriteOptions,
    is_warning: bool = True,
) -> None:
    now = clock.wall()
    at = times.format_time(now)
    same = f"{message} at {at}"
    said = Said(About.of(kind, about), reason, message, now, is_warning, identity=same, decision=write.decision)
    try:
        await client.create(EVENTS, event_of(said, who, "", at), said.namespace, write=write)
    except AlreadyExists:
        pass
    except ApiError as error:
        _logger.warning("%s could not say that %s: %s", who, message, error)
