"""An autoscaler on real processes, used with the real kubectl: made, listed, described, in both versions."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.kubectl import DEPLOYMENT, Kubectl
from tests.clients.server_process import ServerProcess
from tests.clients.test_kubectl_rollout import component

pytestmark = pytest.mark.slow

CONTROLLERS = "deployment,replicaset,deployment-progress,replicaset-progress,horizontal-pod-autoscaler"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Kubectl]:
    nodes = ("--runner=pretend", "--count=1", "--name=node", "--start-delay=50ms", "--stop-delay=50ms")
    with ServerProcess() as server, ExitStack() as stack:
        stack.enter_context(component(server, "controllers", f"--only={CONTROLLERS}"))
        stack.enter_context(component(server, "scheduler"))
        stack.enter_context(component(server, "agent", *nodes))
        yield Kubectl(server, "default")


def test_an_autoscaler_is_made_by_kubectl_and_scales_its_target(cluster):
    kubectl = cluster
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)

    said = kubectl("autoscale", "deployment", "web", "--min=5", "--max=7", "--cpu-percent=50")
    kubectl("wait", "--for=condition=AbleToScale=true", "hpa/web", "--timeout=60s")
    kubectl("wait", "--for=jsonpath={.spec.replicas}=5", "deployment/web", "--timeout=60s")

    assert said.strip() == "horizontalpodautoscaler.autoscaling/web autoscaled"
    row = kubectl.table("get", "hpa")[0]
    assert (row["NAME"], row["REFERENCE"], row["MINPODS"], row["MAXPODS"]) == ("web", "Deployment/web", "5", "7")
    described = kubectl("describe", "hpa", "web")
    assert "New size: 5; reason: current number of replicas below spec.minReplicas" in described
    assert "SucceededRescale" in described
    old = kubectl.json("get", "horizontalpodautoscalers.v1.autoscaling", "web")
    assert old["spec"]["targetCPUUtilizationPercentage"] == 50
