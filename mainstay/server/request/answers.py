"""Answers as HTTP responses: JSON, YAML or text, pretty or not, with warnings."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec
import yaml

from mainstay.http.messages import Answer, LongResponse, Response
from mainstay.server.request.representation import ResponseForm
from mainstay.server.request.target import Options
from mainstay.server.storage.operations import REPEATED

NO_CACHE: Final = ("Cache-Control", "no-cache, private")

_encode = msgspec.json.Encoder().encode


def answer_body(
    status: int,
    body: bytes,
    form: ResponseForm,
    options: Options,
    warnings: Sequence[str] = (),
    *,
    is_repeated: bool = False,
) -> Response:
    """A body of JSON, in the form that the client asked for. `is_repeated`: of an operation that was done before."""
    headers: tuple[tuple[str, str], ...] = (NO_CACHE,)
    for warning in warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers = (*headers, ("Warning", f'299 - "{escaped}"'))
    if is_repeated:
        headers = (*headers, REPEATED)
    if form.is_yaml:
        text = yaml.safe_dump(msgspec.json.decode(body), allow_unicode=True)
        return Response(status, text.encode(), "application/yaml", headers)
    if options.flag("pretty"):
        body = msgspec.json.format(body, indent=2)
    return Response(status, body, headers=headers)


def answer_pieces(
    pieces: Iterator[bytes], form: ResponseForm, options: Options, warnings: Sequence[str] = ()
) -> Answer:
    """A list. Most are one piece, and answered like anything else."""
    first = next(pieces)
    second = next(pieces, None)
    if second is None or form.is_yaml or options.flag("pretty") or warnings:
        return answer_body(200, b"".join((first, second or b"", *pieces)), form, options, warnings)
    return LongResponse(200, chain((first, second), pieces), headers=(NO_CACHE,))


def answer_json(status: int, body: object) -> Response:
    return Response(status, _encode(body), headers=(NO_CACHE,))


def answer_text(status: int, text: str) -> Response:
    headers = (NO_CACHE, ("X-Content-Type-Options", "nosniff"))
    return Response(status, text.encode(), "text/plain; charset=utf-8", headers)


def no_page() -> Response:
    return answer_text(404, "404 page not found\n")
