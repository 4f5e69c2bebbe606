"""Renews the credential of an agent well before it expires, while the agent runs.

At about four fifths of its lifetime, not all nodes of a fleet at the same moment, the agent makes a new key, asks for a
certificate with the one that it has, stores both, and shows them on new connections. Connections that are open stay:
the old certificate is good until it expires. Until it succeeds it tries again, ever less often.

The certificate with which the agent serves logs and commands is not renewed here: it is self-signed, and API servers
know it by its digest in the Node (http/certificates.py).
"""

import logging
from datetime import datetime, timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from mainstay.agent.credential_file import NodeCredential, read_credential, render_key, write_credential
from mainstay.agent.join import CannotJoin, request_certificate
from mainstay.api.retry_shape import RetryShape
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Env, tasks
from mainstay.http.certificates import BACKDATED

LOOKED_AT_EVERY: Final = timedelta(hours=1)  # By the wall clock, which may jump.
RENEWED_AT: Final = 0.75
RENEWED_WITHIN: Final = 0.1
"""Of the lifetime: begin between 75 and 85 percent."""
RETRY: Final = RetryShape(
    attempts_max=20, first_delay=timedelta(seconds=10), delay_max=timedelta(minutes=10), jitter=0.5
)

_log = logging.getLogger(__name__)


def find_renewal(not_before: datetime, not_after: datetime, chance: float) -> datetime:
    """When to renew a certificate. `chance` is between 0 and 1."""
    issued = not_before + BACKDATED
    if issued >= not_after:
        issued = not_before
    return issued + (not_after - issued) * (RENEWED_AT + RENEWED_WITHIN * chance)


class CredentialRotation:
    def __init__(self, client: Client, env: Env, credential: NodeCredential) -> None:
        self._client = client
        self._env = env
        self._credential = credential
        self._jitter = env.chance.stream("credential rotation", credential.node)

    async def run(self) -> None:
        """Keep it fresh, until cancelled."""
        failures = 0
        while True:
            due = find_renewal(self._credential.not_before, self._credential.not_after, self._jitter.random())
            while (left := due - self._env.clock.wall()) > timedelta(0):
                await tasks.sleep(min(left, LOOKED_AT_EVERY))
            try:
                await self._renew()
                failures = 0
            except (ApiError, CannotJoin, OSError) as error:
                failures += 1
                delay = RETRY.delay(min(failures, RETRY.attempts_max), self._jitter.random())
                until = self._credential.not_after
                _log.warning("cannot renew the credential of this node, good until %s; retrying: %s", until, error)
                await tasks.sleep(delay)

    async def _renew(self) -> None:
        credential, tls = self._credential, self._credential.config.tls
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = await request_certificate(self._client, credential.node, key, _log.warning)
        worker = tasks.Worker("credential")
        try:
            server = credential.config.servers[0]
            given = (self._env.disk, server, tls.authorities, certificate, render_key(key))
            await worker.run(write_credential, *given)
            renewed = await worker.run(read_credential, self._env.disk)
        finally:
            worker.close()
        if renewed is None:
            raise AssertionError("a credential that was written is there")
        self._credential = renewed
        self._client.show_certificate(renewed.config.tls)
        _log.info("the credential of this node was renewed, and is good until %s", renewed.not_after)
