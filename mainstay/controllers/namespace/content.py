"""What to do about what is left in a namespace that is being deleted, and what to say of it: plain functions.

The types and reasons of the conditions are those that Kubernetes has.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import PODS
from mainstay.loop.conditions import Condition, Truth

_NAMES_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Left:
    """An object that is still there."""

    kind: KindName
    name: str
    uid: str
    is_leaving: bool = False
    finalizers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamespaceContent:
    """What is left in a namespace, as far as it is known."""

    left: tuple[Left, ...] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    """Kinds that could not be listed, and why."""
    undiscovered: Mapping[str, str] = field(default_factory=dict)
    """Groups and versions whose kinds are unknown, and why."""


@dataclass(frozen=True, slots=True)
class NamespaceInput:
    """What was found out about a namespace besides the lists of what is left in it."""

    unlisted: dict[str, str] = field(default_factory=dict)
    undiscovered: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Kinds of which something could not be deleted."""


def find_again(known: NamespaceInput, lists: Iterable[tuple[KindName, Iterable[Object]]]) -> NamespaceContent:
    """What was found, from what each list had: in the order in which kinds are listed, each object once. Some kinds are
    served twice, and their objects are there once."""
    left: dict[str, Left] = {}
    for kind, objects in lists:
        for each in objects:
            metadata = each["metadata"]
            item = Left(
                kind,
                metadata["name"],
                metadata["uid"],
                metadata.get("deletionTimestamp") is not None,
                tuple(metadata.get("finalizers") or ()),
            )
            left.setdefault(item.uid, item)
    return NamespaceContent(in_order(left.values()), known.unlisted, known.undiscovered)


def in_order(left: Iterable[Left]) -> tuple[Left, ...]:
    return tuple(sorted(left, key=lambda each: (each.kind.text, each.name)))


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    deletes: tuple[Left, ...] = ()
    conditions: tuple[Condition, ...] = ()
    is_over: bool = False
    """Nothing is left: let it go."""


def decide(found: NamespaceContent) -> NamespacePlan:
    """What to delete next, and what to say."""
    if not found.left and not found.unlisted and not found.undiscovered:
        return NamespacePlan(is_over=True)
    staying = [each for each in found.left if not each.is_leaving]
    has_pods = PODS.text in found.unlisted or any(each.kind == PODS for each in found.left)
    if has_pods:
        staying = [each for each in staying if each.kind == PODS]
    return NamespacePlan(tuple(staying), build_conditions(found))


def said_after(found: NamespaceContent, known: NamespaceInput) -> tuple[Condition, ...]:
    """The conditions of a namespace, when what could be deleted was."""
    return build_conditions(replace(found, unlisted={**found.unlisted, **known.failed}))


def build_conditions(found: NamespaceContent) -> tuple[Condition, ...]:
    """What is said of a namespace that is being deleted."""
    kinds = Counter([each.kind.text for each in found.left])
    finalizers = Counter([finalizer for each in found.left for finalizer in each.finalizers])
    return (
        _condition(
            "NamespaceDeletionDiscoveryFailure",
            _reasons(found.undiscovered),
            "DiscoveryFailed",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        _condition(
            "NamespaceDeletionContentFailure",
            _reasons(found.unlisted),
            "ContentDeletionFailed",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        _condition(
            "NamespaceContentRemaining",
            f"Some resources are remaining: {_counted(kinds)}" if kinds else "",
            "SomeResourcesRemain",
            "ContentRemoved",
            "All content successfully removed",
        ),
        _condition(
            "NamespaceFinalizersRemaining",
            f"Some content in the namespace has finalizers remaining: {_counted(finalizers)}" if finalizers else "",
            "SomeFinalizersRemain",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished",
        ),
    )


def _condition(type_: str, problem: str, bad: str, good: str, all_is_well: str) -> Condition:
    return Condition(type_, Truth.TRUE, bad, problem) if problem else Condition(type_, Truth.FALSE, good, all_is_well)


def _reasons(problems: Mapping[str, str]) -> str:
    shown = [f"{name}: {why}" for name, why in sorted(problems.items())[:_NAMES_SHOWN_MAX]]
    more = len(problems) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _counted(counts: Mapping[str, int]) -> str:
    shown = [f"{name} ({count})" for name, count in sorted(counts.items())[:_NAMES_SHOWN_MAX]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
