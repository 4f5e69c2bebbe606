"""Whether an API server says that it is ready."""

from mainstay.env.invariants import broken
from tests.server.world import a_server


async def test_a_server_with_a_broken_invariant_is_alive_and_not_ready(sim):
    async with a_server(sim) as client:
        broken("feed revisions strictly grow", "the feed", before=7, after=7)

        ready = await client.ask("GET", "/readyz", Authorization="")
        alive = await client.ask("GET", "/livez", Authorization="")

        assert (ready.status, alive.status) == (500, 200)
        assert "feed revisions strictly grow" in str(ready.body)
