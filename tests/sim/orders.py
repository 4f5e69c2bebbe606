"""A small situation of a user's own: orders come in, and one of them is to be shipped. With two bugs to plant.

Of some twenty writes in a run only one pair must not be torn apart, so chance needs many runs to do it.
"""

from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Action, Create, Decision, Patch
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

THINGS: Final = CONFIG_MAPS
CLERK: Final = "clerk"
SHIPPED: Final = 5  # Which of the orders is to be shipped.


class Shipping(Controller):
    """What is ordered is marked as done, after what is to be shipped was shipped."""

    name = "shipping"
    kind = THINGS

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        order = view.get(THINGS, key)
        if order is None or not key.name.startswith("order-") or order["data"]["state"] == "done":
            return Decision()
        done = Patch(
            THINGS, key, order["metadata"]["uid"], {"data": {"state": "done"}}, freshness=Freshness.MAY_BE_STALE
        )
        is_shipped = any(each["data"].get("order") == key.name for each in view.all(THINGS))
        if is_shipped or "ships" not in order["data"]:
            return Decision(actions=(done,))
        return Decision(actions=in_order(Create(THINGS, a_shipment(key.name, view)), done))


def in_order(ship: Action, done: Action) -> tuple[Action, ...]:
    return ship, done


def name_of(order: str, view: View) -> str:
    return f"shipment-of-{order}"


def a_shipment(order: str, view: View) -> Object:
    metadata = {"name": name_of(order, view), "namespace": NAMESPACE}
    return {"metadata": metadata, "data": {"order": order, "state": "done"}}


class Orders(UserStage):
    turn_every = timedelta(milliseconds=500)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.add_controller(Shipping(), CLERK)
        self._made = 0

    async def turn(self, client: Client) -> None:
        self._made += 1
        data = {"state": "new"} | ({"ships": "yes"} if self._made == SHIPPED else {})
        name = f"order-{self._made}"
        await client.create(THINGS, {"metadata": {"name": name, "namespace": NAMESPACE}, "data": data})

    async def check(self) -> None:
        page = await self.world.store.range(f"core/configmaps/{NAMESPACE}/")
        found = [msgspec.json.decode(entry.value)["data"] for entry in page.entries]
        shipped = sum("order" in data for data in found)
        wanted = sum("ships" in data for data in found)
        if shipped != wanted or any(data["state"] != "done" for data in found):
            raise Violated("orders", f"{wanted} to be shipped, {shipped} shipped, {found}")


ORDERS: Final = Scenario(
    name="orders",
    about="What is ordered is shipped, once.",
    make=Orders,
    checkers=list,
    lasts=timedelta(seconds=10),
    silence=SILENCE,
)


def marks_it_done_before_it_ships(patch: pytest.MonkeyPatch) -> None:
    """A crash between the two, and it is never shipped."""
    patch.setattr("tests.sim.orders.in_order", lambda ship, done: (done, ship))


def names_shipments_after_the_time(patch: pytest.MonkeyPatch) -> None:
    """Started on an old state, it does not see that it has shipped already, and nothing prevents a second one."""
    patch.setattr("tests.sim.orders.name_of", lambda order, view: f"shipment-of-{order}-{view.now:%H%M%S%f}")
