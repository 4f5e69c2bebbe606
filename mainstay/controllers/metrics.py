"""The numbers of the controllers' process: what every component has, and how pods get on."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from mainstay.api.kind_names import SERVICE_LEVEL_OBJECTIVES
from mainstay.api.objectives import get_objectives, read_burn
from mainstay.client.indexes import REGION, ZONE
from mainstay.controllers.component import Controllers
from mainstay.loop.metrics import ComponentMetrics
from mainstay.loop.objectives import WINDOWS


class ControllersMetrics(ComponentMetrics):
    """`render` gives all of it."""

    def __init__(self, controllers: Controllers) -> None:
        super().__init__(controllers)
        self._controllers = controllers

    def collect(self) -> Iterator[Metric]:
        stages = self._controllers.stages
        durations = HistogramMetricFamily(
            "mainstay_stage_duration_seconds", "Time that pods spent in a stage before the next one.", labels=("stage",)
        )
        for stage, histogram in stages.durations.items():
            durations.add_metric((stage,), histogram.cumulated(), histogram.total_s)
        yield durations
        burns = GaugeMetricFamily(
            "mainstay_slo_burn_ratio",
            "Burn rate of the error budget of an objective; at 1 it lasts exactly for its period.",
            labels=("objective", "window"),
        )
        for burn in stages.burns.values():
            for window, length in WINDOWS.items():
                burns.add_metric((burn.objective.name, window), burn.rate(length, stages.now_ns()))
        yield burns
        yield _collect_objectives(self._controllers)
        yield _collect_pods(self._controllers, "mainstay_zone_pods", ZONE.name)
        yield _collect_pods(self._controllers, "mainstay_region_pods", REGION.name)
        yield from super().collect()


def _collect_pods(controllers: Controllers, name: str, domain: str) -> Metric:
    """Of each zone or region that has nodes; nothing while this process does not lead."""
    pods = GaugeMetricFamily(name, f"Pods on the nodes of a {domain}, in any phase.", labels=(domain,))
    if controllers.pods_by_node is not None:
        for value, count in controllers.pods_by_node.count(domain).items():
            pods.add_metric((value,), count)
    return pods


def _collect_objectives(controllers: Controllers) -> Metric:
    """What the status of ServiceLevelObjectives says; nothing of what was not measured."""
    burns = GaugeMetricFamily(
        "mainstay_objective_burn_ratio",
        "Burn rate of the error budget of a ServiceLevelObjective; at 1 it lasts exactly for its period.",
        labels=("namespace", "name", "objective", "window"),
    )
    kinds = [each for each in controllers.informers.all() if each.collection.kind == SERVICE_LEVEL_OBJECTIVES]
    for informer in kinds:
        for entry in informer.cache.entries():
            for each in get_objectives(entry.object()):
                for window in WINDOWS:
                    if (rate := read_burn(each, window)) is not None:
                        burns.add_metric((*entry.key, str(each.get("type")), window), rate)
    return burns
