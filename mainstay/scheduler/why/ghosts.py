"""Which pods that were removed by force may still run, as the schedulers last said: no object tells of them.

A scheduler writes down what the server has told it of a node's ghosts, each time that changes (scheduler/record.py).
What holds is the last record about a node.
"""

from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.explain.moment import Moment
from mainstay.journal.record import moment as read_time
from mainstay.scheduler.record import UnconfirmedCharges

GHOSTS_SEEN: Final = "GhostsSeen"
RECORDS_MAX: Final = 2000

_decode = msgspec.msgpack.Decoder(UnconfirmedCharges).decode


async def ghosts_at(moment: Moment) -> dict[str, tuple[Object, ...]]:
    """By node, of those that have any."""
    answer = await moment.journal.decisions(kind=NODES.text, limit=RECORDS_MAX)
    told: dict[str, tuple[int, list[Object]]] = {}
    for record in answer.records:
        if record.outcome.reason != GHOSTS_SEEN or not record.memory.inline:
            continue
        if read_time(record.at) > moment.at:
            continue
        part = _decode(record.memory.inline)
        node = record.subject.name
        if part.start == 0:
            told[node] = (part.number, list(part.found))
        elif node in told and told[node][0] == part.number:
            told[node][1].extend(part.found)
    nodes = {node["metadata"]["name"] for node in await moment.all(NODES)}
    return {name: tuple(found) for name, (_, found) in sorted(told.items()) if found and name in nodes}
