"""Six signals about one workload are joined by their ids alone, on real processes.

A Deployment is applied, and its pods cannot be placed because of a taint. Then the same story is found in the audit
log, in decisions, in Events, in conditions, in traces, in the log of the scheduler and in its metrics, each time by an
id that another signal gave.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mainstay.journal.trace_id import derive_trace_id
from tests.chaos.cluster import COMMAND_LIMIT_S
from tests.processes import eventually
from tests.server.decisions.test_otlp import a_collector

pytestmark = pytest.mark.slow

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: risk-api, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: risk-api}}
  template:
    metadata: {labels: {app: risk-api}}
    spec: {containers: [{name: main, image: risk-api:1}]}
"""


@contextmanager
def a_process(log: Path, *arguments: str) -> Iterator[str]:
    """A component, and the first line it says when it runs."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "mainstay.cli.main", *arguments], stdout=subprocess.PIPE, stderr=said, text=True
        )
        hung = threading.Timer(COMMAND_LIMIT_S, process.kill)
        hung.start()
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.terminate()
            process.wait(COMMAND_LIMIT_S)
            hung.cancel()
            process.stdout.close()


def lines_of(path: Path) -> list[Any]:
    """Those that are whole."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def metrics_of(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
        return connection.getresponse().read().decode()
    finally:
        connection.close()


@pytest.fixture
def free_port() -> int:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def test_the_six_signals_of_a_workload_are_joined_by_ids_alone(tmp_path: Path, free_port: int):
    data, audit, log = tmp_path / "data", tmp_path / "audit.log", tmp_path / "scheduler.log"
    kubeconfig = str(data / "kubeconfig")

    def kubectl(*words: str, given: str = "") -> str:
        environment = {**os.environ, "KUBECONFIG": kubeconfig, "HOME": str(tmp_path)}
        done = subprocess.run(
            ["kubectl", *words], input=given, env=environment, capture_output=True, text=True, timeout=COMMAND_LIMIT_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(*words: str) -> Any:
        return json.loads(kubectl("get", *words, "-o", "json"))

    with ExitStack() as stack:
        address, spans = stack.enter_context(a_collector())
        server = ("server", f"--data-dir={data}", "--listen=127.0.0.1:0", f"--audit-log={audit}")
        ready = stack.enter_context(a_process(tmp_path / "server.log", *server, f"--otlp-endpoint={address}"))
        assert "is ready" in ready, (tmp_path / "server.log").read_text()
        common = (f"--kubeconfig={kubeconfig}", "--log-format=json", "-v")
        scheduler = ("scheduler", *common, "--share", f"--metrics=127.0.0.1:{free_port}", f"--data-dir={tmp_path}/s")
        stack.enter_context(a_process(log, *scheduler))
        stack.enter_context(a_process(tmp_path / "controllers.log", "controllers", *common, f"--data-dir={tmp_path}/c"))
        nodes = ("agent", "--runner=pretend", "--name=node-a", "--taints=dedicated=batch:NoSchedule")
        stack.enter_context(a_process(tmp_path / "agent.log", *nodes, *common[:1], f"--data-dir={tmp_path}/a"))

        eventually(lambda: get("nodes")["items"])
        kubectl("apply", "-f", "-", given=DEPLOYMENT)
        deployment = get("deployment", "risk-api")

        # 1. A condition, on the pod, of its own generation.
        def unschedulable() -> Any:
            for pod in get("pods", "-l", "app=risk-api")["items"]:
                for condition in pod["status"].get("conditions") or ():
                    if condition["type"] == "PodScheduled" and condition["reason"] == "Unschedulable":
                        return pod, condition
            return None

        pod, condition = eventually(unschedulable)
        uid = pod["metadata"]["uid"]
        assert "dedicated" in condition["message"]

        # 2. An Event about that uid gives the decision and its trace.
        def failed() -> Any:
            about = f"involvedObject.uid={uid},reason=FailedScheduling"
            return get("events", "--field-selector", about)["items"]

        annotations = eventually(failed)[0]["metadata"]["annotations"]
        decision, trace = annotations["mainstay.dev/decision"], annotations["mainstay.dev/trace"]
        assert trace == derive_trace_id(decision)

        # 3. By the decision's id: its record, with the same object, reason and words.
        record = eventually(lambda: get("decisions", "--field-selector", f"metadata.name={decision}")["items"])[0]
        assert record["subject"]["uid"] == uid
        assert (record["reason"], record["message"]) == (condition["reason"], condition["message"])
        assert record["traceID"] == trace

        # 4. By the decision's id: the line of the audit log in which the condition was written.
        def written() -> Any:
            return [
                line
                for line in lines_of(audit)
                if (line.get("annotations") or {}).get("mainstay.dev/decision") == decision
                and (line.get("objectRef") or {}).get("uid") == uid
            ]

        line = eventually(written)[0]
        assert line["annotations"]["mainstay.dev/trace"] == trace
        assert line["objectRef"]["subresource"] == "status"

        # 5. By the trace id: the decision's span, and in it the write that the audit id names.
        def traced() -> Any:
            found = [span for span in spans if span.trace_id.hex() == trace]
            return found if len(found) > 1 else None

        told = [{each.key: each.value.string_value for each in span.attributes} for span in eventually(traced)]
        assert decision in [each["mainstay.decision.id"] for each in told if "mainstay.component" in each]
        assert line["auditID"] in [each.get("mainstay.audit.id") for each in told]

        # 6. By the decision's id: a line of the scheduler's log, and an example behind a figure.
        def logged() -> Any:
            return [each for each in lines_of(log) if each.get("decision") == decision]

        said = eventually(logged)[0]
        assert (said["uid"], said["trace"], said["reason"]) == (uid, trace, "Unschedulable")
        shown = metrics_of(free_port)
        examples = [each for each in shown.splitlines() if "decision_id=" in each and 'result="unschedulable"' in each]
        assert examples, shown
        assert 'controller_cache_lag_seconds{component="scheduler",resource="pods"}' in shown

        # And back to where it began: who asked for the Deployment, and which generation of it was acted on.
        applied = [
            line
            for line in lines_of(audit)
            if (line.get("objectRef") or {}).get("uid") == deployment["metadata"]["uid"] and line["verb"] == "create"
        ]
        assert applied[0]["userAgent"].startswith("kubectl")
        owner = get(
            "decisions", "--field-selector", f"subject.uid={deployment['metadata']['uid']},component=deployment"
        )
        assert {each["subject"]["generation"] for each in owner["items"]} == {deployment["metadata"]["generation"]}
        acted = [each for each in owner["items"] if each.get("writes")]
        lines = {line["auditID"]: line.get("annotations") or {} for line in lines_of(audit)}
        assert acted
        for each in acted:
            ids = [lines[audit_id]["mainstay.dev/decision"] for audit_id in each["auditIDs"]]
            assert set(ids) == {each["metadata"]["name"]}
