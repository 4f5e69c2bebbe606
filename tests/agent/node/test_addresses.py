"""Each pod of a node has an address of its own."""

from ipaddress import IPv4Network

from mainstay.agent.node.addresses import PodAddresses


def test_addresses_are_given_out_in_turn_and_never_twice():
    addresses = PodAddresses(IPv4Network("10.0.0.0/29"))
    addresses.keep("old", "10.0.0.2")

    assert [addresses.take(uid) for uid in ("a", "b", "a")] == ["10.0.0.1", "10.0.0.3", "10.0.0.1"]
    addresses.give_back("a")
    assert [addresses.take(uid) for uid in ("c", "d", "e", "f", "g")] == [
        "10.0.0.4",
        "10.0.0.5",
        "10.0.0.6",
        "10.0.0.1",
        None,
    ]
    addresses.give_back("old")
    assert addresses.take("g") == "10.0.0.2"
