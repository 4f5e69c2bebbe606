"""What is told of each request besides its answer: an id in a header, numbers for the metrics, a line of the audit log,
and a decision in the journal if it was refused (server/decisions/refusals.py).

The observer stands between the HTTP layer and the request chain (chain.py). It knows when a request came and how it
ended; the stages of the chain note in `ApiCall` who asked and for what, as soon as they know.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime
from inspect import iscoroutine
from typing import Any, Final

from mainstay.api.errors import StatusError
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
from mainstay.server.flow.control import FlowControl
from mainstay.server.request import audit as audits
from mainstay.server.request.audit import Audit
from mainstay.server.request.context import ApiCall
from mainstay.server.request.metrics import Metrics

AUDIT_ID: Final = "Audit-Id"

CLIENT_GONE: Final = 499  # No client sees it; it is what others write down when a client did not wait.


_ANSWERS: Final = (Response, LongResponse, StreamResponse, UpgradeResponse, TunnelResponse)

Handle = Callable[[ApiCall], Answer | Awaitable[Answer]]


class Observer:
    """Between the HTTP layer and the API. `answer` is the handler to give to the former."""

    def __init__(
        self,
        handle: Handle,
        env: Env,
        authenticator: Authenticator,
        metrics: Metrics,
        flow: FlowControl,
        audit: Audit | None,
        refusals: Refusals | None = None,
    ) -> None:
        self._handle = handle
        self._clock = env.clock
        # Not `chance.uid`, which is a hash: this is once per request, and the same id is never needed again.
        self._ids = env.chance.stream("audit id")
        self._authenticator = authenticator
        self.metrics = metrics
        self.flow = flow
        self._audit = audit
        self._refusals = refusals

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        observed = _Observed(self, request)
        learning = self._authenticator.learning(request)
        if learning is not None:
            return observed.when_answered(_answered_after(learning, self._handle, observed.call))
        try:
            answer = self._handle(observed.call)
        except Exception as error:
            observed.failed(error)
            raise
        if isinstance(answer, _ANSWERS):
            return observed.answered(answer)
        return _Pending(answer, observed)


async def _answered_after(learning: Awaitable[None], handle: Handle, call: ApiCall) -> Answer:
    """The answer to a user who must be looked up first."""
    await learning
    answer = handle(call)
    return await answer if isinstance(answer, Awaitable) else answer


class _Pending:
    """An answer that is still to come. A caller that does not wait for it closes it, with all that was begun for it."""

    __slots__ = ("_inner", "_observed", "_outer")

    def __init__(self, inner: Awaitable[Answer], observed: "_Observed") -> None:
        self._inner = inner
        self._observed = observed
        self._outer = observed.when_answered(inner)

    def __await__(self) -> Generator[Any, Any, Answer]:
        return self._outer.__await__()

    def close(self) -> None:
        self._outer.close()
        if iscoroutine(self._inner):
            self._inner.close()
        self._observed.release()


def _as_uuid(number: int) -> str:
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[number & 3]}{text[17:20]}-{text[20:]}"


class _Observed:
    """One request, until its answer is complete."""

    __slots__ = ("_id", "_observer", "_received", "_request", "_since_ns", "call")

    def __init__(self, observer: Observer, request: Request) -> None:
        self._observer = observer
        self._request = request
        self._id = _as_uuid(observer._ids.getrandbits(128))
        self._since_ns = observer._clock.monotonic_ns()
        self._received: datetime = observer._clock.wall()
        self.call = ApiCall(request, self._id)
        observer.metrics.begun(request.method)

    async def when_answered(self, answer: Awaitable[Answer]) -> Answer:
        try:
            known = await answer
        except BaseException as error:
            self.failed(error)
            raise
        return self.answered(known)

    def answered(self, answer: Answer) -> Answer:
        flow = self.call.flow
        answer.headers = (*answer.headers, (AUDIT_ID, self._id), *(() if flow is None else flow.headers))
        if not isinstance(answer, Response):
            return self._begun(answer)
        self.release()
        self._ended(answer.status)
        return answer

    def _begun(self, answer: LongResponse | StreamResponse | UpgradeResponse | TunnelResponse) -> Answer:
        """An answer that goes on for a while."""
        if isinstance(answer, LongResponse | StreamResponse):
            answer.turns = self._observer.flow.begin_turns(self.call)
        if isinstance(answer, LongResponse):
            self._ended(answer.status)
            return answer
        self.release()  # A watch has cost its start.
        self._observer.metrics.stream_begun(self._request.method, self._request.path, self.call.target)
        code = answer.status if isinstance(answer, StreamResponse) else 101
        self._record(code, audits.STARTED)
        run: Callable[[Any], Awaitable[None]] = answer.run

        async def observed_run(stream: Any) -> None:
            try:
                await run(stream)
            finally:
                self._observer.metrics.stream_ended(self._request.method, self._request.path, self.call.target, code)
                self._record(code, audits.COMPLETE)

        answer.run = observed_run
        return answer

    def release(self) -> None:
        """Give back its seats, if it still has some."""
        if self.call.ticket is not None:
            self._observer.flow.release(self.call)

    def failed(self, error: BaseException) -> None:
        self.release()
        if isinstance(error, StatusError):
            error.headers.setdefault(AUDIT_ID, self._id)
            if self.call.flow is not None:
                error.headers.update(self.call.flow.headers)
            if self._observer._refusals is not None:
                self._observer._refusals.note(self.call, error)
            self._ended(error.code, error)
        else:
            self._ended(CLIENT_GONE if isinstance(error, asyncio.CancelledError) else 500)

    def _ended(self, code: int, error: StatusError | None = None) -> None:
        observer, request = self._observer, self._request
        seconds = (observer._clock.monotonic_ns() - self._since_ns) / 1e9
        observer.metrics.answered(request.method, request.path, self.call.target, code, seconds)
        self._record(code, audits.COMPLETE, error)

    def _record(self, code: int, stage: str, error: StatusError | None = None) -> None:
        observer = self._observer
        if observer._audit is not None:
            observer._audit.record(self.call, code, self._received, observer._clock.wall(), stage, error)
