"""Handlers of the subresources by which placement becomes true.

pods/NAME/binding, namespaces/NS/bindings, mainstay.dev bindings     binding.py, batch_binding.py
pods/NAME/eviction                                                   eviction.py
nodes/NAME/ghosts                                                    ghosts.py
nodes/NAME/recount, namespaces/NAME/recount                          ledger/recount.py, quota/recount.py
"""

from typing import Final

from mainstay.api import kind_names, times
from mainstay.api.errors import bad_request
from mainstay.api.headers import OBSERVED
from mainstay.api.kind import Object
from mainstay.env import Clock
from mainstay.http.messages import Answer, Response
from mainstay.server.placement.batch_binding import bind_all
from mainstay.server.placement.binding import parse_binding
from mainstay.server.placement.eviction import Evictions
from mainstay.server.placement.ledger.recount import answer_recount as answer_node_recount
from mainstay.server.placement.placement import Placement
from mainstay.server.quota.recount import answer_recount as answer_quota_recount
from mainstay.server.request.answers import answer_json
from mainstay.server.request.bodies import Bodies
from mainstay.server.request.handlers import HandlerTable, ResourceCall, serve
from mainstay.server.request.options import DeleteOptions, WriteParameters
from mainstay.server.request.target import Verb
from mainstay.server.storage.writes import ObjectWriter
from mainstay.store.interface import Store

_DONE: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class PlacementHandlers:
    def __init__(self, store: Store, placement: Placement, writes: ObjectWriter, bodies: Bodies, clock: Clock) -> None:
        self._store = store
        self._placement = placement
        self._evictions = Evictions(store, writes)
        self._bodies = bodies
        self._clock = clock

    def add_to(self, table: HandlerTable) -> None:
        create = (Verb.CREATE,)
        table.add(kind_names.PODS, "binding", serve(create, self.bind, has_small_body=True))
        table.add(kind_names.POD_BINDINGS, "", serve(create, self.bind, has_small_body=True))
        table.add(kind_names.BINDINGS, "", serve(create, self.bind_all))
        table.add(kind_names.PODS, "eviction", serve(create, self.evict, has_small_body=True))
        table.add(kind_names.NODES, "ghosts", serve((Verb.GET,), self.get_ghosts) | serve((Verb.UPDATE,), self.report))
        table.add(kind_names.NODES, "recount", serve(create, self.recount_node))
        table.add(kind_names.NAMESPACES, "recount", serve(create, self.recount_quotas))

    async def bind(self, asked: ResourceCall) -> Answer:
        wanted = WriteParameters.of(asked.options, "CreateOptions", "")
        target, body = asked.target, self._bodies.decode_subresource(asked.request, asked.target)
        name = _name(asked, body)
        request = parse_binding(target.namespace, name, body, asked.request.headers.get(OBSERVED))
        written = await self._placement.binder.bind(request, self._now(), asked.context, dry_run=wanted.dry_run)
        return answer_json(201, _DONE, is_repeated=written.is_repeated)

    async def bind_all(self, asked: ResourceCall) -> Answer:
        is_dry = WriteParameters.of(asked.options, "CreateOptions", "").dry_run
        binder = self._placement.binder
        results = await bind_all(binder, asked.request, asked.user, asked.context, self._clock, dry_run=is_dry)
        return Response(200, results)

    async def evict(self, asked: ResourceCall) -> Answer:
        WriteParameters.of(asked.options, "CreateOptions", "")
        target, body = asked.target, self._bodies.decode_subresource(asked.request, asked.target)
        if (named := (body.get("metadata") or {}).get("name")) and named != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        how = DeleteOptions.of(asked.options, body.get("deleteOptions") or {})
        written = await self._evictions.evict(target.namespace, target.name, how, self._now(), asked.context)
        return answer_json(201, _DONE, is_repeated=written.is_repeated)

    async def get_ghosts(self, asked: ResourceCall) -> Answer:
        return answer_json(200, await self._placement.ghosts.of(asked.target.name))

    async def report(self, asked: ResourceCall) -> Answer:
        return answer_json(200, await self._placement.ghosts.reported(asked.target.name, asked.request.body))

    async def recount_node(self, asked: ResourceCall) -> Answer:
        shared = self._placement.shared
        return answer_json(200, await answer_node_recount(self._store, shared, asked.target.name))

    async def recount_quotas(self, asked: ResourceCall) -> Answer:
        shared = self._placement.shared
        return answer_json(200, await answer_quota_recount(self._store, shared, asked.target.name))

    def _now(self) -> str:
        return times.format_time(self._clock.wall())


def _name(asked: ResourceCall, body: Object) -> str:
    """A Binding that is posted to the collection names its pod itself."""
    name: str = asked.target.name or (body.get("metadata") or {}).get("name", "")
    return name
