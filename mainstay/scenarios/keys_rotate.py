"""Encryption keys are rotated while what they seal is written, and the store loses power in between.

Three programs write and follow a few objects, as in cache-follows, over a store on a disk that seals them. With each
opening of the store a new key comes in front. A server writes again whatever is sealed with an older one: no write that
was acknowledged is replaced by an older value, nothing that is deleted comes back, and in the end only the newest key
is needed for what is there.
"""

from datetime import timedelta
from typing import Final, TypeGuard

from mainstay.env import Env, tasks
from mainstay.scenarios.cache_follows import SERVERS, CacheFollows
from mainstay.server.storage.key_rotation import KeyRotation
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario
from mainstay.store.errors import StoreError
from mainstay.store.sealer import KEY_BYTES, EncryptionKey, KeyRing

NAME: Final = "keys rotate"
SEALED: Final = ("core/configmaps/", "~operations/")
TURN_EVERY: Final = timedelta(seconds=1)
FINISHED_WITHIN: Final = timedelta(minutes=1)


class KeysRotate(CacheFollows):
    def __init__(self, world: World) -> None:
        self._openings = 0
        self._ring: KeyRing | None = None
        world.store_on_disk(self._next_ring)
        super().__init__(world)
        world.add_program("rotator", self._rotate)

    async def check(self) -> None:
        for event in self.world.history.events:
            if _is_resealed(event) and event.value != event.previous:
                raise Violated(NAME, f"sealing {event.key} again at revision {event.revision} has changed it")
        await super().check()
        try:
            async with tasks.timeout(FINISHED_WITHIN):
                while self._ring is None or self._ring.stale:
                    await tasks.sleep(TURN_EVERY)
        except TimeoutError:
            text = f"{len(self._ring.stale) if self._ring else 0} values are not sealed with the newest key"
            raise Violated(NAME, text) from None

    def _next_ring(self) -> KeyRing:
        self._openings += 1
        keys = [_make_key(number) for number in range(self._openings, 0, -1)]
        self._ring = KeyRing(keys, SEALED, self.world.sim.env("store").chance.stream("nonces").randbytes)
        return self._ring

    async def _rotate(self, env: Env) -> None:
        """What a server does besides (compare server/store_choice.py)."""
        while True:
            await tasks.sleep(TURN_EVERY)
            ring, port = self._ring, self.world.ports.get(SERVERS[0])
            if ring is not None and port is not None:
                try:
                    await KeyRotation(port, ring).step()
                except StoreError:
                    continue  # It is down; the next turn finds it open.


def _is_resealed(event: Event) -> TypeGuard[RevisionCommitted]:
    """Whether the rotation wrote it: no request has asked for it."""
    return isinstance(event, RevisionCommitted) and event.key.startswith(SEALED[0]) and event.request is None


def _make_key(number: int) -> EncryptionKey:
    return EncryptionKey(f"key-{number}", number.to_bytes(KEY_BYTES))


SCENARIO: Final = Scenario(
    name="keys-rotate",
    about="Keys are rotated while sealed objects are written and the store loses power: no write is lost.",
    make=KeysRotate,
    checkers=lambda: [WatchContract(), AcknowledgedWrites()],
    faults=("power-cut", "server-crash", "slow-store", "crash", "compaction"),
    lasts=timedelta(minutes=2),
    silence=timedelta(minutes=1),
)
