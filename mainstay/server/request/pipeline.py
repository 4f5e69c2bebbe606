"""The request room, put together: observer, chain, routes, and the handlers that the other rooms bring."""

from collections.abc import Sequence
from dataclasses import dataclass

from mainstay.env import Env
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.decisions.service import DecisionService
from mainstay.server.request.audit import Audit
from mainstay.server.request.chain import RequestChain, Stage
from mainstay.server.request.handlers import HandlerTable
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.observer import Observer
from mainstay.server.request.resources import ResourceRoute
from mainstay.server.request.routes import build_router
from mainstay.server.request.served_kinds import Registry
from mainstay.store.interface import Store


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    metrics: Metrics | None = None
    audit: Audit | None = None
    before: Sequence[Stage] = ()
    """Stages that come before all others."""


def build_pipeline(
    store: Store,
    env: Env,
    authenticator: Authenticator,
    registry: Registry,
    handlers: HandlerTable,
    decisions: DecisionService,
    options: PipelineOptions,
) -> Observer:
    unserved = handlers.find_unserved(registry)
    if unserved:
        raise AssertionError(f"declared, and served by no handler: {', '.join(unserved)}")
    metrics = options.metrics or Metrics(env.clock)
    resources = ResourceRoute(registry, handlers, store, env.clock, decisions.notes)
    router = build_router(registry, resources, decisions.pages, metrics)
    chain = RequestChain(router, authenticator, options.before)
    return Observer(chain.run, env, authenticator, metrics, options.audit, decisions.refusals)
