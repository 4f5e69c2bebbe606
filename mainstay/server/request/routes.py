"""The table of routes.

/healthz, /livez, /readyz, /version     all clients, even with a wrong token
/metrics                                administrators, and system:monitoring
/journal/…                              decisions/pages.py
/api/V/…, /apis/G/V/…                   resources.py: as authorized, by verb and kind
all others                              discovery, for authenticated users
"""

from mainstay.http.messages import Answer, Request, Response
from mainstay.journal import wire
from mainstay.server.request.answers import answer_json, answer_text
from mainstay.server.request.discovery import VERSION, Discovery
from mainstay.server.request.health import HEALTH_PATHS, check_health
from mainstay.server.request.metrics import CONTENT_TYPE, Metrics
from mainstay.server.request.router import PageRoute, Route, Router, is_authenticated, may_monitor
from mainstay.server.request.served_kinds import Registry


def build_router(registry: Registry, resources: Route, journal: Route, metrics: Metrics) -> Router:
    def show_metrics(request: Request) -> Answer:
        return Response(200, metrics.render(), CONTENT_TYPE)

    return Router(
        resources,
        pages=(
            (HEALTH_PATHS, PageRoute(show_health)),
            (("/version", "/version/"), PageRoute(show_version)),
            (("/metrics",), PageRoute(show_metrics, may_monitor)),
        ),
        prefixes=((wire.PATH, journal),),
        rest=PageRoute(Discovery(registry).page, is_authenticated),
    )


def show_health(request: Request) -> Answer:
    return answer_text(*check_health(request))


def show_version(request: Request) -> Answer:
    return answer_json(200, VERSION)
