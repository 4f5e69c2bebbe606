"""The request room, put together: observer, chain, routes, and the handlers that the other rooms bring."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mainstay.api.store_pages import PREFIX as STORE_PREFIX
from mainstay.env import Env
from mainstay.env.health import Health, find_current
from mainstay.journal import wire
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.backup.pages import StorePages
from mainstay.server.decisions.service import DecisionService
from mainstay.server.flow.control import FlowControl, FlowLimits
from mainstay.server.rbac.access_control import AccessControl
from mainstay.server.request.audit import Audit
from mainstay.server.request.chain import RequestChain, Stage
from mainstay.server.request.handlers import HandlerTable
from mainstay.server.request.large_work import LargeWork
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.observer import Observer
from mainstay.server.request.resources import ResourceRoute
from mainstay.server.request.routes import build_router
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import RequestTarget
from mainstay.server.storage.keyspace import build_prefix
from mainstay.store.interface import Store


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    metrics: Metrics | None = None
    audit: Audit | None = None
    before: Sequence[Stage] = ()
    """Stages that come before all others."""
    seats: int = 600
    """Of flow control."""
    health: Health | None = None
    """Of the process. None: the server has one of its own."""
    has_processes: bool = False
    """Whether there may be helper processes: not in a simulation."""
    large: LargeWork | None = None
    """What does not run on the loop. Set by the server."""


def build_pipeline(
    store: Store,
    env: Env,
    authenticator: Authenticator,
    access: AccessControl,
    registry: Registry,
    handlers: HandlerTable,
    decisions: DecisionService,
    options: PipelineOptions,
) -> Observer:
    unserved = handlers.find_unserved(registry)
    if unserved:
        raise AssertionError(f"declared, and served by no handler: {', '.join(unserved)}")
    metrics = options.metrics or Metrics(env.clock)
    authorizers = access.authorizers
    large = options.large or LargeWork()
    resources = ResourceRoute(registry, handlers, access, store, env.clock, decisions.notes, large)
    health = options.health or find_current() or Health(env.clock)
    discovery = authenticator.discovery
    store_pages = StorePages(store, env.clock, authorizers, large.worker)
    pages = ((wire.PATH, decisions.pages), (STORE_PREFIX, store_pages))
    router = build_router(registry, resources, pages, metrics, authorizers, health, large.worker, discovery)
    flow = FlowControl(env.clock, FlowLimits(options.seats), partial(_count_objects, store), metrics)
    chain = RequestChain(router, authenticator, authorizers, flow, options.before)
    return Observer(chain.run, env, authenticator, metrics, flow, options.audit, decisions.refusals)


def _count_objects(store: Store, target: RequestTarget) -> int | None:
    """How many objects a list has to look at."""
    memory = store.memory
    return None if memory is None else memory.count(build_prefix(target.kind, target.namespace))
