"""One request on its way through the chain (chain.py), and what is found out about it: for metrics, audit, journal."""

from msgspec import Struct

from mainstay.http.messages import Request
from mainstay.server.auth.authorization import ANONYMOUS, AccessAttributes, User
from mainstay.server.flow.scheduler import FlowRequest
from mainstay.server.flow.schemas import FlowMatch
from mainstay.server.request.options import AdmissionNotes
from mainstay.server.request.target import NO_OPTIONS, Options, RequestTarget


class ApiCall(Struct, eq=False):
    """Made by the observer (observer.py), filled in by the stages of the chain."""

    request: Request
    audit: str = ""
    """The id of the request in the audit log."""
    user: User = ANONYMOUS
    options: Options = NO_OPTIONS
    """The query. Read when it is known that the request is about objects."""
    target: RequestTarget | None = None
    """What it is about. None for a page, such as /metrics."""
    is_allowed: bool = False
    """Set when the user was found to be allowed this. Of interest if the answer is 403 all the same."""
    deferred: AccessAttributes | None = None
    """What the user is not known to be allowed, but may be once more is read. It is decided before anything is done."""
    access_reason: str = ""
    """Why the user is allowed this."""
    body_bytes_max: int | None = None
    """How much is read of a body that comes in chunks. None: as much as of any."""
    decision: str = ""
    """The decision that asked for what was written last."""
    key: str = ""
    """Of what was written last for this request: its key, the stored object, and the revision; empty if nothing."""
    value: bytes = b""
    revision: int = 0
    writes: int = 0
    """How many there were."""
    flow: FlowMatch | None = None
    """Its flow and priority level (server/flow/)."""
    ticket: FlowRequest | None = None
    """Its seats, or its place in a queue, until it is answered. None: it is exempt."""
    notes: AdmissionNotes | None = None
    """Of a write: what admission says about it."""

    @property
    def is_system(self) -> bool:
        """Whether it belongs to the cluster itself, or to its administrators."""
        return self.flow is None or self.flow.is_system

    @property
    def owner(self) -> str:
        """On whose account it uses what all requests share. Empty: without a limit."""
        return "" if self.flow is None or self.flow.level.settings.is_exempt else self.user.name
