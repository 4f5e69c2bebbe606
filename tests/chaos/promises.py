"""What must hold whatever is killed, checked from outside."""

import gc
import threading
import time
from itertools import pairwise
from pathlib import Path

import kubernetes.client
import kubernetes.config
import pytest
import urllib3

PAUSE_S = 0.02

CLIENT_LEAVES_SOCKETS = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
"""For tests that kill servers under clients: a connection that is reset between its opening and its handshake is left
open by Python's own `ssl` module, which raises without closing it (`SSLSocket._create`)."""


class Writer:
    """Writes all the time, and remembers what was acknowledged: none of that may be lost.

    A write without an answer may or may not have happened, and is tried again under another name.
    """

    def __init__(self, kubeconfig: Path, prefix: str = "written") -> None:
        self.acknowledged: list[str] = []
        self.failures = 0
        self._kubeconfig = kubeconfig
        self._prefix = prefix
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        gc.collect()  # What Python has left open is found here, and no other test is blamed for it.

    def _write(self) -> None:
        config = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
            str(self._kubeconfig), client_configuration=config
        )
        config.retries = False
        number = 0
        with kubernetes.client.ApiClient(config) as client:
            api = kubernetes.client.CoreV1Api(client)
            while not self._is_over.is_set():
                name = f"{self._prefix}-{number}"
                number += 1
                written = kubernetes.client.V1ConfigMap(metadata=kubernetes.client.V1ObjectMeta(name=name))
                try:
                    api.create_namespaced_config_map("default", written, _request_timeout=5)
                except (urllib3.exceptions.HTTPError, kubernetes.client.ApiException, OSError):
                    self.failures += 1
                else:
                    self.acknowledged.append(name)
                time.sleep(PAUSE_S)
            client.rest_client.pool_manager.clear()  # The client itself leaves its connections open.


def lost(writer: Writer, present: set[str]) -> list[str]:
    """What was acknowledged and is not there."""
    return [name for name in writer.acknowledged if name not in present]


def gaps(lines: list[str], identity: str) -> list[str]:
    """Where the numbers that an exclusive workload counts are not one after the other. A new start begins with 0."""
    numbers = [int(line.split()[1]) for line in lines if line.startswith(f"{identity} ")]
    return [f"{a} then {b}" for a, b in pairwise(numbers) if b not in (a + 1, 0)]
