"""What is told of each request besides its answer: an id in a header, numbers for the metrics, a line of the audit log,
and a decision in the journal if it was refused (server/decisions/refusals.py).

The observer stands between the HTTP layer and the API. It knows when a request came and how it ended; the API tells it
in `Seen` who asked and for what, as soon as it knows. It also serves `/metrics`, to those who may see them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from datetime import datetime
from inspect import iscoroutine
from typing import Any, Final

from mainstay.api.errors import ApiError, Reason
from mainstay.env import Env
from mainstay.http.messages import (
    Answer,
    LongResponse,
    Request,
    Response,
    StreamResponse,
    TunnelResponse,
    UpgradeResponse,
)
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.decisions.refusals import Refusals
from mainstay.server.request import audit as audits
from mainstay.server.request.audit import Audit
from mainstay.server.request.context import Seen
from mainstay.server.request.metrics import CONTENT_TYPE, Metrics

AUDIT_ID: Final = "Audit-Id"
MONITORING: Final = "system:monitoring"

CLIENT_GONE: Final = 499  # No client sees it; it is what others write down when a client did not wait.


Handle = Callable[[Request, Seen], Answer | Awaitable[Answer]]


class Observer:
    """Between the HTTP layer and the API. `answer` is the handler to give to the former."""

    def __init__(
        self,
        handle: Handle,
        env: Env,
        authenticator: Authenticator,
        metrics: Metrics,
        audit: Audit | None,
        refusals: Refusals | None = None,
    ) -> None:
        self._handle = handle
        self._clock = env.clock
        # Not `chance.uid`, which is a hash: this is once per request, and nobody needs to find the same id again.
        self._ids = env.chance.stream("audit id")
        self._authenticator = authenticator
        self._metrics = metrics
        self._audit = audit
        self._refusals = refusals

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        observed = _Observed(self, request)
        page = self._metrics_page if request.path == "/metrics" else self._handle
        learning = self._authenticator.learning(request)
        if learning is not None:
            return observed.when_answered(_answered_after(learning, page, request, observed.seen))
        try:
            answer = page(request, observed.seen)
        except Exception as error:
            observed.failed(error)
            raise
        if isinstance(answer, Response | LongResponse | StreamResponse | UpgradeResponse | TunnelResponse):
            return observed.answered(answer)
        return _Pending(answer, observed.when_answered(answer))

    def _metrics_page(self, request: Request, seen: Seen) -> Answer:
        seen.user = user = self._authenticator.user_of(request)
        if not user.is_master and MONITORING not in user.groups:
            text = f'forbidden: User "{user.name}" cannot {request.method.lower()} path "/metrics"'
            raise ApiError(403, Reason.FORBIDDEN, text, {})
        return Response(200, self._metrics.render(), CONTENT_TYPE)


async def _answered_after(learning: Awaitable[None], page: Handle, request: Request, seen: Seen) -> Answer:
    """The answer to somebody who must be looked up first."""
    await learning
    answer = page(request, seen)
    return await answer if isinstance(answer, Awaitable) else answer


class _Pending:
    """An answer that is still to come. Whoever does not wait for it closes it, with all that was begun for it."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, inner: Awaitable[Answer], outer: Coroutine[Any, Any, Answer]) -> None:
        self._inner = inner
        self._outer = outer

    def __await__(self) -> Generator[Any, Any, Answer]:
        return self._outer.__await__()

    def close(self) -> None:
        self._outer.close()
        if iscoroutine(self._inner):
            self._inner.close()


def _as_uuid(number: int) -> str:
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[number & 3]}{text[17:20]}-{text[20:]}"


class _Observed:
    """One request, until its answer is complete."""

    __slots__ = ("_id", "_observer", "_received", "_request", "_since_ns", "seen")

    def __init__(self, observer: Observer, request: Request) -> None:
        self._observer = observer
        self._request = request
        self._id = _as_uuid(observer._ids.getrandbits(128))
        self._since_ns = observer._clock.monotonic_ns()
        self._received: datetime = observer._clock.wall()
        self.seen = Seen(self._id)
        observer._metrics.begun(request.method)

    async def when_answered(self, answer: Awaitable[Answer]) -> Answer:
        try:
            known = await answer
        except BaseException as error:
            self.failed(error)
            raise
        return self.answered(known)

    def answered(self, answer: Answer) -> Answer:
        answer.headers = (*answer.headers, (AUDIT_ID, self._id))
        if isinstance(answer, Response | LongResponse):
            self._ended(answer.status)
            return answer
        self._observer._metrics.stream_begun(self._request.method, self._request.path, self.seen.target)
        code = answer.status if isinstance(answer, StreamResponse) else 101
        self._record(code, audits.STARTED)
        run: Callable[[Any], Awaitable[None]] = answer.run

        async def observed_run(stream: Any) -> None:
            try:
                await run(stream)
            finally:
                self._observer._metrics.stream_ended(self._request.method, self._request.path, self.seen.target, code)
                self._record(code, audits.COMPLETE)

        answer.run = observed_run
        return answer

    def failed(self, error: BaseException) -> None:
        if isinstance(error, ApiError):
            error.headers.setdefault(AUDIT_ID, self._id)
            if self._observer._refusals is not None:
                self._observer._refusals.note(self._request, self.seen, error)
            self._ended(error.code, error)
        else:
            self._ended(CLIENT_GONE if isinstance(error, asyncio.CancelledError) else 500)

    def _ended(self, code: int, error: ApiError | None = None) -> None:
        observer, request = self._observer, self._request
        seconds = (observer._clock.monotonic_ns() - self._since_ns) / 1e9
        observer._metrics.answered(request.method, request.path, self.seen.target, code, seconds)
        self._record(code, audits.COMPLETE, error)

    def _record(self, code: int, stage: str, error: ApiError | None = None) -> None:
        observer, seen = self._observer, self.seen
        if observer._audit is not None:
            observer._audit.record(
                self._request,
                seen.user,
                seen.target,
                code,
                self._received,
                observer._clock.wall(),
                self._id,
                stage=stage,
                error=error,
                is_allowed=seen.is_allowed or code != 403,
                seen=seen,
            )
