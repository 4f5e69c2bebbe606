"""Bugs by which a pod would get into a namespace that no longer allows it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mainstay.api.pod_security import NamespaceSecurity
from mainstay.server.storage.pod_security import PodSecurity
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.store.interface import Check, Entry

Twin = Callable[[pytest.MonkeyPatch], None]


def reads_the_labels_of_a_namespace_once(patch: pytest.MonkeyPatch) -> None:
    honest, known = PodSecurity._read, dict[str, NamespaceSecurity]()

    def read(self: PodSecurity, namespace: Entry) -> NamespaceSecurity:
        return known.setdefault(namespace.key, honest(self, namespace))

    patch.setattr(PodSecurity, "_read", read)


def commits_whatever_became_of_the_namespace(patch: pytest.MonkeyPatch) -> None:
    honest = SharedWrites.commit

    async def commit(self: SharedWrites, checks: Sequence[Check], *rest: Any) -> Any:
        return await honest(self, [each for each in checks if not each.key.startswith("core/namespaces/")], *rest)

    patch.setattr(SharedWrites, "commit", commit)


LABEL_TWINS = (reads_the_labels_of_a_namespace_once, commits_whatever_became_of_the_namespace)
