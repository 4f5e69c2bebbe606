"""The kernel of all control loops: controllers, views, decisions, schedules, the work queue, leases, fencing, evidence.

These are the names that a controller is written with (docs/guides/write-a-controller.md). Everything else is in the
modules, one idea each.
"""

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.indexes import NAMESPACE, NODE, OWNER, field, label
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads, owner, reference_to, same_name
from mainstay.loop.decision import Apply, Create, Decision, Delete, Done, GiveUp, Patch, Retry, Tell, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.program import run
from mainstay.loop.queue.items import Priority
from mainstay.loop.view import View

__all__ = [
    "NAMESPACE",
    "NODE",
    "OWNER",
    "Apply",
    "Component",
    "ComponentSettings",
    "Condition",
    "Controller",
    "Create",
    "Decision",
    "Delete",
    "Done",
    "Freshness",
    "GiveUp",
    "KindName",
    "Object",
    "ObjectKey",
    "Patch",
    "Priority",
    "Reads",
    "Retry",
    "Tell",
    "Truth",
    "View",
    "WakeAt",
    "field",
    "label",
    "owner",
    "reference_to",
    "run",
    "same_name",
]
