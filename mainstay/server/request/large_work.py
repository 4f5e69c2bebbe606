"""Work that would keep the event loop from everything else: large bodies, and YAML.

    small bodies    decoded on the loop, as most are
    large bodies    one after the other on a thread: there Python's interpreter lets the loop in every half millisecond
    YAML            in a helper process (yaml_helper.py), because it costs most of a second of CPU per megabyte

So one request costs the others little, whatever it is. Users take turns (fair_turns.py). How many wait is bounded, for
each user and for all together, with some places left to the cluster itself and its administrators; those beyond are
told to come back.
Without a helper (a simulation, a test) YAML is read and written here and now, with the same result.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, ParamSpec, Protocol, TypeVar

from mainstay.api import json_body
from mainstay.api.errors import StatusError, StatusReason, quoted
from mainstay.api.yaml_body import YAML_BYTES_MAX, ConvertedYaml, yaml_too_large
from mainstay.env import tasks
from mainstay.env.helper import Helper
from mainstay.http.messages import Answer, LongResponse, Request, Response
from mainstay.server.request import yaml_helper
from mainstay.server.request.fair_turns import FairTurns
from mainstay.server.request.yaml_helper import Question

LARGE_BYTES: Final = 64 * 1024  # Of a body, or of an object that is changed. Less is done in a few milliseconds.
YAML_AT_ONCE_BYTES: Final = 8 * 1024
DUMPED_AT_ONCE_BYTES: Final = 32 * 1024  # Of JSON that is to become YAML.
DUMPED_BYTES_MAX: Final = 4 * 1024 * 1024
WAITING_MAX: Final = 32
WAITING_OTHERS_MAX: Final = 24  # Of those who are not part of the system.
WAITING_USER_MAX: Final = 8  # Of one user.
_JSON: Final = "application/json"

P = ParamSpec("P")
T = TypeVar("T")


class LargeWork:
    """`close` it in the end."""

    def __init__(self, *, has_helper: bool = False) -> None:
        self.worker = tasks.Worker("large requests")
        self.helper = Helper(yaml_helper.__name__) if has_helper else None
        self.worker_turns, self.helper_turns = FairTurns(), FairTurns()
        self._waiting = 0
        self._waiting_others = 0
        self._waiting_by_owner: Counter[str] = Counter()

    def close(self) -> None:
        self.worker.close()
        if self.helper is not None:
            self.helper.close()

    def share_with(self, asker: "LargeWorkAsker") -> "LargeWorkShare":
        """For one request."""
        return LargeWorkShare(self, asker)

    @contextmanager
    def wait(self, asker: "LargeWorkAsker") -> Iterator[None]:
        """Take a place among those who wait. Raises `StatusError` (429) if there is none."""
        owner, by_owner, others = asker.owner, self._waiting_by_owner, 0 if asker.is_system else 1
        if self._waiting >= WAITING_MAX or self._waiting_others + others > WAITING_OTHERS_MAX:
            raise _too_many(f"{self._waiting} large requests are waiting already")
        if owner and by_owner[owner] >= WAITING_USER_MAX:
            raise _too_many(f"{by_owner[owner]} large requests of user {quoted(owner)} are waiting already")
        self._waiting += 1
        self._waiting_others += others
        by_owner[owner] += 1
        try:
            yield
        finally:
            self._waiting -= 1
            self._waiting_others -= others
            by_owner[owner] -= 1
            if not by_owner[owner]:
                del by_owner[owner]


class LargeWorkAsker(Protocol):
    """The request that asks (context.py). Looked at only if there is something large."""

    @property
    def is_system(self) -> bool: ...

    @property
    def owner(self) -> str: ...


class LargeWorkShare:
    """What one request uses of it."""

    __slots__ = ("_asker", "_work")

    def __init__(self, work: LargeWork, asker: LargeWorkAsker) -> None:
        self._work = work
        self._asker = asker

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on the thread. Raises what it raises, and `StatusError` (429) if too many wait."""
        with self._work.wait(self._asker):
            async with self._work.worker_turns.turn(self._asker.owner):
                return await self._work.worker.run(partial(call, *args, **kwargs))

    def concerns(self, request: Request) -> bool:
        """Whether to call `read_body`: not if the body is short, whatever it is."""
        return len(request.body) > YAML_AT_ONCE_BYTES

    async def read_body(self, request: Request) -> bool:
        """Whether the body of a request that is concerned is large: then decode it by `run`. One of YAML is converted
        first.

        Raises `StatusError` (413) for more YAML than is read.
        """
        body = request.body
        content_type = (request.headers.get("content-type") or "").lower()
        # What is applied is mostly JSON, which is read as such.
        if "yaml" in content_type and not ("apply" in content_type and await self._is_json(body)):
            request.body = await self._convert(body)
        return len(request.body) > LARGE_BYTES

    async def write_yaml(self, answer: Answer) -> Answer:
        """An answer of JSON as YAML. Raises `StatusError` (406) if it is too long for that."""
        if isinstance(answer, LongResponse):
            try:
                body = await _collect(answer)
            finally:
                answer.close()
        elif isinstance(answer, Response) and answer.content_type == _JSON:
            body = answer.body
        else:
            return answer
        if len(body) > DUMPED_BYTES_MAX:
            raise _too_long_for_yaml()
        return Response(answer.status, await self._dump(body), "application/yaml", answer.headers)

    async def _is_json(self, body: bytes) -> bool:
        """Whether this is an object in JSON, and not something else that begins like one in YAML."""
        if body.lstrip()[:1] != b"{":
            return False
        try:
            if len(body) > LARGE_BYTES:
                await self.run(json_body.parse, body)
            else:
                json_body.parse(body)
        except StatusError as error:
            if error.code == 429:
                raise
            return False
        return True

    async def _convert(self, body: bytes) -> bytes:
        if len(body) > YAML_BYTES_MAX:
            raise yaml_too_large()
        return ConvertedYaml(await self._ask(Question.PARSE, body))

    async def _dump(self, body: bytes) -> bytes:
        if len(body) <= DUMPED_AT_ONCE_BYTES:
            return yaml_helper.answer(Question.DUMP + body)
        return await self._ask(Question.DUMP, body)

    async def _ask(self, question: bytes, body: bytes) -> bytes:
        helper = self._work.helper
        if helper is None:
            return yaml_helper.answer(question + body)
        try:
            with self._work.wait(self._asker):
                async with self._work.helper_turns.turn(self._asker.owner):
                    return await helper.ask(question + body)
        except OSError as error:
            text = f"the server cannot read or write YAML just now ({error}); use JSON, or retry later"
            raise StatusError(503, StatusReason.SERVICE_UNAVAILABLE, text, {}, retry_after_s=1) from None


async def _collect(answer: LongResponse) -> bytes:
    pieces, size = [], 0
    for piece in answer.pieces:
        pieces.append(piece)
        size += len(piece)
        if size > DUMPED_BYTES_MAX:
            raise _too_long_for_yaml()
        await tasks.turns(1)
    return b"".join(pieces)


def _too_many(why: str) -> StatusError:
    return StatusError(429, StatusReason.TOO_MANY_REQUESTS, f"{why}; retry later", {}, retry_after_s=1)


def _too_long_for_yaml() -> StatusError:
    text = f"more than {DUMPED_BYTES_MAX} bytes are not written as YAML: use JSON, or limit= and continue="
    return StatusError(406, StatusReason.NOT_ACCEPTABLE, text, {})
