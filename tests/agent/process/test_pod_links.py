"""The names of links, and the lines for `ip`."""

from ipaddress import IPv4Network

from mainstay.agent.runners.process import pod_links

UIDS = [f"6e5f1a52-0000-4000-8000-{number:012d}" for number in range(300)]


def test_names_fit_the_kernel_and_differ_by_pod_and_by_agent():
    names = {pod_links.find_link(pod_links.find_prefix(directory), uid) for directory in ("/a", "/b") for uid in UIDS}
    assert len(names) == 600
    assert max(map(len, names)) < 15


def test_the_address_of_a_pod_is_inside_and_the_only_one_behind_its_link():
    assert "address add 10.244.1.7/32 dev eth0" in pod_links.build_inside("m1", "10.244.1.7", 42)
    assert any("peer name m1 netns 42" in line for line in pod_links.build_inside("m1", "10.244.1.7", 42))
    assert "route replace 10.244.1.7/32 dev m1 protocol 119" in pod_links.build_outside("m1", "10.244.1.7")


def test_addresses_that_no_pod_has_are_refused_at_the_machine():
    assert pod_links.build_closed(IPv4Network("10.244.1.0/24")) == [
        "route replace unreachable 10.244.1.0/24 protocol 119"
    ]
