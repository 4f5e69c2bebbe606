"""An agent renews its credential before it expires, in virtual time, and shows it without a restart, for real."""

import json
from datetime import timedelta

import pytest

from mainstay.agent.credential_file import KEY_FILE, read_credential, render_key, write_credential
from mainstay.agent.credential_rotation import CredentialRotation
from mainstay.agent.join import request_certificate
from mainstay.api.system_users import build_node_user
from mainstay.client.client import Client
from mainstay.client.config import ClientTls, Config, from_kubeconfig_file
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.http.certificates import ensure_key
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import issue_client
from mainstay.server.auth.identities import build_node_user as build_user
from mainstay.sim.simulation import Simulation
from tests.clients.server_process import shared_server
from tests.server import world
from tests.server.auth.authority import CREDENTIALS, an_authority

SERVER = f"http://server:{world.PORT}"
LIFETIME = timedelta(hours=8)


async def test_a_credential_is_renewed_again_and_again_before_it_expires(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
):
    node = User(build_node_user("far"), ("system:nodes", "system:authenticated"))
    monkeypatch.setitem(world.TOKENS, "nodetoken", node)
    env = sim.env("client")
    async with world.a_server(sim, authority=an_authority(LIFETIME)) as admin:
        config = Config((SERVER,), token="nodetoken")
        async with Client(config, env) as client:
            key = ensure_key(env.disk, KEY_FILE)
            certificate = await request_certificate(client, "far", key, lambda _: None)
            write_credential(env.disk, SERVER, an_authority().authorities, certificate, render_key(key))
            first = read_credential(env.disk)
            assert first is not None
            rotating = tasks.spawn(CredentialRotation(client, env, first).run(), name="rotation")
            seen = {first.not_after}
            for _ in range(48):
                await tasks.sleep(timedelta(hours=1))
                found = read_credential(env.disk)
                assert found is not None
                assert found.not_after > env.clock.wall()
                seen.add(found.not_after)
            await tasks.stop(rotating)
        assert 6 <= len(seen) <= 9, "about every 80 percent of 8 hours, in two days"
        known = (await admin.get(f"{CREDENTIALS}/system:node:far"))["status"]["certificates"]
        assert len(known) <= 2, "what has expired is not kept"


@pytest.mark.slow
@pytest.mark.real_loop
async def test_another_certificate_is_shown_on_the_next_connection():
    server = shared_server()
    admin = from_kubeconfig_file(server.kubeconfig)
    disk = SystemDisk(server.data_dir)
    issued = [issue_client(disk, SystemClock(), build_user(name)) for name in ("one", "two")]
    shown = [ClientTls(admin.tls.authorities, each.certificate.decode(), each.key.decode()) for each in issued]
    env = Env(SystemClock(), Chance.fresh(), disk)

    async def ask(client: Client) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        answer = await client.request("POST", path, body=body)
        return str(json.loads(answer.body)["status"]["userInfo"]["username"])

    async with Client(Config(admin.servers, shown[0]), env) as client:
        assert await ask(client) == "system:node:one"
        client.show_certificate(shown[1])
        assert await ask(client) == "system:node:two"
