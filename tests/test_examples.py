"""The examples do what they say: in virtual time, and as a newcomer runs them."""

import importlib.util
import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from mainstay.api.kind_names import DEFINITIONS
from mainstay.api.object_key import ObjectKey
from mainstay.env import tasks
from mainstay.loop import Component
from mainstay.loop.view import View
from tests.client.world import a_client, a_world
from tests.clients.server_process import ServerProcess
from tests.processes import eventually
from tests.requirements import needs

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent / "examples"
LINES_MAX = 60


def example(name: str) -> ModuleType:
    """The module of an example, whose name begins with a number and cannot be imported."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def website() -> ModuleType:
    return example("01_website")


def a_website(name: str = "blog", image: str = "blog:1", replicas: int = 2) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"image": image, "replicas": replicas}}


def test_a_controller_is_small():
    assert len((EXAMPLES / "01_website.py").read_text().splitlines()) <= LINES_MAX


def test_its_decision_is_a_plain_function(website):
    from datetime import UTC, datetime

    from mainstay.client.indexes import OWNER

    kinds = {website.WEBSITES: [a_website()], website.DEPLOYMENTS: []}
    view = View.of(kinds, datetime(2026, 1, 1, tzinfo=UTC), indexes={website.DEPLOYMENTS: [OWNER]})
    decision = website.Websites().decide(view, ObjectKey("default", "blog"), None)
    assert decision.actions[0].object["spec"]["template"]["spec"]["containers"] == [{"name": "web", "image": "blog:1"}]
    assert [(each.type, each.status, each.reason) for each in decision.conditions] == [("Online", "False", "NotReady")]


async def test_a_website_gets_its_deployment_and_says_when_it_is_online(sim, website):
    async with a_world(sim) as world, a_client(sim, name="websites") as client:
        await world.client.create(DEFINITIONS, yaml.safe_load((EXAMPLES / "01_website.yaml").read_text()))
        await tasks.sleep(timedelta(seconds=1))
        component = Component("websites", [website.Websites()], client, sim.env("websites"))
        running = tasks.spawn(component.run(), name="websites")
        await world.client.create(website.WEBSITES, a_website())
        await tasks.sleep(timedelta(seconds=20))
        deployment = await world.client.get(website.DEPLOYMENTS, "blog", "default")
        assert (deployment["spec"]["replicas"], deployment["metadata"]["ownerReferences"][0]["name"]) == (2, "blog")

        await world.client.patch(
            website.DEPLOYMENTS,
            "blog",
            "default",
            {"status": {"readyReplicas": 2, "replicas": 2}},
            subresource="status",
        )
        await tasks.sleep(timedelta(seconds=5))
        (online,) = (await world.client.get(website.WEBSITES, "blog", "default"))["status"]["conditions"]
        assert (online["type"], online["status"], online["message"], online["observedGeneration"]) == (
            "Online",
            "True",
            "2 replicas are ready",
            1,
        )

        await world.client.patch(website.WEBSITES, "blog", "default", {"spec": {"image": "blog:2"}})
        await tasks.sleep(timedelta(seconds=5))
        deployment = await world.client.get(website.DEPLOYMENTS, "blog", "default")
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "blog:2"
        await tasks.stop(running)


@needs("kubectl")
def test_it_runs_as_a_process_against_a_real_server():
    with ServerProcess() as server:

        def kubectl(*arguments: str, **more: Any) -> Any:
            command = ["kubectl", *arguments]
            return subprocess.run(
                command, env=server.environment, check=True, capture_output=True, text=True, **more
            ).stdout

        kubectl("apply", "-f", str(EXAMPLES / "01_website.yaml"))
        kubectl("wait", "--for=condition=Established", "crd/websites.example.com", "--timeout=20s")
        environment = {**server.environment, "PYTHONPATH": str(EXAMPLES.parent)}
        command = [sys.executable, str(EXAMPLES / "01_website.py")]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            try:
                body = {"apiVersion": "example.com/v1", "kind": "Website", **a_website(replicas=1)}
                kubectl("create", "-f", "-", input=json.dumps(body))

                def made() -> str:
                    found = subprocess.run(
                        [
                            "kubectl",
                            "get",
                            "deployment",
                            "blog",
                            "-o",
                            "jsonpath={.spec.template.spec.containers[0].image}",
                        ],
                        env=server.environment,
                        check=False,
                        capture_output=True,
                        text=True,
                    )
                    return found.stdout

                assert eventually(made) == "blog:1"
                kubectl("wait", "--for=condition=Online=false", "website/blog", "--timeout=20s")
                assert kubectl("get", "websites").split()[-5:] == ["False", "0", "replicas", "are", "ready"]
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(20) == 0, process.stderr.read() if process.stderr else ""
