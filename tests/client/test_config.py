"""Whom a client asks, and as whom."""

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.config import (
    BadConfig,
    ClientTls,
    Config,
    ServerAddress,
    from_kubeconfig,
    from_kubeconfig_file,
    in_cluster,
    parse_address,
)
from mainstay.client.credentials import Credentials
from mainstay.client.errors import Unauthorized
from mainstay.client.tls import tls_context
from mainstay.env import tasks
from tests.client.world import a_scripted_server, an_answer, seconds
from tests.server.world import PORT


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def a_kubeconfig(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **context: Any) -> str:
    """JSON is YAML as well."""
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [
                {"name": "other", "context": {}},
                {"name": "c", "context": {"cluster": "k", "user": "u", **context}},
            ],
            "clusters": [{"name": "k", "cluster": {"server": "https://host:6443", **(cluster or {})}}],
            "users": [{"name": "u", "user": user or {}}],
        }
    )


def test_what_is_given_in_the_file_itself(tmp_path):
    text = a_kubeconfig(
        {"certificate-authority-data": encoded("CA"), "tls-server-name": "inner"},
        {"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY"), "token": "t"},
        namespace="mine",
    )

    config = from_kubeconfig(text, tmp_path)

    tls = ClientTls(authorities="CA", certificate="CERT", key="KEY", server_name="inner")
    assert config == Config(("https://host:6443",), tls, token="t", namespace="mine")


def test_what_is_given_in_other_files(tmp_path):
    for name in ("ca", "cert", "key", "token"):
        (tmp_path / name).write_text(name.upper())
    cluster = {"certificate-authority": "ca"}
    user = {"client-certificate": "cert", "client-key": str(tmp_path / "key"), "tokenFile": "token"}

    (tmp_path / "config").write_text(a_kubeconfig(cluster, user))
    config = from_kubeconfig_file(tmp_path / "config")

    tls = ClientTls(authorities="CA", certificate="CERT", key="KEY")
    assert config == Config(("https://host:6443",), tls, token_file=tmp_path / "token")


def test_what_is_in_the_file_goes_before_what_is_in_another(tmp_path):
    cluster = {"certificate-authority": "/nowhere", "certificate-authority-data": encoded("CA")}

    assert from_kubeconfig(a_kubeconfig(cluster), tmp_path).tls.authorities == "CA"


def test_a_server_that_is_not_verified(tmp_path):
    tls = from_kubeconfig(a_kubeconfig({"insecure-skip-tls-verify": True}), tmp_path).tls

    context = tls_context(tls)
    assert (tls.is_verified, context.check_hostname, context.verify_mode) == (False, False, 0)


def test_yaml_as_people_write_it_and_another_context(tmp_path):
    text = """
apiVersion: v1
kind: Config
clusters:
- name: a
  cluster: {server: "http://a:8080/prefix/"}
contexts:
- {name: x, context: {cluster: a}}
users: []
"""
    config = from_kubeconfig(text, tmp_path, context="x")

    assert config == Config(("http://a:8080/prefix/",))
    assert config.addresses == (ServerAddress("a", 8080, False, "/prefix"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "YAML"),
        ("[]", "mapping"),
        ("{}", "current-context"),
        ('{"current-context": "c"}', "context 'c' not found"),
        (a_kubeconfig(cluster={"server": ""}), "server is missing"),
        (a_kubeconfig(cluster={"server": "host:6443"}), "must have the form"),
        (a_kubeconfig(cluster={"server": 5}), "not text"),
        (a_kubeconfig(cluster={"proxy-url": "http://p"}), "proxy-url is not supported"),
        (a_kubeconfig(cluster={"insecure-skip-tls-verify": "yes"}), "neither true nor false"),
        (a_kubeconfig(cluster={"certificate-authority": "/no/such/file"}), "cannot be read"),
        (a_kubeconfig(cluster={"certificate-authority-data": "!"}), "not base64"),
        (a_kubeconfig(user={"exec": {"command": "aws"}}), "exec is not supported"),
        (a_kubeconfig(user={"auth-provider": {"name": "gcp"}}), "auth-provider"),
        (a_kubeconfig(user={"username": "u", "password": "p"}), "username"),
        (a_kubeconfig(user={"token": "t", "as": "root"}), "'u': as is not supported"),
        (a_kubeconfig(user={"client-certificate-data": encoded("C")}), "must be given together"),
        (a_kubeconfig(cluster=None, user=None).replace('"user": "u"', '"user": "w"'), "user 'w' not found"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(tmp_path, text, words):
    with pytest.raises(BadConfig, match=words):
        from_kubeconfig(text, tmp_path)


@pytest.mark.parametrize(
    "url", ["", "ftp://h", "https://", "https://u:p@h", "https://h:x", "https://h?q=1", "https://h/ä"]
)
def test_addresses_that_are_none(url):
    with pytest.raises(BadConfig):
        parse_address(url)


def test_how_a_server_is_named_in_a_request():
    urls = ("http://h", "https://h", "http://h:443", "https://[::1]:6443/p", "https://10.0.0.1:443")

    assert [parse_address(url).authority for url in urls] == ["h", "h", "h:443", "[::1]:6443", "10.0.0.1"]


def test_there_must_be_a_server():
    with pytest.raises(BadConfig, match="no server"):
        Config(())


def test_secrets_are_not_shown():
    config = Config(("https://h",), ClientTls(certificate="SECRET", key="SECRET"), token="SECRET")

    assert "SECRET" not in repr(config)


def test_certificates_that_are_none_are_refused():
    for tls in (ClientTls(authorities="nonsense"), ClientTls(certificate="nonsense", key="nonsense")):
        with pytest.raises(BadConfig):
            tls_context(tls)


# In a pod.


def a_service_account(directory: Path, **more: str) -> Path:
    for name, text in ({"token": "t1\n", "ca.crt": "CA", "namespace": "mine\n"} | more).items():
        (directory / name).write_text(text)
    return directory


def test_a_program_in_a_pod_finds_its_server(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    config = in_cluster(environ, a_service_account(tmp_path))

    expected = Config(
        ("https://10.0.0.1:443",), ClientTls(authorities="CA"), token_file=tmp_path / "token", namespace="mine"
    )
    assert config == expected
    assert in_cluster({**environ, "KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).servers == ("https://[fd00::1]:443",)


def test_a_program_anywhere_else_is_told_so(tmp_path):
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}

    with pytest.raises(BadConfig, match="does not run in a pod"):
        in_cluster({}, tmp_path)
    with pytest.raises(BadConfig, match="token"):
        in_cluster(environ, tmp_path)


# Tokens that are renewed.


def token_config(path: Path) -> Config:
    return Config((f"http://server:{PORT}",), token_file=path)


async def test_a_token_file_is_read_again_after_a_while(sim, tmp_path):
    path = tmp_path / "token"
    path.write_text("one\n")
    credentials = Credentials(token_config(path), sim.clock)
    assert credentials.header() == b"Authorization: Bearer one\r\n"
    path.write_text("two\n")
    assert credentials.header() == b"Authorization: Bearer one\r\n"

    await tasks.sleep(seconds(61))

    assert credentials.header() == b"Authorization: Bearer two\r\n"
    os.unlink(path)
    await tasks.sleep(seconds(61))
    assert credentials.header() == b"Authorization: Bearer two\r\n"  # Better an old one than none.


async def test_a_token_that_is_refused_is_read_again_at_once(sim, tmp_path):
    path = tmp_path / "token"
    path.write_text("old")

    def answer(data: bytes, transport: Any) -> None:
        path.write_text("new")
        is_new = b"Bearer new\r\n" in data
        transport.write(an_answer("200 OK", b'{"kind":"Pod"}') if is_new else an_answer("401 Unauthorized", b"{}"))

    async with a_scripted_server(sim, answer), Client(token_config(path), sim.env("client")) as client:
        await client.create(PODS, {"metadata": {"name": "one"}}, "default")

        assert client.counts.repeats == 1


async def test_a_token_that_is_refused_and_not_renewed_is_not_tried_again(sim, tmp_path):
    path = tmp_path / "token"
    path.write_text("old")
    answer = an_answer("401 Unauthorized", b"{}")
    server = a_scripted_server(sim, lambda _, transport: transport.write(answer))
    async with server, Client(token_config(path), sim.env("client")) as client:
        with pytest.raises(Unauthorized):
            await client.list(PODS)
        assert client.counts.repeats == 0


async def test_without_its_token_file_a_client_cannot_say_who_it_is(sim, tmp_path):
    async with Client(token_config(tmp_path / "token"), sim.env("client")) as client:
        with pytest.raises(Unauthorized, match="token file"):
            await client.list(PODS)


@pytest.mark.parametrize("token", ["a b", "a\r\nX: y", "ä"])
def test_a_token_that_would_change_the_request_is_refused(sim, token):
    with pytest.raises(BadConfig, match="token"):
        Client(Config(("http://server",), token=token), sim.env("client"))
