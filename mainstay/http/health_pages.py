"""/livez, /readyz and /healthz, as kube-apiserver words them. Server, scheduler, controllers and agents have the same.

    /readyz                 "ok", or 500 and the list of checks
    /readyz?verbose         the list in any case
    /readyz?exclude=NAME    all but that one; may be repeated
    /readyz/NAME            one check, and why it fails

The list ends with warnings, `[!]`, which fail nothing.

/livez has what a restart would cure, /readyz and /healthz have everything. The list does not say why a check
fails, because any client may read it; the log does, and the page of the check.
"""

import logging
from typing import Final
from urllib.parse import parse_qs, unquote

from mainstay.env.health import Health
from mainstay.http.messages import Request, Response

HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
_CONTENT_TYPE: Final = "text/plain; charset=utf-8"
_HEADERS: Final = (("Cache-Control", "no-cache, private"), ("X-Content-Type-Options", "nosniff"))
_QUERY_FIELDS_MAX: Final = 100

_logger = logging.getLogger(__name__)


def is_health_path(path: str) -> bool:
    return path.startswith(HEALTH_PATHS) and path.split("/", 2)[1] in ("healthz", "livez", "readyz")


async def answer_health(health: Health, request: Request) -> Response:
    """The answer for one of the paths above."""
    _, page, *rest = request.path.split("/", 2)
    if rest and rest[0]:
        return await _answer_one(health, page, rest[0])
    try:
        query = parse_qs(request.query, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX)
    except ValueError:
        return _text(400, "too many parameters\n")
    excluded = dict.fromkeys(unquote(name) for name in query.get("exclude", ()))
    lines, failed, logged = [], [], []
    for name in health.names(live_only=page == "livez"):
        if name in excluded:
            del excluded[name]
            lines.append(f"[+]{name} excluded: ok\n")
            continue
        problem = (await health.check(name)).problem
        if problem:
            lines.append(f"[-]{name} failed: reason withheld\n")
            logged.append(f"{name}: {problem}")
            failed.append(name)
        else:
            lines.append(f"[+]{name} ok\n")
    if page != "livez":
        lines += [f"[!]{warning.name} warning: reason withheld\n" for warning in health.find_warnings()]
    if excluded:
        names = ", ".join(f'"{name}"' for name in excluded)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
    if failed:
        _logger.warning("%s check failed: %s", page, "; ".join(logged))
        return _text(500, f"{''.join(lines)}{page} check failed\n")
    return _text(200, f"{''.join(lines)}{page} check passed\n" if "verbose" in query else "ok")


async def _answer_one(health: Health, page: str, name: str) -> Response:
    warning = next((each.problem for each in health.find_warnings() if each.name == name), "")
    if warning:
        return _text(200, f"warning: {warning}\n")
    if name not in health.names(live_only=page == "livez"):
        return _text(404, "404 page not found\n")
    problem = (await health.check(name)).problem
    return _text(500, f"internal server error: {problem}\n") if problem else _text(200, "ok")


def _text(status: int, text: str) -> Response:
    return Response(status, text.encode(), _CONTENT_TYPE, _HEADERS)
