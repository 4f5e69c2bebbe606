"""The `kubernetes` Python client, connected to a server, without what it leaves behind."""

# Its helpers say nothing about their types.
# mypy: disable-error-code="no-untyped-call"

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubernetes import client, config


@contextmanager
def python_client(kubeconfig: Path) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(kubeconfig)) as api:
        try:
            yield api
        finally:
            api.rest_client.pool_manager.clear()  # The client itself leaves its connections open.
    gc.collect()  # What is still open is found now, and no other test is blamed for it.
