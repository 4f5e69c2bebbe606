"""The table of routes.

/healthz, /livez, /readyz, /version,
/healthz/CHECK, and so on, /metrics     as authorized, by path
/openid/v1/jwks, /.well-known/…         auth/issuer.py: as authorized, by path
/journal/…                              decisions/pages.py
/mainstay/…                             backup/pages.py
/api/V/…, /apis/G/V/…                   resources.py: as authorized, by verb and kind
all others                              discovery: as authorized, by path
"""

from collections.abc import Awaitable, Sequence

from mainstay.env import tasks
from mainstay.env.health import Health
from mainstay.http.health_pages import HEALTH_PATHS, answer_health
from mainstay.http.messages import Answer, Request, Response
from mainstay.server.auth.authorization import Authorizers
from mainstay.server.auth.issuer import CONFIGURATION_PATH, KEYS_PATH, IssuerDiscovery
from mainstay.server.request.answers import answer_json
from mainstay.server.request.discovery import VERSION, Discovery
from mainstay.server.request.metrics import CONTENT_TYPE, Metrics
from mainstay.server.request.router import PageRoute, Route, Router
from mainstay.server.request.served_kinds import Registry


def build_router(
    registry: Registry,
    resources: Route,
    prefixes: Sequence[tuple[str, Route]],
    metrics: Metrics,
    authorizers: Authorizers,
    health: Health,
    worker: tasks.Worker,
    issuer: IssuerDiscovery | None = None,
) -> Router:
    """`prefixes` are the pages of other rooms, by how their paths begin. `worker` does what takes long."""

    async def show_metrics(request: Request) -> Answer:
        return Response(200, await worker.run(metrics.prepare()), CONTENT_TYPE)

    def show_health(request: Request) -> Awaitable[Answer]:
        return answer_health(health, request)

    pages: list[tuple[Sequence[str], Route]] = [
        (HEALTH_PATHS, PageRoute(show_health, authorizers)),
        (("/version", "/version/"), PageRoute(show_version, authorizers)),
        (("/metrics",), PageRoute(show_metrics, authorizers)),
    ]
    if issuer is not None:
        pages.append(((CONFIGURATION_PATH,), PageRoute(issuer.show_configuration, authorizers)))
        pages.append(((KEYS_PATH,), PageRoute(issuer.show_keys, authorizers)))
    return Router(
        resources,
        pages=pages,
        prefixes=(
            *prefixes,
            *((f"{path}/", PageRoute(show_health, authorizers)) for path in HEALTH_PATHS),
        ),
        rest=PageRoute(Discovery(registry).page, authorizers),
    )


def show_version(request: Request) -> Answer:
    return answer_json(200, VERSION)
