"""Answers as HTTP responses: JSON or text, pretty or not, with warnings. YAML is made of JSON by large_work.py."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec

from mainstay.api.errors import quoted
from mainstay.http.messages import Answer, LongResponse, Response
from mainstay.server.request.target import Options
from mainstay.server.storage.operations import REPEATED

WARNINGS_LENGTH_MAX: Final = 4096
"""Characters of all warnings of an answer. If there are more, each is cut: this, and the next, are kube-apiserver's."""
WARNING_CUT_TO: Final = 256
PRETTY_BYTES_MAX: Final = 1024 * 1024  # Beyond, and of lists in several pieces, it is left out: that is for people.
NO_CACHE: Final = ("Cache-Control", "no-cache, private")

_encode = msgspec.json.Encoder().encode


def answer_body(
    status: int,
    body: bytes,
    options: Options,
    warnings: Sequence[str] = (),
    *,
    is_repeated: bool = False,
) -> Response:
    """A body of JSON, pretty if the client asked for that. `is_repeated`: of an operation that was done before."""
    headers: tuple[tuple[str, str], ...] = (NO_CACHE,)
    if warnings:
        headers = (NO_CACHE, *build_warning_headers(warnings))
    if is_repeated:
        headers = (*headers, REPEATED)
    if options.flag("pretty") and len(body) <= PRETTY_BYTES_MAX:
        body = msgspec.json.format(body, indent=2)
    return Response(status, body, headers=headers)


def build_warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """Each warning once, as a header that can always be sent. Too many are cut short, and the last of them left out."""
    texts = [quoted(text)[1:-1] if not text.isprintable() else text for text in dict.fromkeys(warnings) if text]
    if sum(map(len, texts)) > WARNINGS_LENGTH_MAX:
        kept, length = [], 0
        for text in texts:
            if length >= WARNINGS_LENGTH_MAX:
                break
            kept.append(text[:WARNING_CUT_TO])
            length += len(kept[-1])
        texts = kept
    escaped = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    return [("Warning", f'299 - "{text}"') for text in escaped]


def answer_pieces(pieces: Iterator[bytes], options: Options, warnings: Sequence[str] = ()) -> Answer:
    """A list. Most are one piece, and answered like anything else."""
    first = next(pieces)
    second = next(pieces, None)
    if second is None:
        return answer_body(200, first, options, warnings)
    return LongResponse(200, chain((first, second), pieces), headers=(NO_CACHE, *build_warning_headers(warnings)))


def answer_json(status: int, body: object, *, is_repeated: bool = False) -> Response:
    """`is_repeated`: of an operation that was done before."""
    return Response(status, _encode(body), headers=(NO_CACHE, REPEATED) if is_repeated else (NO_CACHE,))


def answer_text(status: int, text: str) -> Response:
    headers = (NO_CACHE, ("X-Content-Type-Options", "nosniff"))
    return Response(status, text.encode(), "text/plain; charset=utf-8", headers)


def no_page() -> Response:
    return answer_text(404, "404 page not found\n")
