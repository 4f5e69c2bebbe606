"""Something is made for each order under a name that the server makes up, and the answer is lost.

A client that retries cannot know the name of what may exist. The operation id is the same each time, also after a
crash, so the server does it once and says each time what came of it. (kubernetes #32220, #89471)
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, SECRETS
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.count import Count
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

ORDERS: Final = CONFIG_MAPS
DELIVERIES: Final = SECRETS
LOOK_EVERY: Final = timedelta(seconds=1)


class OneDelivery(UserStage):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_program("clerk", self._clerk)
        self._made = 0

    async def turn(self, client: Client) -> None:
        self._made += 1
        await client.create(ORDERS, {"metadata": {"name": f"order-{self._made}", "namespace": NAMESPACE}})

    async def check(self) -> None:
        for entry in (await self.world.store.range(f"core/configmaps/{NAMESPACE}/")).entries:
            if b'"delivered":' not in entry.value:
                raise Violated("one delivery", f"no client created {entry.key}")

    async def _clerk(self, env: Env) -> None:
        async with self.world.client_for("clerk", env) as client:
            while True:
                await tasks.sleep(LOOK_EVERY)
                try:
                    for order in (await client.list(ORDERS, NAMESPACE)).items:
                        if not order.get("data"):
                            await self._deliver(client, order)
                except ApiError:
                    pass  # Whether it has happened is found out by doing it again.

    async def _deliver(self, client: Client, order: Object) -> None:
        name = order["metadata"]["name"]
        wanted = {"metadata": {"generateName": "delivery-", "labels": {"order": name}}}
        write = WriteOptions(operation=f"deliver.{order['metadata']['uid']}")
        made = await client.create(DELIVERIES, wanted, NAMESPACE, write=write)
        await client.patch(ORDERS, name, NAMESPACE, {"data": {"delivered": made["metadata"]["name"]}})


def one_for_each_order() -> Count:
    def wants(order: Object) -> Mapping[str, int]:
        return {order["metadata"]["name"]: 1}

    def belongs_to(delivery: Object) -> Iterable[str]:
        return [delivery["metadata"]["labels"]["order"]]

    return Count(f"core/configmaps/{NAMESPACE}/", f"core/secrets/{NAMESPACE}/", wants, belongs_to)


SCENARIO: Final = Scenario(
    name="one-delivery",
    about="Creates with generated names are retried until they are answered: each happens once.",
    make=OneDelivery,
    checkers=lambda: [AcknowledgedWrites(), one_for_each_order()],
    silence=SILENCE,
    ids=("32", "F8"),
)
