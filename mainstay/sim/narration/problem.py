"""What a checker said about a narrated run, in the terms of the narration: its clock, and objects by their names.

A checker writes for all runs: by the clock of the simulation, which also counts the time before the run began, with
uids, and with the numbers of requests. Beside the columns of a narration these could not be found again.
"""

import re
from collections.abc import Sequence
from typing import Final

from mainstay.sim.narration.facts import RunFact

_TIME: Final = re.compile(r"^ *(\d+\.\d{6}) ", re.MULTILINE)
_REQUEST: Final = re.compile(r" for #\d+$", re.MULTILINE)
_UID: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def word_problem(problem: str, facts: Sequence[RunFact], began_ns: int) -> str:
    names: dict[str, str] = {}

    def name_object(found: re.Match[str]) -> str:
        if not names:
            names.update(_list_names(facts))
        return names.get(found.group(), found.group())

    text = _TIME.sub(lambda found: f"   {format_time(float(found.group(1)) - began_ns / 1e9)} ", problem)
    return _UID.sub(name_object, _REQUEST.sub("", text))


def format_time(at_s: float) -> str:
    """Since the run began."""
    minutes, seconds = divmod(max(at_s, 0.0), 60)
    return f"+{int(minutes):02}:{seconds:06.3f}"


def _list_names(facts: Sequence[RunFact]) -> dict[str, str]:
    """By uid, the objects that were written in the run."""
    found: dict[str, str] = {}
    for fact in facts:
        written = fact.after or fact.before if fact.subject else None
        uid = ((written or {}).get("metadata") or {}).get("uid")
        if uid:
            found[uid] = fact.subject
    return found
