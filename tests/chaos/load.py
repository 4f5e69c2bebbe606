"""A client of a Service that goes by its EndpointSlices alone, as proxies do, and counts what fails.

It follows the slices by watch and asks those endpoints that are ready, in turn, each time on a new connection. One
that is refused, cut off, late or answered with anything but 200 has failed; nothing is tried again.
"""

import http.client
import itertools
import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

import kubernetes.client
import kubernetes.config
import kubernetes.watch
import urllib3

from tests.processes import eventually

PAUSE_S = 0.01
PATIENCE_S = 5.0
CLIENTS = 2


class Load:
    """Requests without end, while it is entered, from when an endpoint is ready. If none is any more, it fails."""

    def __init__(self, kubeconfig: Path, service: str, namespace: str = "default") -> None:
        self.served = 0
        self.by_answer: Counter[str] = Counter()
        """How many answers came from each version (the last word of the answer)."""
        self.failures: list[str] = []
        self.fewest: int | None = None
        """How few endpoints were ready."""
        self._kubeconfig = kubeconfig
        self._service = service
        self._namespace = namespace
        self._slices: dict[str, list[tuple[str, int]]] = {}
        self._turn = itertools.count()
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._follow, name="follow", daemon=True)]
        self._threads += [threading.Thread(target=self._ask, name=f"ask {number}") for number in range(CLIENTS)]

    def __enter__(self) -> "Load":
        follows, *clients = self._threads
        follows.start()
        eventually(lambda: self.endpoints)
        for thread in clients:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads[1:]:
            thread.join()

    @property
    def endpoints(self) -> list[tuple[str, int]]:
        """Those that are ready, as the last changes say."""
        return sorted(itertools.chain.from_iterable(list(self._slices.values())))

    def said(self) -> str:
        return (
            f"{self.served} requests served ({dict(self.by_answer)}), {len(self.failures)} failed {self.failures[:5]}"
        )

    # Following.

    def _follow(self) -> None:
        config = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]
            str(self._kubeconfig), client_configuration=config
        )
        with kubernetes.client.ApiClient(config) as client:
            api = kubernetes.client.DiscoveryV1Api(client)
            while not self._is_over.is_set():
                try:
                    self._watch(api)
                except (urllib3.exceptions.HTTPError, kubernetes.client.ApiException, OSError):
                    time.sleep(0.1)
            client.rest_client.pool_manager.clear()  # The client itself leaves its connections open.

    def _watch(self, api: Any) -> None:
        selector = f"kubernetes.io/service-name={self._service}"
        watch = kubernetes.watch.Watch()  # type: ignore[no-untyped-call]
        listed = api.list_namespaced_endpoint_slice(self._namespace, label_selector=selector)
        self._slices = {each.metadata.name: _ready_in(each) for each in listed.items}
        for change in watch.stream(  # type: ignore[no-untyped-call]
            api.list_namespaced_endpoint_slice,
            self._namespace,
            label_selector=selector,
            resource_version=listed.metadata.resource_version,
            timeout_seconds=300,
        ):
            if self._is_over.is_set():
                return
            piece = change["object"]
            if change["type"] == "DELETED":
                self._slices.pop(piece.metadata.name, None)
            elif change["type"] != "BOOKMARK":
                self._slices[piece.metadata.name] = _ready_in(piece)

    # Asking.

    def _ask(self) -> None:
        while not self._is_over.is_set():
            ready = self.endpoints
            with self._lock:
                self.fewest = len(ready) if self.fewest is None else min(self.fewest, len(ready))
            if ready:
                host, port = ready[next(self._turn) % len(ready)]
                self._ask_one(host, port)
            else:
                with self._lock:
                    self.failures.append(f"no endpoint is ready at {time.time():.3f}")
            time.sleep(PAUSE_S)

    def _ask_one(self, host: str, port: int) -> None:
        began = time.time()
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            words = answer.read().decode().split()
            if answer.status != 200:
                raise http.client.HTTPException(f"status {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            with self._lock:
                self.failures.append(f"{host} at {began:.3f} for {time.time() - began:.3f} s: {error!r}")
        else:
            with self._lock:
                self.served += 1
                self.by_answer[words[-1]] += 1
        finally:
            connection.close()


def _ready_in(piece: Any) -> list[tuple[str, int]]:
    ports = [each.port for each in piece.ports or ()]
    return [
        (address, port)
        for endpoint in piece.endpoints or ()
        # Nothing said counts as ready.
        if endpoint.conditions is None or endpoint.conditions.ready is not False
        for address in endpoint.addresses
        for port in ports
    ]
