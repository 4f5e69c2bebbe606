"""What follows from a debug view: the finding, the cause in a sentence, and what to do next. A plain function.

The order is that of what makes the others meaningless: what is held back on purpose, then pictures that are not
true, then what was refused on a true picture, then what is merely slow.
"""

from collections.abc import Sequence
from typing import Final

from mainstay.explain.debug.view import CacheSeen, DebugFinding, HoldView, Pending, RepairView, ReplicaCounts, Rollback
from mainstay.explain.story.lines import StoryObject

Conclusion = tuple[DebugFinding, str, str]
NAMES_MAX: Final = 3


def concluded(
    about: StoryObject,
    generation: int,
    observed: int,
    counts: ReplicaCounts,
    holds: Sequence[HoldView],
    rollbacks: Sequence[Rollback],
    pending: Sequence[Pending],
    caches: Sequence[CacheSeen],
    repair: RepairView | None,
) -> Conclusion:
    """The finding, its cause, and the next step."""
    missing = counts.desired - counts.ready
    if missing <= 0 and observed >= generation:
        return DebugFinding.COMPLETE, f"{counts.ready} of {counts.desired} replicas are ready", "nothing to do"
    if holds:
        held = holds[0]
        return (
            DebugFinding.HELD,
            held.words,
            f"wait until the Hold expires, or release it if it is no longer needed: mainstay release {held.name}",
        )
    waiting = [each for each in pending if not each.node and each.decision]
    return (
        _stale(waiting, caches, repair)
        or _unheard(rollbacks)
        or _behind(about.name, generation, observed, caches)
        or _refused(about, max(counts.pending, len(waiting)), waiting, repair)
        or _other(about, pending, missing)
    )


def _stale(waiting: Sequence[Pending], caches: Sequence[CacheSeen], repair: RepairView | None) -> Conclusion | None:
    decisive = [each for each in caches if each.is_decisive]
    if not decisive:
        return None
    cache = decisive[0]
    kind, objects = cache.kind.partition(".")[0], some(cache.objects)
    would = [each for each in waiting if each.would_go_to]
    where = f"; with it, {would[0].pod} would fit on {would[0].would_go_to}" if would else ""
    not_it = "Adding nodes or replicas, or rolling back again, does not help"
    if repair is not None and repair.status == "True":
        not_it += "; repair is complete, so no leftovers are in the way"
    what = f"{kind} in the cache of {cache.component} are stale: its last decision saw {cache.seen}"
    cause = f"{what}, the latest is {cache.latest} ({objects}, {cache.behind_ms / 1000:.1f} s ago){where}"
    if cache.says >= cache.latest:
        return (
            DebugFinding.SEEN_SINCE,
            f"{cause}. It reports that it has now seen {cache.says}, but has not decided again yet",
            f"wait for its next decision. {not_it}.",
        )
    says = f" (it reports {cache.says})" if cache.says else ""
    return (
        DebugFinding.STALE_CACHE,
        cause,
        f"wait for {cache.component} to catch up{says}, and if it does not, check its watch of {kind}: its log, its "
        f"connection, the lag in its metrics; a restart makes it relist everything. {not_it}.",
    )


def _unheard(rollbacks: Sequence[Rollback]) -> Conclusion | None:
    for each in rollbacks:
        late = [one for one in each.observed if not one.is_observed]
        if late:
            word = "rollback" if each.is_rollback else "change"
            version = f" to {each.version}" if each.version else ""
            return (
                DebugFinding.ROLLBACK_NOT_SEEN,
                f"{late[0].component} has not observed the {word} of {each.about.words}{version} at {each.revision}: "
                f"it uses revision {late[0].revision}",
                f"wait for {late[0].component}; if it does not catch up, check its watch. Do not roll back again.",
            )
    return None


def _behind(name: str, generation: int, observed: int, caches: Sequence[CacheSeen]) -> Conclusion | None:
    if observed >= generation:
        return None
    by = [each for each in caches if each.is_behind and name in "".join(each.objects)]
    who = by[0].component if by else "its controller"
    return (
        DebugFinding.CONTROLLER_BEHIND,
        f"{who} has observed generation {observed} of {name}, the current one is {generation}",
        f"wait for {who}; `mainstay status` shows whether it runs and which instance leads.",
    )


def _refused(
    about: StoryObject, count: int, waiting: Sequence[Pending], repair: RepairView | None
) -> Conclusion | None:
    if not waiting:
        return None
    reasons = dict.fromkeys(each.reason for each in waiting)
    first = waiting[0]
    if repair is not None and repair.status == "False":
        return (
            DebugFinding.REPAIR_NOT_DONE,
            f"{replicas(count)} no node ({some(list(reasons))}), and repair is not complete: {repair.reason}",
            "let repair finish first: leftovers may hold the missing resources.",
        )
    words = f": {'; '.join(first.words)}" if first.words else ""
    return (
        DebugFinding.REFUSED,
        f"{replicas(count)} no node ({some(list(reasons))}), and no unobserved change would help{words}",
        f"{command('why', _pod(about, first))} shows what would help.",
    )


def _other(about: StoryObject, pending: Sequence[Pending], missing: int) -> Conclusion:
    undecided = [each for each in pending if not each.node and not each.decision]
    if undecided:
        return (
            DebugFinding.UNKNOWN,
            f"{replicas(len(undecided))} no node, and no scheduler has recorded a decision about them",
            "check that a scheduler runs and serves their schedulerName: mainstay status.",
        )
    starting = [each for each in pending if each.node]
    if starting:
        reasons = dict.fromkeys(each.reason for each in starting)
        first = starting[0]
        return (
            DebugFinding.STARTING,
            f"{replicas(len(starting))} a node but not become ready: {some(list(reasons))}",
            f"{command('why', _pod(about, first))}, and mainstay logs {first.pod}{in_namespace(about.namespace)}.",
        )
    return (
        DebugFinding.NOT_MADE,
        f"{missing} of the replicas of {about.name} {'is' if missing == 1 else 'are'} missing: no pods exist for them",
        f"{command('why', about)} shows why its controller does not create them, {command('timeline', about)} what "
        "it has tried.",
    )


def command(verb: str, about: StoryObject) -> str:
    """What to type, whole: it can be pasted anywhere."""
    return f"mainstay {verb} {about.words.replace(' ', '/', 1)}{in_namespace(about.namespace)}"


def in_namespace(namespace: str) -> str:
    return f" -n {namespace}" if namespace else ""


def replicas(count: int) -> str:
    return "1 replica has" if count == 1 else f"{count} replicas have"


def _pod(about: StoryObject, pending: Pending) -> StoryObject:
    return StoryObject("pods", pending.pod, about.namespace)


def some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    return shown if len(names) <= NAMES_MAX else f"{shown} and {len(names) - NAMES_MAX} more"
