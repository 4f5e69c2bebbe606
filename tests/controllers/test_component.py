"""All controllers in one process: which of them run, and under one term."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainstay.api.kind_names import NODES, PODS
from mainstay.controllers.component import Controllers, UnknownController, chosen
from mainstay.controllers.metrics import ControllersMetrics
from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.env import tasks
from mainstay.loop.kernel import Kernel, LoopContext, LoopSpec
from tests.client.world import a_world


def test_all_run_by_default():
    assert chosen() == (CONTROLLERS, LOOPS)


def test_some_can_be_chosen_and_others_left_out():
    def names(only: Sequence[str], without: Sequence[str] = ()) -> list[str]:
        controllers, loops = chosen(only, without)
        return [*(each.name for each in controllers), *(each.name for each in loops)]

    assert names(["replicaset"]) == ["replicaset"]
    assert "replicaset" not in names([], ["replicaset"])
    assert names(["replicaset", "deployment"], ["replicaset"]) == ["deployment"]


def test_none_of_a_name_is_said_with_those_that_there_are():
    with pytest.raises(UnknownController, match=r"unknown controller 'nonsense': use one of .*deployment"):
        chosen(["nonsense"])


def test_no_two_have_the_same_name():
    names = [*(each.name for each in CONTROLLERS), *(each.name for each in LOOPS)]

    assert len(set(names)) == len(names)


class Remembering:
    def __init__(self, context: LoopContext, seen: list[str]) -> None:
        self.kernel = Kernel("remembering", context)
        self._context = context
        self._seen = seen

    async def run(self) -> None:
        assert self._context.term is not None
        self._seen.append(self._context.term.text)
        await tasks.sleep(timedelta(days=1))


@pytest.mark.parametrize("controllers", [CONTROLLERS[:1], ()], ids=["beside a controller", "alone"])
async def test_a_loop_of_its_own_runs_under_the_term_of_the_controllers(sim, controllers):
    seen: list[str] = []
    loop = LoopSpec("remembering", lambda context: Remembering(context, seen))
    async with a_world(sim) as world:
        component = Controllers(world.client, sim.env("one"), controllers=controllers, loops=[loop])
        running = tasks.spawn(component.run(), name="one")
        await tasks.sleep(timedelta(seconds=30))

        assert component.term is not None
        assert seen == [component.term.text]
        assert [each.kernel.name for each in component.loops] == [*(each.name for each in controllers), "remembering"]
        await tasks.stop(running)


async def test_pods_are_counted_in_the_zone_and_region_of_their_node_while_a_process_leads(sim):
    async with a_world(sim) as world:
        labels = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "eu"}
        await world.client.create(NODES, {"metadata": {"name": "n1", "labels": labels}})
        container = {"name": "c", "image": "c"}
        for name, node in (("a", "n1"), ("b", "n1"), ("c", "")):
            spec = {"containers": [container]} | ({"nodeName": node} if node else {})
            await world.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        controllers, _ = chosen(["replicaset"])
        component = Controllers(world.client, sim.env("one"), controllers=controllers, loops=())
        assert component.pods_by_node is None
        running = tasks.spawn(component.run(), name="one")
        await tasks.sleep(timedelta(seconds=30))

        shown = ControllersMetrics(component).render().decode()
        assert 'mainstay_zone_pods{zone="z1"} 2.0' in shown
        assert 'mainstay_region_pods{region="eu"} 2.0' in shown

        await tasks.stop(running)
        assert component.pods_by_node is None
