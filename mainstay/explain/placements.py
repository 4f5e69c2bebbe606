"""Placements as records tell of them: what a scheduler decided about a pod, without deciding again."""

from mainstay.api.kind_names import NODES, PODS
from mainstay.journal.record import DecisionRecord


def is_placement(record: DecisionRecord) -> bool:
    """Whether a scheduler decided about a pod. Schedulers have names of their own."""
    kinds = {seen.kind for seen in record.view}
    return record.subject.kind == PODS.text and {PODS.text, NODES.text} <= kinds and record.seed != ""


def recorded_words(record: DecisionRecord) -> tuple[str, ...]:
    """What the record itself says, where the decision is not replayable."""
    return tuple(record.reasons) or (record.outcome.message or record.outcome.reason,)


def node_chosen(record: DecisionRecord) -> str:
    return next((each.removeprefix("node=") for each in record.reasons if each.startswith("node=")), "")


def policy_words(record: DecisionRecord) -> str:
    """By which policies it was decided, in which versions: ` by PlacementPolicy risk-v5@918`; empty for none."""
    named = ", ".join(f"{each.name}@{each.revision}" for each in record.policies)
    return f" by PlacementPolicy {named}" if named else ""
