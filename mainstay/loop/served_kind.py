"""Whether the server has a kind. A cache of one that it has not would never be filled."""

import logging
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.kind_name import KindName
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import tasks

_ASK_AGAIN: Final = timedelta(seconds=1)

_logger = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode


async def wait_until_known(client: Client, kind: KindName) -> bool:
    """Ask until the server has answered whether it has this kind."""
    while True:
        try:
            answer = await client.request("GET", f"/apis/{kind.group_version}")
            found: Any = _decode(answer.body)
            return any(each.get("name") == kind.plural for each in found.get("resources") or ())
        except NotFound:
            return False
        except ApiError as error:
            _logger.warning("cannot find out whether the server has %s: %s", kind.plural, error)
            await tasks.sleep(_ASK_AGAIN)
