"""Telling a controller's own status writes from changes that others made.

A write to an object's status comes back as a change of that object. To look at it again would be work for nothing, and
where a controller gives up it would never come to rest: it says so in the status, is woken by that, tries again, and so
on. But a change must not be taken for an echo because it is about the same object, or because its revision is low
enough: another client's may lie between. So an echo is exactly one step: from the version that the controller knew to
the version that its own write was answered.

The change may come before the answer does. While a write is under way, changes of its object are held back, and told
apart when the answer is there.
"""

from dataclasses import dataclass, field

from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import Change


@dataclass(slots=True)
class _Steps:
    at: int
    """The version that our writes have brought it to."""
    own: dict[int, int] = field(default_factory=dict)
    """From which version to which: the steps that are still to come back."""
    held: list[Change] = field(default_factory=list)
    is_writing: bool = True


class Echoes:
    """Of the objects that one controller looks after."""

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, _Steps] = {}

    def begin(self, key: ObjectKey, revision: int) -> None:
        """The object is about to be written by us. What we know of it is this version."""
        self._objects[key] = _Steps(revision)

    def known(self, key: ObjectKey) -> int:
        """The version that we know of it: what we read, or what our last write has made of it."""
        return self._objects[key].at

    def wrote(self, key: ObjectKey, revision: int, *, is_exact: bool) -> None:
        """A write of ours has brought it to this version; if that is the old one, nothing has changed.

        `is_exact`: it was done on condition that the object was still as we knew it. If not, another client's changes
        may lie between, and the step is none of our own.
        """
        steps = self._objects[key]
        if revision != steps.at:
            if is_exact:
                steps.own[steps.at] = revision
            steps.at = revision

    def end(self, key: ObjectKey) -> list[Change]:
        """Nothing more is written for now. Returns the changes that came meanwhile and were not our own."""
        steps = self._objects[key]
        steps.is_writing = False
        held, steps.held = steps.held, []
        others = [change for change in held if not self._is_echo(steps, change)]
        if not steps.own:
            del self._objects[key]
        return others

    def takes(self, change: Change) -> bool:
        """Whether a change need not be looked at: it is our own, or held back until that is known."""
        steps = self._objects.get(change.key)
        if steps is None:
            return False
        if steps.is_writing:
            steps.held.append(change)
            return True
        is_echo = self._is_echo(steps, change)
        if not is_echo or not steps.own:
            # Either another client wrote between our writes, or all of them have come back.
            del self._objects[change.key]
        return is_echo

    @staticmethod
    def _is_echo(steps: _Steps, change: Change) -> bool:
        if change.old is None or change.new is None or change.old.uid != change.new.uid:
            return False
        if steps.own.get(change.old.revision) != change.new.revision:
            return False
        del steps.own[change.old.revision]
        return True
