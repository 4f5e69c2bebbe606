"""What a server's health covers besides its vital tasks and its disk (env/disk_checks.py): store, feed, journal.

etcd, store      the store answers a read (etcd), or takes writes (one of our own)
informer-sync    the feed has reached what the store is at: watches hear of what happens
history          the journal follows (server/decisions/journal.py)
decisions        the journal takes what components have decided
"""

from typing import Final

from mainstay.env.health import Health
from mainstay.server.watch.feed import Feed
from mainstay.store.interface import Store
from mainstay.store.local import LocalStore

_ANY_KEY: Final = "core/namespaces/default"


def add_store_check(health: Health, store: Store) -> None:
    if isinstance(store, LocalStore):
        health.add("store", lambda: store.failure)
        return

    async def ask() -> str:
        await store.get(_ANY_KEY)  # Linearizable: a member without its leader does not answer.
        return ""

    health.add_remote("etcd", ask)


def add_feed_check(health: Health, store: Store, feed: Feed) -> None:
    async def ask() -> str:
        await feed.reach(await store.revision())
        return ""

    health.add_remote("informer-sync", ask)
