"""The audit log: a line for each request, and requests that never wait for it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainstay.api.errors import not_found
from mainstay.api.kinds import BUILTIN
from mainstay.env import Disk, tasks
from mainstay.env.disk import DiskFull
from mainstay.http.messages import Headers, Peer, Request
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import ANONYMOUS, User
from mainstay.server.request import audit as audits
from mainstay.server.request.audit import Audit
from mainstay.server.request.context import ApiCall
from mainstay.server.request.target import RequestTarget, Verb
from mainstay.sim.simulation import Simulation

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(microseconds=1500)
ROOT = User("root", ("system:masters",))
ANN = User("ann", ("devs", "system:authenticated"), "17")
AUTHENTICATOR = Authenticator({"root-token": ROOT})
PODS = next(kind for kind in BUILTIN if (kind.group, kind.kind) == ("", "Pod"))


def a_request(target: str = "/api/v1/namespaces/shop/pods/web?x=1", *headers: tuple[str, str]) -> Request:
    return Request("GET", target, target.partition("?")[0], "", Headers(headers), b"", Peer("10.0.0.1", 4711))


def lines_of(disk: Disk) -> list[dict[str, Any]]:
    return [json.loads(line) for line in disk.read("audit.log").splitlines()]


async def written(sim: Simulation, *args: Any, **kwargs: Any) -> dict[str, Any]:
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", AUTHENTICATOR)
    audit.record(*args, **kwargs)
    await audit.close()
    (line,) = lines_of(disk)
    return line


def a_call(request: Request, user: User, target: RequestTarget | None, audit_id: str) -> ApiCall:
    call = ApiCall(request, audit_id)
    call.user, call.target = user, target
    return call


async def test_a_line_says_who_did_what_to_which_object(sim: Simulation):
    request = a_request("/api/v1/namespaces/shop/pods/web/status?x=1", ("User-Agent", "kubectl/v1.36"))
    target = RequestTarget(Verb.GET, PODS, "shop", "web", "status")

    assert await written(sim, a_call(request, ANN, target, "some-id"), 200, NOON, LATER) == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "some-id",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/shop/pods/web/status?x=1",
        "verb": "get",
        "user": {"username": "ann", "uid": "17", "groups": ["devs", "system:authenticated"]},
        "sourceIPs": ["10.0.0.1"],
        "userAgent": "kubectl/v1.36",
        "objectRef": {
            "resource": "pods",
            "namespace": "shop",
            "name": "web",
            "apiVersion": "v1",
            "subresource": "status",
        },
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2030-01-01T12:00:00.000000Z",
        "stageTimestamp": "2030-01-01T12:00:00.001500Z",
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    }


async def test_a_refusal_is_written_with_its_reason(sim: Simulation):
    error = not_found("pods", "", "web")

    line = await written(sim, a_call(a_request(), ANN, None, "some-id"), 404, NOON, LATER, error=error)

    assert line["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": 'pods "web" not found',
        "reason": "NotFound",
        "details": {"name": "web", "kind": "pods"},
        "code": 404,
    }


async def test_what_is_allowed_is_written_with_the_binding_that_allows_it(sim: Simulation):
    call = a_call(a_request(), ANN, None, "some-id")
    call.access_reason = 'RBAC: allowed by ClusterRoleBinding "view" of ClusterRole "view" to User "ann"'

    line = await written(sim, call, 200, NOON, LATER)

    assert line["annotations"]["authorization.k8s.io/reason"] == call.access_reason


async def test_what_is_not_allowed_is_marked(sim: Simulation):
    line = await written(sim, a_call(a_request(), ANN, None, "some-id"), 403, NOON, LATER)

    assert line["annotations"]["authorization.k8s.io/decision"] == "forbid"


async def test_a_request_that_is_about_no_object_has_its_method_as_verb(sim: Simulation):
    line = await written(sim, a_call(a_request("/version"), ANONYMOUS, None, "some-id"), 200, NOON, LATER)

    assert (line["verb"], "objectRef" in line) == ("get", False)


async def test_an_impersonating_user_is_shown_too(sim: Simulation):
    headers = (("Authorization", "Bearer root-token"), ("Impersonate-User", "ann"))

    line = await written(sim, a_call(a_request("/x", *headers), ANN, None, "some-id"), 200, NOON, LATER)

    assert (line["user"]["username"], line["impersonatedUser"]["username"]) == ("root", "ann")


async def test_secrets_of_a_request_are_not_written(sim: Simulation):
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", AUTHENTICATOR)

    audit.record(
        a_call(a_request("/x", ("Authorization", "Bearer root-token")), ROOT, None, "some-id"), 200, NOON, LATER
    )
    await audit.close()

    assert b"root-token" not in disk.read("audit.log")


async def test_lines_are_written_soon_and_in_order(sim: Simulation):
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", AUTHENTICATOR)

    for number in range(audits.BATCH_MAX + 10):
        audit.record(a_call(a_request(), ANN, None, str(number)), 200, NOON, LATER)
    await tasks.sleep(2 * audits.WRITE_EVERY)

    assert [line["auditID"] for line in lines_of(disk)] == [str(number) for number in range(audits.BATCH_MAX + 10)]
    assert (audit.count_written(), audit.count_dropped()) == (audits.BATCH_MAX + 10, 0)


async def test_a_log_is_appended_to(sim: Simulation):
    for number in range(2):
        audit = await Audit.start(sim.env("server").disk, "audit.log", AUTHENTICATOR)
        audit.record(a_call(a_request(), ANN, None, str(number)), 200, NOON, LATER)
        await audit.close()

    assert [line["auditID"] for line in lines_of(sim.env("server").disk)] == ["0", "1"]


async def test_beyond_its_bound_requests_are_dropped_and_counted(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(audits, "WAITING_BYTES_MAX", 10_000)
    disk = sim.env("server").disk
    audit = await Audit.start(disk, "audit.log", AUTHENTICATOR)

    for number in range(30):
        audit.record(a_call(a_request(), ANN, None, str(number)), 200, NOON, LATER)
    audit.record(a_call(a_request("/" + "x" * 30_000), ANN, None, "huge"), 200, NOON, LATER)
    await tasks.sleep(2 * audits.WRITE_EVERY)
    audit.record(a_call(a_request(), ANN, None, "after"), 200, NOON, LATER)
    await audit.close()

    kept = len(lines_of(disk)) - 1
    assert 5 <= kept <= 10
    assert [line["auditID"] for line in lines_of(disk)] == [*(str(number) for number in range(kept)), "after"]
    assert (audit.count_written(), audit.count_dropped()) == (kept + 1, 31 - kept)


class FullAtTimes:
    """A disk on which some writes are cut short."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def append(self, name: str, data: bytes) -> None:
        if self.is_full:
            self._disk.append(name, data[:50])
            raise DiskFull("no room left")
        self._disk.append(name, data)


async def test_a_full_disk_stops_no_request_and_spoils_no_other_line(sim: Simulation, caplog: pytest.LogCaptureFixture):
    disk: Any = FullAtTimes(sim.env("server").disk)
    audit = await Audit.start(disk, "audit.log", AUTHENTICATOR)
    for number, disk.is_full in enumerate([False, True, True, False]):
        audit.record(a_call(a_request(), ANN, None, str(number)), 200, NOON, LATER)
        await tasks.sleep(2 * audits.WRITE_EVERY)
    await audit.close()

    complete = [line for line in disk.read("audit.log").splitlines() if line.endswith(b"}")]
    assert [json.loads(line)["auditID"] for line in complete] == ["0", "3"]
    assert (audit.count_written(), audit.count_dropped()) == (2, 2)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
