"""Bugs that the scenarios of the catalogue must find in controllers of their own: what others got wrong."""

import itertools
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.client.cache import Cache
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.loop import act as acting
from mainstay.loop import controller_loop
from mainstay.loop.act import OwnWrite
from mainstay.loop.decision import Action, Patch
from mainstay.scenarios import _cronjobs, _daemons, _preemption, ordered_rollback

# CronJobs


def gives_up_after_a_hundred_missed_ticks(patch: pytest.MonkeyPatch) -> None:
    """It goes through them one by one, and takes so many for a clock that is wrong. (kubernetes #42649)"""
    honest = _cronjobs.due

    def due(last: datetime, now: datetime, every: timedelta) -> datetime | None:
        return None if (now - last) // every > 100 else honest(last, now, every)

    patch.setattr(_cronjobs, "due", due)


def makes_up_for_each_missed_tick(patch: pytest.MonkeyPatch) -> None:
    def due(last: datetime, now: datetime, every: timedelta) -> datetime | None:
        following = _cronjobs.latest(last, every) + every
        return following if following <= now else None

    patch.setattr(_cronjobs, "due", due)


def runs_whatever_is_not_the_last_tick(patch: pytest.MonkeyPatch) -> None:
    """Also one before it, when the clock was set back."""

    def due(last: datetime, now: datetime, every: timedelta) -> datetime | None:
        tick = _cronjobs.latest(now, every)
        return tick if tick != last else None

    patch.setattr(_cronjobs, "due", due)


def names_jobs_after_the_attempt(patch: pytest.MonkeyPatch) -> None:
    numbers = itertools.count()
    patch.setattr(_cronjobs, "job_name", lambda cron, tick: f"{cron['metadata']['name']}-{next(numbers)}")


# Ordered sets


def waits_for_the_broken_pod_to_become_ready(patch: pytest.MonkeyPatch) -> None:
    """(kubernetes #67250)"""
    patch.setattr(ordered_rollback, "is_hopeless", lambda pod, revision: False)


def goes_on_over_what_is_broken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ordered_rollback, "is_settled", lambda pod: True)


def takes_the_answer_to_a_delete_for_its_revision(patch: pytest.MonkeyPatch) -> None:
    """What is gone at once is answered as it was, at a revision that each cache has long reached."""
    honest = acting.act

    async def act(action: Action, client: Client, write: WriteOptions) -> OwnWrite:
        wrote = await honest(action, client, write)
        return OwnWrite(wrote.kind, wrote.key, revision=1) if wrote.gone_uid else wrote

    patch.setattr(controller_loop, "act", act)


# DaemonSets


def takes_a_list_of_nodes_that_has_not_come_for_an_empty_one(patch: pytest.MonkeyPatch) -> None:
    """(kubernetes #14528, PR 12929)"""
    honest = Cache.wait_until

    async def wait_until(self: Cache, revision: int) -> None:
        if self.kind != NODES:
            await honest(self, revision)

    patch.setattr(Cache, "wait_until", wait_until)


def counts_a_pod_once_it_is_bound(patch: pytest.MonkeyPatch) -> None:
    """And has a name for each attempt."""
    numbers = itertools.count()
    patch.setattr(_daemons, "is_counted", lambda pod: bool(pod_state.get_node_name(pod)))
    patch.setattr(
        _daemons, "build_pod_name", lambda found, node, failures: f"{found['metadata']['name']}-{next(numbers)}"
    )


def replaces_a_rejected_pod_at_once(patch: pytest.MonkeyPatch) -> None:
    """(kubernetes #22545, #43846)"""
    patch.setattr(_daemons, "not_before", lambda own: None)


# Making room


def waits_for_the_room_it_was_promised(patch: pytest.MonkeyPatch) -> None:
    """Regardless of who has it now. (kubernetes #72124)"""
    patch.setattr(_preemption, "broken", lambda node: ())


def keeps_the_room_of_who_needs_it_no_more(patch: pytest.MonkeyPatch) -> None:
    """(kubernetes #93505)"""
    patch.setattr(_preemption, "is_unneeded", lambda promised_to, waits: bool(waits) and promised_to != waits)


def promises_room_that_others_may_take(patch: pytest.MonkeyPatch) -> None:
    """It is said on the node, and no other scheduler reads it there. (kubernetes #130429)"""
    honest = _preemption.closed

    def closed(node: Object, pod: Object) -> Patch:
        patch = honest(node, pod)
        return replace(patch, body={"metadata": patch.body["metadata"]})

    patch.setattr(_preemption, "closed", closed)
