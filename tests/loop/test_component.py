"""Controllers that run together, one process of several acting at a time."""

from datetime import timedelta

from mainstay.api.kind_names import COMPONENT_STATES, CONFIG_MAPS, DEPLOYMENTS
from mainstay.env import tasks
from mainstay.loop.component import Component
from mainstay.loop.metrics import ComponentMetrics
from tests.client.world import a_client, a_world
from tests.loop.copying import Copying
from tests.server.world import a_deployment


async def test_one_of_two_acts_and_the_other_takes_over_with_filled_caches(sim):
    async with a_world(sim) as world, a_client(sim, name="one") as first, a_client(sim, name="two") as second:
        one = Component("copying", [Copying()], first, sim.env("one"), instance="copying.one")
        two = Component("copying", [Copying()], second, sim.env("two"), instance="copying.two")
        running = {each.instance: tasks.spawn(each.run(), name=each.instance) for each in (one, two)}
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        await tasks.sleep(timedelta(seconds=30))
        leading = one if one.term is not None else two
        standing_by = two if leading is one else one
        assert (leading.term is not None, standing_by.term) == (True, None)
        assert (await world.client.get(CONFIG_MAPS, "web-copy", "default"))["data"] == {"replicas": "1"}
        assert standing_by.informers.all()[0].cache.keys() == (("default", "web"),)

        await tasks.stop(running.pop(leading.instance))
        await world.client.create(DEPLOYMENTS, a_deployment("shop", 2), "default")
        await tasks.sleep(timedelta(seconds=30))
        assert standing_by.term is not None
        assert (await world.client.get(CONFIG_MAPS, "shop-copy", "default"))["data"] == {"replicas": "2"}
        await tasks.stop(running.pop(standing_by.instance))


async def test_a_component_says_how_far_it_has_come_and_under_which_term(sim):
    async with a_world(sim) as world:
        component = Component("copying", [Copying()], world.client, sim.env("one"))
        running = tasks.spawn(component.run(), name="one")
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        await tasks.sleep(timedelta(seconds=60))
        deployment = await world.client.get(DEPLOYMENTS, "web", "default")

        state = await world.client.get(COMPONENT_STATES, "copying")
        status = state["status"]
        assert status["revisions"]["deployments.apps"] >= int(deployment["metadata"]["resourceVersion"])
        assert status["revisions"].keys() == {"deployments.apps", "configmaps", "holds.mainstay.dev"}
        assert component.term is not None
        assert status["term"] == component.term.text
        await tasks.stop(running)


async def test_what_a_component_counts_can_be_read_as_metrics(sim):
    async with a_world(sim) as world:
        component = Component("copying", [Copying()], world.client, sim.env("one"))
        running = tasks.spawn(component.run(), name="one")
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        await tasks.sleep(timedelta(seconds=30))
        lines = ComponentMetrics(component).render().decode().splitlines()
        figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert figures['workqueue_depth{name="copying"}'] == "0.0"
        assert float(figures['workqueue_adds_total{name="copying"}']) >= 2
        assert float(figures['workqueue_queue_duration_seconds_count{name="copying"}']) >= 2
        assert figures['mainstay_cache_objects{kind="deployments.apps"}'] == "1.0"
        assert float(figures['mainstay_controller_actions_total{controller="copying"}']) >= 2
        assert figures['leader_election_master_status{name="copying"}'] == "1.0"
        assert figures['mainstay_client_breaker{server="http://server:6443"}'] == "0.0"
        await tasks.stop(running)
