"""What went wrong in the operators of others, with the operator of _database.py: numbers 25–31 of the catalogue.

25  It crashes between ending a member and growing its volume; the volume stays small. (rabbitmq cluster-operator #782)
26  It is started on an old view, and takes the end of an earlier database for that of the one that has its name now:
    members go. (rabbitmq #648)
27  The same with volumes: data goes. (K8SSAND-559, instaclustr #402, zookeeper-operator #312)
28  A database shrinks and grows again; started on an old view, it shrinks it. (cloud-on-k8s #5274, zookeeper #314)
29  A database grows and shrinks faster than it reads; what it made in between stays. (instaclustr #398, casskop #342)
30  It crashes between two certificates, and takes the first for both. (K8SPXC-896, K8SPSMDB-578)
31a It crashes between writing settings and restarting members; they never are. (nifikop #49)
31b It crashes between making a member and saying that it has joined; that one can never leave. (nifikop #79)
31c It crashes between ending a member and removing its volume; that stays for ever. (casskop #370)
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.scenarios._database_stage import PODS_PREFIX, VOLUMES_PREFIX, DatabaseStage, NothingWantedDeleted
from mainstay.scenarios._stages import SILENCE
from mainstay.sim.checkers import Checker
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

CRASHES: Final = ("crash-after", "crash-before", "crash-at-delivery")
OLD_VIEWS: Final = ("old-state", "stale-server", "crash-after", "watch-delay")
UNSEEN: Final = ("unseen", "crash-after", "crash-at-delivery", "watch-delay", "answer-lost")


class Growing(DatabaseStage):
    deeds = ("grows",)
    needs_volumes = True


class Replaced(DatabaseStage):
    deeds = ("replaced",)
    turn_every = timedelta(seconds=1)


class Resized(DatabaseStage):
    deeds = ("resized",)
    turn_every = timedelta(seconds=1)


class ShrunkAndGrown(DatabaseStage):
    deeds = ("shrunk-and-grown",)
    turn_every = timedelta(milliseconds=500)


class ResizedTwice(DatabaseStage):
    deeds = ("resized-twice",)
    turn_every = timedelta(seconds=1)


class Reconfigured(DatabaseStage):
    deeds = ("settings",)
    also = MappingProxyType({"settings": {"turn": "0"}})


class Made(DatabaseStage):
    deeds = ("made",)
    also = MappingProxyType({"certificates": ["client-tls", "peer-tls"]})


def _checkers(*prefixes: str) -> Callable[[], Sequence[Checker]]:
    return lambda: [WatchContract(), AcknowledgedWrites(), *(NothingWantedDeleted(prefix) for prefix in prefixes)]


def _scenario(
    name: str, number: str, about: str, stage: type[DatabaseStage], faults: tuple[str, ...], *prefixes: str
) -> Scenario:
    return Scenario(
        name=name,
        about=about,
        make=stage,
        checkers=_checkers(*prefixes),
        faults=faults,
        lasts=timedelta(seconds=40),
        silence=SILENCE,
        ids=(number,),
    )


SCENARIOS: Final = (
    _scenario(
        "volumes-grow",
        "25",
        "An operator crashes between stopping a member and growing its volume: all volumes get their size.",
        Growing,
        CRASHES,
        VOLUMES_PREFIX,
    ),
    _scenario(
        "another-of-the-name",
        "26",
        "A database is recreated under its name: an operator with a stale view must not stop its members.",
        Replaced,
        OLD_VIEWS,
        PODS_PREFIX,
    ),
    _scenario(
        "volumes-of-the-living",
        "27",
        "A database is recreated under its name: an operator with a stale view must not delete its volumes.",
        Replaced,
        OLD_VIEWS,
        VOLUMES_PREFIX,
    ),
    _scenario(
        "shrunk-and-grown",
        "28",
        "A database shrinks and grows again: an operator with a stale view must not remove what is wanted now.",
        ShrunkAndGrown,
        OLD_VIEWS,
        VOLUMES_PREFIX,
    ),
    _scenario(
        "never-seen-size",
        "29",
        "A database grows and shrinks faster than its operator reads: nothing of the intermediate size stays.",
        ResizedTwice,
        UNSEEN,
        VOLUMES_PREFIX,
    ),
    _scenario(
        "both-certificates",
        "30",
        "An operator crashes between two certificates: each database gets both.",
        Made,
        CRASHES,
    ),
    _scenario(
        "settings-in-force",
        "31a",
        "An operator crashes between writing settings and restarting members: all run with the latest.",
        Reconfigured,
        CRASHES,
        VOLUMES_PREFIX,
    ),
    _scenario(
        "members-can-leave",
        "31b",
        "An operator crashes between creating a member and recording that it joined: it can still leave.",
        Resized,
        CRASHES,
        VOLUMES_PREFIX,
    ),
    _scenario(
        "volumes-go-too",
        "31c",
        "An operator crashes between stopping a member and deleting its volume: no unwanted volume stays.",
        Resized,
        CRASHES,
        VOLUMES_PREFIX,
    ),
)
