"""Who may do what: credential × verb × object, as a table, asked of the whole handler.

Credentials are real: client certificates and tokens (credentials.py). A row is a request, and the letters of those whom
the server does not refuse. What else it answers, such as that the body is empty, does not matter here.

The pod `mine` is bound to the node n1, whose credential is asked with, and `x` to the node `other`. Each refers to a
Secret, a ConfigMap and a service account of its own name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from mainstay.server.auth import identities
from mainstay.server.auth.authorization import User
from mainstay.sim.simulation import Simulation
from tests.server.rbac.credentials import Authority, Credential, DirectClient, a_direct_server
from tests.server.rbac.served import ROLE_BINDINGS, a_binding, a_user
from tests.server.world import a_pod

ROLES: Final = ("view", "edit", "admin")


@pytest.fixture(scope="module")
def who(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Credential]:
    """All but the service account: it has its token of the server."""
    directory: Path = tmp_path_factory.mktemp("authority")
    authority = Authority(directory)
    controllers = authority.component("controllers")

    def act_as(controller: str) -> Credential:
        return Credential(controllers.certificate, acts_as=identities.build_controller_user(controller).name)

    found = {
        "-": Credential(),  # anonymous
        "u": authority.user(User("eve", ())),  # without rights
        "a": Credential(),  # a service account without rights
        "n": authority.user(identities.build_node_user("n1")),
        "s": authority.component("scheduler"),
        "c": controllers,
        "r": act_as("replicaset"),
        "h": act_as("node-health"),
        "x": act_as("namespace"),
        "g": act_as("owner-cleanup"),
        "v": authority.user(User("view", ())),  # bound to that role in the namespace `default`
        "e": authority.user(User("edit", ())),
        "d": authority.user(User("admin", ())),
        "M": authority.component("admin"),  # in system:masters
    }
    authority.close()
    return found


DEFAULT: Final = "/api/v1/namespaces/default"
SYSTEM: Final = "/api/v1/namespaces/kube-system"
APPS: Final = "/apis/apps/v1/namespaces/default"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"
OWN: Final = "/apis/mainstay.dev/v1"

TABLE: Final = f"""
GET    {DEFAULT}/pods/x                                        srgvedM
GET    {DEFAULT}/pods/mine                                     nsrgvedM
GET    {DEFAULT}/pods                                          scrxgvedM
GET    /api/v1/pods                                            scrxgM
GET    {SYSTEM}/pods                                           scrxgM
GET    /api/v1/pods?fieldSelector=spec.nodeName%3Dn1           nscrxgM
GET    /api/v1/pods?fieldSelector=spec.nodeName%3Dother        scrxgM
POST   {DEFAULT}/pods                                          redM
POST   {SYSTEM}/pods                                           rM
PUT    {DEFAULT}/pods/x                                        edM
PATCH  {DEFAULT}/pods/x                                        rgedM
DELETE {DEFAULT}/pods/x                                        rhxgedM
DELETE {DEFAULT}/pods/mine                                     nrhxgedM
DELETE {DEFAULT}/pods                                          edM
GET    {DEFAULT}/pods/x/log                                    vedM
POST   {DEFAULT}/pods/x/exec                                   edM
GET    {DEFAULT}/pods/x/exec                                   edM
GET    {DEFAULT}/pods/x/attach                                 edM
GET    {DEFAULT}/pods/x/portforward                            edM
POST   {DEFAULT}/pods/x/binding                                sM
POST   {DEFAULT}/pods/x/eviction                               edM
POST   {DEFAULT}/pods/mine/eviction                            nedM
PATCH  {DEFAULT}/pods/x/status                                 shM
PATCH  {DEFAULT}/pods/mine/status                              nshM
POST   {OWN}/bindings                                          sM
GET    {DEFAULT}/secrets/x                                     gedM
GET    {DEFAULT}/secrets/mine                                  ngedM
GET    {DEFAULT}/secrets                                       xgedM
GET    {SYSTEM}/secrets/x                                      gM
POST   {DEFAULT}/secrets                                       edM
DELETE {DEFAULT}/secrets/x                                     xgedM
GET    {DEFAULT}/configmaps                                    xgvedM
POST   {DEFAULT}/configmaps                                    edM
PATCH  {DEFAULT}/configmaps/x                                  gedM
GET    {DEFAULT}/configmaps/x                                  gvedM
GET    {DEFAULT}/configmaps/mine                               ngvedM
PATCH  {DEFAULT}/configmaps/kube-root-ca.crt                   gedM
POST   {SYSTEM}/configmaps                                     M
POST   {DEFAULT}/events                                        nschgedM
GET    {DEFAULT}/events/x                                      gvedM
PATCH  {DEFAULT}/events/x                                      nscgedM
GET    {DEFAULT}/services                                      ncxgvedM
GET    {DEFAULT}/serviceaccounts/x                             gvedM
GET    {DEFAULT}/serviceaccounts/mine                          ngvedM
POST   {DEFAULT}/serviceaccounts                               edM
POST   {DEFAULT}/serviceaccounts/x/token                       edM
POST   {DEFAULT}/serviceaccounts/mine/token                    edM
POST   {SYSTEM}/serviceaccounts/x/token                        M
GET    {APPS}/deployments                                      cxgvedM
POST   {APPS}/deployments                                      edM
PATCH  {APPS}/deployments/x                                    gedM
PATCH  {APPS}/deployments/x/scale                              edM
PATCH  {APPS}/deployments/x/status                             M
DELETE {APPS}/deployments/x                                    xgedM
POST   {APPS}/replicasets                                      edM
GET    /api/v1/nodes                                           nscxgM
GET    /api/v1/nodes/other                                     sgM
GET    /api/v1/nodes/n1                                        nsgM
POST   /api/v1/nodes                                           nM
PATCH  /api/v1/nodes/other                                     hgM
PATCH  /api/v1/nodes/n1                                        nhgM
PATCH  /api/v1/nodes/other/status                              hM
PATCH  /api/v1/nodes/n1/status                                 nhM
DELETE /api/v1/nodes/other                                     xgM
GET    /api/v1/nodes/other/ghosts                              sM
GET    /api/v1/nodes/n1/ghosts                                 nsM
POST   /api/v1/nodes/other/recount                             M
GET    /api/v1/namespaces                                      cxgM
GET    /api/v1/namespaces/default                              xgvedM
POST   /api/v1/namespaces                                      M
DELETE /api/v1/namespaces/x                                    xgM
PATCH  /api/v1/namespaces/default                              gM
PATCH  /api/v1/namespaces/default/status                       xM
PUT    /api/v1/namespaces/default/finalize                     xM
GET    {LEASES}/kube-system/leases/mainstay-scheduler          scgM
PUT    {LEASES}/kube-system/leases/mainstay-scheduler          scM
POST   {LEASES}/kube-system/leases                             scM
PUT    {LEASES}/kube-node-lease/leases/other                   hM
PUT    {LEASES}/kube-node-lease/leases/n1                      nhM
POST   {LEASES}/kube-node-lease/leases                         nhM
DELETE {LEASES}/kube-node-lease/leases/other                   hxgM
GET    {RBAC}/namespaces/default/roles                         xgdM
POST   {RBAC}/namespaces/default/roles                         dM
POST   {RBAC}/namespaces/default/rolebindings                  dM
GET    {RBAC}/clusterroles                                     xgM
POST   {RBAC}/clusterroles                                     M
POST   {RBAC}/clusterrolebindings                              M
DELETE {RBAC}/clusterrolebindings/x                            xgM
PATCH  {RBAC}/clusterrolebindings/cluster-admin                gM
POST   /apis/apiextensions.k8s.io/v1/customresourcedefinitions M
POST   /apis/scheduling.k8s.io/v1/priorityclasses              M
GET    {OWN}/componentstates                                   scxgM
POST   {OWN}/componentstates                                   scM
GET    {OWN}/holds                                             scxgM
POST   {OWN}/holds                                             M
POST   {OWN}/namespaces/default/reservations                   M
POST   {OWN}/namespaces/default/zonequotas                     M
GET    {OWN}/namespaces/default/decisions                      xgvedM
POST   /apis/authorization.k8s.io/v1/selfsubjectaccessreviews  KNOWN
POST   /apis/authorization.k8s.io/v1/subjectaccessreviews      M
POST   /apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews dM
POST   /apis/authentication.k8s.io/v1/selfsubjectreviews       KNOWN
POST   /apis/authentication.k8s.io/v1/tokenreviews             M
GET    /healthz                                                ALL
GET    /livez                                                  ALL
GET    /readyz                                                 ALL
GET    /version                                                ALL
GET    /api                                                    KNOWN
GET    /apis/apps/v1                                           KNOWN
GET    /openapi/v3                                             KNOWN
GET    /metrics                                                M
GET    /readyz/ping                                            M
GET    /journal/extent                                         M
POST   /journal/decisions                                      nscM
"""
LETTERS: Final = "-uanscrhxgvedM"
SHORT: Final = {"ALL": LETTERS, "KNOWN": LETTERS.removeprefix("-")}
ROWS: Final = [line.split() for line in TABLE.strip().splitlines()]


async def find_allowed(client: DirectClient, method: str, path: str, who: Mapping[str, Credential]) -> str:
    """Whom the server does not refuse. Nothing is deleted."""
    body: dict[str, object] | None = None if method in ("GET", "DELETE") else {}
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    target = f"{path}?dryRun=All" if method == "DELETE" else path
    answers = {each: await client.ask(shown, method, target, body, content_type) for each, shown in who.items()}
    return "".join(each for each, (status, _) in answers.items() if status not in (401, 403))


async def prepare(client: DirectClient, admin: Credential) -> str:
    """Make what the rows are about. Returns the token of the service account."""
    for role in ROLES:
        await client.create(admin, ROLE_BINDINGS, a_binding(role, role, a_user(role)))
    await client.create(admin, f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "ci"}})
    await client.create(admin, f"{SYSTEM}/secrets", {"metadata": {"name": "x"}})
    for name, node in (("mine", "n1"), ("x", "other")):
        status = {"capacity": {"pods": "10"}, "allocatable": {"pods": "10"}}
        await client.create(admin, "/api/v1/nodes", {"metadata": {"name": node}, "status": status})
        for kind in ("serviceaccounts", "secrets", "configmaps"):
            await client.create(admin, f"{DEFAULT}/{kind}", {"metadata": {"name": name}})
        sources: list[dict[str, Any]] = [{"secretRef": {"name": name}}, {"configMapRef": {"name": name}}]
        container = {"name": "c", "image": "x:1", "envFrom": sources}
        await client.create(admin, f"{DEFAULT}/pods", a_pod(name, serviceAccountName=name, containers=[container]))
        target = {"target": {"kind": "Node", "name": node}}
        await client.create(admin, f"{DEFAULT}/pods/{name}/binding", target)
    answer = await client.create(admin, f"{DEFAULT}/serviceaccounts/ci/token", {"spec": {}})
    token: str = answer["status"]["token"]
    return token


async def test_each_credential_may_do_what_the_table_says_and_no_more(sim: Simulation, who: Mapping[str, Credential]):
    found, expected = [], []
    async with a_direct_server(sim) as client:
        asking = {**who, "a": Credential(token=await prepare(client, who["M"]))}
        for method, path, letters in ROWS:
            found.append((method, path, await find_allowed(client, method, path, asking)))
            expected.append((method, path, SHORT.get(letters, letters)))

    assert found == expected
