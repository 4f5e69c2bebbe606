"""*Replaying a duplicate reservation*, step by step, with the seed of the text. (SPEC T7)"""

from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.journal.record import DecisionRecord
from mainstay.scenarios import weak_designs
from mainstay.sim.cluster.history import ProgramCrashed, RequestReceived, ResponseSent, WatchDelivered
from mainstay.sim.narration.facts import RunFact
from mainstay.sim.narration.matchers import match_commit, match_decision, match_program
from mainstay.sim.narration.steps import Found, Match, NarratedStep, Narration

_PROGRAMS: Final = ("controller-1", "controller-2")
_PATH_END: Final = "/reservations"
_RESERVATIONS: Final = "mainstay.dev/reservations/default/"
_WORKLOAD: Final = "risk-api-1"
_COMMITTED, _CRASHED = "committed", "crashed"


def _is_sent(fact: RunFact, found: Found) -> str | None:
    event = fact.event
    if not isinstance(event, RequestReceived) or event.method != "POST" or event.who not in _PROGRAMS:
        return None
    path = event.path.partition("?")[0]
    return f"POST {path}, operation …{event.operation[-12:]}" if path.endswith(_PATH_END) else None


def _is_committed(before: Object | None, after: Object | None, found: Found) -> str | None:
    return None if before is not None or after is None else f"is created for {_describe_intent(after)}"


def _describe_intent(reservation: Object) -> str:
    spec = reservation["spec"]
    return f"{spec['workload']['name']} {spec['intent']}, generation {spec['generation']}"


def _is_lost(fact: RunFact, found: Found) -> str | None:
    event, committed = fact.event, found.get(_COMMITTED)
    if not isinstance(event, ResponseSent) or event.is_delivered or committed is None:
        return None
    is_meant = committed.asked is not None and event.request == committed.asked.request
    return f"{event.status}, and the answer is lost" if is_meant else None


def _is_shown_late(fact: RunFact, found: Found) -> str | None:
    event, committed, crashed = fact.event, found.get(_COMMITTED), found.get(_CRASHED)
    if not isinstance(event, WatchDelivered) or committed is None or crashed is None:
        return None
    if event.key != committed.key or event.who not in _PROGRAMS or event.who == crashed.who:
        return None
    return f"its watch shows the reservation {(event.at_ns - committed.at_ns) / 1e9:.1f} s after its commit"


def _uses_again(record: DecisionRecord, found: Found) -> str | None:
    committed = found.get(_COMMITTED)
    if record.subject.name != _WORKLOAD or committed is None or committed.after is None:
        return None
    name = committed.after["metadata"]["name"]
    others = [each.name for each in record.actions if each.name != name]
    if len(others) < len(record.actions):
        results = [each.error for each in record.writes if each.name == name]
        return f"creates it again under the same name: {', '.join(filter(None, results)) or 'no second object'}"
    return f"counts it, and creates {len(others)} for other replicas"


def _build_duplicate_match() -> Match:
    """A reservation for an intent that has one already. Counts all that are created in the run."""
    reserved: dict[tuple[Any, ...], str] = {}

    def match(fact: RunFact, found: Found) -> str | None:
        if not fact.key.startswith(_RESERVATIONS) or fact.before is not None or fact.after is None:
            return None
        name = str(fact.after["metadata"]["name"])
        first = reserved.setdefault(_identify(fact.after), name)
        return None if first == name else f"is created for {_describe_intent(fact.after)}, which has {first}"

    return match


def _identify(reservation: Object) -> tuple[Any, ...]:
    spec = reservation["spec"]
    return spec["workload"]["uid"], spec["generation"], spec["intent"]


NARRATION: Final = Narration(
    title="replaying a duplicate reservation",
    requirement="T7",
    steps=(
        NarratedStep("00:00", "the leader creates res-a", _is_sent),
        NarratedStep("00:01", "the write commits", match_commit(_RESERVATIONS, _is_committed), name=_COMMITTED),
        NarratedStep("", "but the leader gets no answer", _is_lost),
        NarratedStep("00:02", "the leader restarts", match_program(ProgramCrashed, _PROGRAMS), name=_CRASHED),
        NarratedStep("00:03", "the next leader's cache is stale for a while", _is_shown_late),
        NarratedStep("00:04", "it decides again, and res-a counts", match_decision("reserving", _uses_again)),
        NarratedStep(
            "00:06",
            "a second reservation for the same intent",
            build_match=_build_duplicate_match,
            is_forbidden=True,
            is_anytime=True,
        ),
    ),
    weak_design=weak_designs.names_reservations_after_the_attempt,
    weakness="each attempt has a name of its own, and a new leader does not wait for what the last one did",
    seed=82219,
)
