"""What a cluster on one machine consists of, and what is remembered of it."""

from datetime import timedelta
from pathlib import Path

from mainstay.cli.cluster import (
    ClusterSettings,
    GivenSettings,
    LocalCluster,
    StopOrder,
    merge_settings,
    read_settings,
    write_settings,
)
from mainstay.cli.data_dir import default_data_dir
from mainstay.env import SystemDisk


def a_cluster(**settings) -> LocalCluster:
    return LocalCluster(Path("/data"), ClusterSettings(network=77, **settings))


def test_nodes_are_spread_over_zones_each_with_a_subnet_of_its_own():
    nodes = a_cluster(nodes=4, zones=3).nodes()

    assert [(node.name, node.zone, node.subnet) for node in nodes] == [
        ("node-a1", "zone-a", "127.77.0.0/24"),
        ("node-b1", "zone-b", "127.77.1.0/24"),
        ("node-c1", "zone-c", "127.77.2.0/24"),
        ("node-a2", "zone-a", "127.77.3.0/24"),
    ]


def test_more_nodes_leave_those_before_as_they_are():
    few, many = a_cluster(nodes=3).components(), a_cluster(nodes=5).components()

    assert all(component in many for component in few)


def test_the_server_starts_first_and_ends_last():
    components = a_cluster(nodes=1).components()

    assert components[0].name == "server"
    assert sorted(components, key=lambda each: each.turn)[-1].name == "server"
    assert max(each.turn for each in components if each.name.startswith("node-")) == StopOrder.NODES


def test_only_the_administrators_file_is_called_kubeconfig():
    for component in a_cluster().components():
        named = [part for part in component.argv if "kubeconfig" in part and not part.startswith("--")]
        assert named == []


def test_several_processes_of_controllers_share_a_lease_and_nothing_else():
    cluster = a_cluster(controllers_count=2)

    made = {each.name: " ".join(each.argv) for each in cluster.components() if each.name.startswith("controllers")}
    assert list(made) == ["controllers", "controllers-2"]
    assert cluster.deciders() == ["scheduler", "controllers", "controllers-2"]
    assert (
        "controllers --lease-duration 6s --instance controllers-2 --data-dir /data/controllers-2"
        in made["controllers-2"]
    )
    assert cluster.component_directory("controllers-2") == Path("/data/controllers-2")


def test_controllers_can_be_left_out_and_are_in_by_default():
    assert a_cluster(has_controllers=False, controllers_count=2).deciders() == ["scheduler"]
    assert a_cluster().deciders() == ["scheduler", "controllers"]


def test_a_lease_that_was_asked_for_reaches_the_agents():
    (agent,) = [each for each in a_cluster(nodes=1, lease_duration_s=8).components() if each.name == "node-a1"]

    text = " ".join(agent.argv)
    assert "--lease-duration 8s --renew-every 2s --stopping 2s" in text


def test_what_is_not_said_is_as_the_last_time(tmp_path: Path):
    disk = SystemDisk(tmp_path)
    first = merge_settings(
        disk, GivenSettings.parse({"nodes": 5, "port": 7000, "lease_duration": timedelta(seconds=8)})
    )
    write_settings(disk, first)

    second = merge_settings(disk, GivenSettings.parse({"zones": 2, "port": None}))

    assert (second.nodes, second.port, second.zones, second.lease_duration_s) == (5, 7000, 2, 8)
    assert second.network == first.network


def test_any_port_is_the_one_from_the_last_time(tmp_path: Path):
    disk = SystemDisk(tmp_path)
    assert merge_settings(disk, GivenSettings.parse({"port": 0})).port == 0
    write_settings(disk, ClusterSettings(port=7001, network=70))

    assert merge_settings(disk, GivenSettings.parse({"port": 0})).port == 7001


def test_settings_that_cannot_be_read_count_as_none(tmp_path: Path):
    disk = SystemDisk(tmp_path)
    disk.append("cluster.json", b"{")

    assert read_settings(disk) is None


def test_the_data_directory_follows_the_users_state_directory():
    assert default_data_dir({"XDG_STATE_HOME": "/s"}) == Path("/s/mainstay/cluster")
    assert default_data_dir({"HOME": "/h"}) == Path("/h/.local/state/mainstay/cluster")
