"""What an API server says about its own health, in the form that probes and kubectl know."""

from typing import Final

from mainstay.env.invariants import find_broken
from mainstay.http.messages import Request

HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")


def check_health(request: Request) -> tuple[int, str]:
    """Status and text of the answer. Being alive is to answer at all; being ready also that no invariant is broken."""
    if request.path == "/readyz" and (bug := find_broken()) is not None:
        return 500, f"[-]invariants failed: {bug.rule}\nreadyz check failed\n"
    return 200, "[+]ping ok\nhealthz check passed\n" if "verbose" in request.query else "ok"
