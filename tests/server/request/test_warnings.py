"""Warnings name fields that clients have chosen: whatever these are called, the answer arrives, and is not long."""

import json

import pytest

from mainstay.server.request.answers import WARNINGS_LENGTH_MAX, build_warning_headers
from tests.api.definitions import a_crd
from tests.server.world import CONFIGMAPS, a_configmap, a_server


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("a\r\nX: 1", r"a\\r\\nX: 1"),
        ("\0", r"\\x00"),
        ("\x85\u2028", r"\\u0085\\u2028"),
        ('quote"s', r"quote\\\"s"),
        ("back\\slash", r"back\\\\slash"),
        ("größe", "größe"),
    ],
)
async def test_an_unknown_field_is_escaped_and_the_write_is_answered_as_done(sim, field, shown):
    async with a_server(sim) as client:
        answer = await client.ask("POST", CONFIGMAPS, {**a_configmap("web"), field: 1})
        assert answer.status == 201
        assert answer.headers["Warning"] == f'299 - "unknown field \\"{shown}\\""'
        assert "X" not in answer.headers
        patched = await client.ask(
            "PATCH", f"{CONFIGMAPS}/web", {"metadata": {"labels": {"a": "b"}}, field: 1}, "application/merge-patch+json"
        )
        assert patched.status == 200
        assert patched.headers["Warning"] == f'299 - "unknown field \\"{shown}\\""'


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_a_hundred_thousand_unknown_fields_are_a_few_short_warnings(sim):
    async with a_server(sim) as client:
        body = {**a_configmap("web"), **{f"field-{number}": 1 for number in range(100_000)}}
        async with client.session.post(
            client.base + CONFIGMAPS,
            data=json.dumps(body),
            headers={"Authorization": "Bearer admintoken", "Content-Type": "application/json"},
        ) as answer:
            assert answer.status == 201
            assert len(answer.headers.getall("Warning")) == 100


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_unknown_fields_of_a_custom_kind_are_a_few_warnings_too(sim):
    crds, widgets = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.com/v1/widgets"
    async with a_server(sim) as client:
        await client.create(crds, a_crd("widgets", "Widget", scope="Cluster"))
        while (await client.ask("GET", widgets)).status != 200:
            pass  # It is not established yet.
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "web"}}
        answer = await client.ask("POST", widgets, {**body, **{f"field-{number}": 1 for number in range(5_000)}})
        assert answer.status == 201
        assert len(answer.warnings) == 100


def test_many_long_warnings_are_cut_and_the_last_ones_left_out():
    headers = build_warning_headers([f"{number} {'x' * 1000}" for number in range(50)])
    assert len(headers) == 16
    assert all(len(value) == len('299 - ""') + 256 for _, value in headers)


def test_few_warnings_are_whole_whatever_their_length():
    text = "x" * WARNINGS_LENGTH_MAX
    assert build_warning_headers([text, ""]) == [("Warning", f'299 - "{text}"')]


def test_the_same_warning_is_sent_once():
    assert len(build_warning_headers(["a", "b", "a"])) == 2
