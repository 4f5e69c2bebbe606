"""Where a Service leads, pod by pod. The tables are what Kubernetes does."""

import pytest

from mainstay.controllers.endpoints.routes import EndpointGroup, Port, build_endpoint, resolve_ports, wanted
from tests.controllers.endpoints.services import HTTP, a_pod, a_service, an_endpoint

NAMED = ({"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},)


@pytest.mark.parametrize(
    ("ready", "leaving", "publishes_all", "conditions"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, False, (False, False, True)),
        (False, False, True, (True, False, False)),
        (True, True, True, (True, True, True)),
        (False, True, True, (True, False, True)),
    ],
)
def test_ready_serving_and_terminating(ready, leaving, publishes_all, conditions):
    service = a_service(publishNotReadyAddresses=publishes_all)
    said = build_endpoint(service, a_pod("p", ready=ready, leaving=leaving), ["10.0.0.1"]).body["conditions"]

    assert (said["ready"], said["serving"], said["terminating"]) == conditions


@pytest.mark.parametrize(
    ("pod", "is_there"),
    [
        (a_pod("p"), True),
        (a_pod("p", ready=False), True),
        (a_pod("p", leaving=True), True),
        (a_pod("p", address=""), False),
        (a_pod("p", phase="Succeeded"), False),
        (a_pod("p", phase="Failed"), False),
        (a_pod("p", address="fd00::1"), False),
        (a_pod("p", address="169.254.169.254"), False),
        (a_pod("p", address="nonsense"), False),
    ],
)
def test_only_a_pod_with_an_address_that_is_not_over_stands_anywhere(pod, is_there):
    assert bool(wanted(a_service(), [pod], {})) == is_there


@pytest.mark.parametrize(
    ("container_ports", "found"),
    [
        ([{"name": "web", "containerPort": 9090, "protocol": "TCP"}], (Port("http", "TCP", 9090),)),
        ([{"name": "web", "containerPort": 9090, "protocol": "UDP"}], ()),
        ([{"name": "other", "containerPort": 9090}], ()),
        ([], ()),
    ],
)
def test_a_named_port_is_looked_up_in_each_pod(container_ports, found):
    assert resolve_ports(a_service(ports=NAMED), a_pod("p", ports=container_ports)) == found


def test_a_named_port_may_be_that_of_a_sidecar_but_not_of_an_init_container():
    port = [{"name": "web", "containerPort": 7070}]
    sidecar = {"name": "proxy", "restartPolicy": "Always", "ports": port}
    init = {"name": "setup", "ports": port}

    assert resolve_ports(a_service(ports=NAMED), a_pod("p", initContainers=[sidecar])) == (Port("http", "TCP", 7070),)
    assert resolve_ports(a_service(ports=NAMED), a_pod("p", initContainers=[init])) == ()


def test_pods_that_have_a_named_port_elsewhere_are_in_another_group():
    old = a_pod("old", "10.0.0.1", ports=[{"name": "web", "containerPort": 8080}])
    new = a_pod("new", "10.0.0.2", ports=[{"name": "web", "containerPort": 9090}])

    found = wanted(a_service(ports=NAMED), [old, new], {})

    assert {group: [each.identity for each in endpoints] for group, endpoints in found.items()} == {
        EndpointGroup("IPv4", (Port("http", "TCP", 8080),)): ["old"],
        EndpointGroup("IPv4", (Port("http", "TCP", 9090),)): ["new"],
    }


def test_an_endpoint_says_which_pod_it_is_where_it_runs_and_in_which_zone():
    (endpoints,) = wanted(a_service(), [a_pod("p")], {"n1": "zone-a"}).values()

    assert [each.body for each in endpoints] == [{**an_endpoint("p"), "zone": "zone-a"}]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"hostname": "db-0", "subdomain": "web"}, "db-0"),
        ({"hostname": "db-0", "subdomain": "other"}, None),
        ({"hostname": "db-0"}, None),
        ({"subdomain": "web"}, None),
    ],
)
def test_a_pod_has_a_name_of_its_own_below_the_service_that_it_names(spec, name):
    assert build_endpoint(a_service(), a_pod("p", **spec), ["10.0.0.1"]).body.get("hostname") == name


def test_a_service_of_two_families_leads_to_both_addresses_of_a_pod():
    pod = a_pod("p", addresses=["10.0.0.1", "fd00::1"])

    found = wanted(a_service(ipFamilies=["IPv6", "IPv4"]), [pod], {})

    assert {group: [each.body["addresses"] for each in endpoints] for group, endpoints in found.items()} == {
        EndpointGroup("IPv4", (HTTP,)): [["10.0.0.1"]],
        EndpointGroup("IPv6", (HTTP,)): [["fd00::1"]],
    }


def test_a_headless_service_needs_no_ports():
    assert list(wanted(a_service(ports=[], clusterIP="None"), [a_pod("p")], {})) == [EndpointGroup("IPv4", ())]
