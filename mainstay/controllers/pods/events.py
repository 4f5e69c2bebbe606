"""What people are told about pods that a workload makes and takes away. The words are upstream's."""

from collections.abc import Iterable
from typing import Final

from mainstay.api.kind_names import PODS
from mainstay.client.errors import ApiError
from mainstay.loop.decision import Action, Create, Delete, Tell

_MESSAGE_LENGTH_MAX: Final = 1000


def describe_pods(actions: Iterable[Action]) -> tuple[Tell, ...]:
    """One for each pod that is made or taken away, once it is."""
    found = []
    for action in actions:
        match action:
            case Create(kind=kind, object=pod) if kind == PODS:
                found.append(Tell("SuccessfulCreate", f"Created pod: {pod['metadata']['name']}", after=action))
            case Delete(kind=kind, key=key) if kind == PODS:
                found.append(Tell("SuccessfulDelete", f"Deleted pod: {key.name}", after=action))
            case _:
                pass
    return tuple(found)


def refused(action: Create | Delete, error: ApiError) -> Tell:
    """The server does not let a pod be made, or taken away."""
    if isinstance(action, Create):
        reason, what = "FailedCreate", "creating"
    else:
        reason, what = "FailedDelete", f'deleting pod "{action.key.name}"'
    return Tell(reason, f"Error {what}: {error}"[:_MESSAGE_LENGTH_MAX], is_warning=True)
