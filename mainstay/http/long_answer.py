"""A long answer as a stream: piece by piece, each when it is its turn and the client has taken the one before."""

from datetime import timedelta
from typing import Final

from mainstay.http import encoder
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import LongResponse, Request, StreamResponse
from mainstay.http.streams import BodyStream

STALLED_AFTER: Final = timedelta(seconds=1)
"""A client that takes nothing for this long does not count as being served, though it still is."""


def stream_pieces(request: Request, response: LongResponse, limits: HttpLimits) -> StreamResponse:
    pieces, headers = response.pieces, response.headers
    if limits.gzip and encoder.accepts_gzip(request):
        pieces, headers = encoder.compressed_pieces(pieces), (*headers, *encoder.GZIP_HEADERS)

    async def run(stream: BodyStream) -> None:
        while True:
            # Others have their turn between two pieces, also when the client takes them as fast as they come.
            await stream.turn()
            piece = next(pieces, None)
            if piece is None or not stream.write(piece):
                return
            if stream.is_behind and not await stream.drains_within(STALLED_AFTER):
                response.close()
                if not await stream.drained_within(limits.piece_within):
                    return

    return StreamResponse(response.status, run, response.content_type, headers, response.turns)
