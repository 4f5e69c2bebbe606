"""The client over real sockets and TLS, against `mainstay server` as a process of its own."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, NAMESPACES
from mainstay.client.client import Client
from mainstay.client.config import ClientTls, Config, from_kubeconfig_file
from mainstay.client.errors import Unauthorized, Unavailable
from mainstay.client.watch import WatchEvent
from mainstay.env import Chance, Env, SystemClock, SystemDisk
from mainstay.server.storage.namespace_contents import ROOT_CA
from tests.clients.server_process import ServerProcess, shared_server, unique_name
from tests.server.world import a_configmap

pytestmark = pytest.mark.slow


def a_real_client(config: Config, tmp_path: Path) -> Client:
    return Client(config, Env(SystemClock(), Chance.fresh(), SystemDisk(tmp_path)), user_agent="test/1")


@pytest.mark.real_loop
async def test_the_kubeconfig_that_a_server_writes_is_all_that_is_needed(tmp_path):
    config = from_kubeconfig_file(shared_server().kubeconfig)
    namespace = unique_name("client")
    async with a_real_client(config, tmp_path) as client:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        start = (await client.list(CONFIG_MAPS, namespace)).revision
        async with client.watch(CONFIG_MAPS, namespace, resource_version=start, bookmarks=False) as watch:
            made = await client.create(CONFIG_MAPS, a_configmap("one", k="x" * 500_000), namespace)
            assert await client.get(CONFIG_MAPS, "one", namespace) == made
            many = [client.create(CONFIG_MAPS, a_configmap(f"c{number}"), namespace) for number in range(100)]
            await asyncio.gather(*many)
            events: list[WatchEvent] = []
            while len(events) < 101:
                events += await watch.fetch()
        assert [event.type for event in events] == ["ADDED"] * 101
        assert await client.delete(CONFIG_MAPS, "one", namespace, uid=made["metadata"]["uid"])
        left = {each["metadata"]["name"] for each in (await client.list(CONFIG_MAPS, namespace)).items}
        assert left == {*(f"c{number}" for number in range(100)), ROOT_CA}
        assert client.counts.repeats == 0


@pytest.mark.real_loop
async def test_a_server_that_is_not_whom_it_should_be_is_not_talked_to(tmp_path):
    config = from_kubeconfig_file(shared_server().kubeconfig)
    wrong = {
        "another name": replace(config.tls, server_name="another.example"),
        "an unknown authority": ClientTls(certificate=config.tls.certificate, key=config.tls.key),
    }
    for tls in wrong.values():
        async with a_real_client(replace(config, tls=tls), tmp_path) as client:
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED") as refused:
                await client.create(NAMESPACES, {"metadata": {"name": "never"}})
            assert not refused.value.may_have_happened


@pytest.mark.real_loop
async def test_a_name_the_certificate_has_or_no_check_at_all_will_do(tmp_path):
    config = from_kubeconfig_file(shared_server().kubeconfig)
    for tls in (replace(config.tls, server_name="localhost"), replace(config.tls, authorities="", is_verified=False)):
        async with a_real_client(replace(config, tls=tls), tmp_path) as client:
            assert (await client.get(NAMESPACES, "default"))["kind"] == "Namespace"


@pytest.mark.real_loop
async def test_a_client_without_a_certificate_is_anonymous(tmp_path):
    config = from_kubeconfig_file(shared_server().kubeconfig)
    async with a_real_client(
        Config(config.servers, ClientTls(config.tls.authorities), token="wrong"), tmp_path
    ) as client:
        with pytest.raises(Unauthorized):
            await client.get(NAMESPACES, "default")


@pytest.mark.real_loop
async def test_a_server_that_was_killed_and_started_again_is_found_again(tmp_path):
    with ServerProcess() as server:
        async with a_real_client(from_kubeconfig_file(server.kubeconfig), tmp_path) as client:
            await client.create(CONFIG_MAPS, a_configmap("one"), "default")
            async with client.watch(CONFIG_MAPS, fields="metadata.name=one", bookmarks=False) as watch:
                assert (await anext(watch)).type == "ADDED"
                server.kill()
                with pytest.raises(Unavailable):
                    await anext(watch)
            server.start()

            assert (await client.get(CONFIG_MAPS, "one", "default"))["kind"] == "ConfigMap"
