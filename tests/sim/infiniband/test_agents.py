#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Agents of hosts that have InfiniBand only: they hear each other over IPoIB, and know ports and LIDs.

    SIM_BUILD=BUILD test_agents.py [TEST...]
"""
import json
import os
import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "rightnic"))
from nicmatrix import REPO  # noqa: E402
from nicmatrix.world import World, enter, need, staged  # noqa: E402
from verbsmatrix.simhosts import act  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release")).resolve()
SECONDS = 60


class Hosts(unittest.TestCase):
    topology = label = None

    @classmethod
    def setUpClass(cls):
        stage = enter(cls, staged(BUILD))
        cls.world = enter(cls, World.up(cls.topology, BUILD, stage, cls.label))

    def rails(self, host):
        """{(host, device): what the tool says of that port}"""
        status, said = self.world.run(host, "meshverbs", "peers", "-j")
        self.assertEqual(status, 0, said)
        return {(rail["host"], rail["device"]): rail for rail in json.loads(said)["rails"]}

    def wait_for(self, host, wanted):
        """Until the ports are as wanted: {(host, device): {key: value}}"""
        limit = time.monotonic() + SECONDS
        while True:
            rails = self.rails(host)
            got = {place: {key: rails.get(place, {}).get(key) for key in values} for place, values in wanted.items()}
            if got == wanted:
                return
            self.assertLess(time.monotonic(), limit, f"{got} instead of {wanted}\n{self.world.agent_log(host)}")
            time.sleep(0.05)


class Agents(Hosts):
    topology, label = "ibcards", "agents"

    def test_they_know_ports_and_lids(self):
        ports = {("a", "mlx5_0"): (3, True), ("a", "mlx5_1"): (4, False), ("b", "mlx5_0"): (5, False), ("b", "mlx5_1"): (6, True)}
        for host in "ab":
            self.wait_for(host, {place: {"lid": lid, "up": up, "link_layer": "InfiniBand", "netdev": "eth" + place[1][-1]}
                                 for place, (lid, up) in ports.items()})
        self.wait_for("a", {("b", "mlx5_0"): {"heard_on": None}, ("b", "mlx5_1"): {"heard_on": "mlx5_0"}})
        self.wait_for("b", {("a", "mlx5_0"): {"heard_on": "mlx5_1"}, ("a", "mlx5_1"): {"heard_on": None}})

    def test_a_cable_that_is_pulled(self):
        act("link", "-n", self.world.place.name, "b.1", "off")
        self.wait_for("b", {("b", "mlx5_1"): {"up": False}, ("a", "mlx5_0"): {}})
        act("link", "-n", self.world.place.name, "b.1", "on")
        self.wait_for("b", {("b", "mlx5_1"): {"up": True}, ("a", "mlx5_0"): {"heard_on": "mlx5_1"}})
        self.wait_for("a", {("b", "mlx5_1"): {"up": True, "heard_on": "mlx5_0"}})


class Trunk(Hosts):
    """Two cards per host on one fabric: each beacon arrives by both netdevs, and counts for both. With a fleet key, as all of InfiniBand."""

    topology, label = "ibtrunk", "trunk"

    def test_heard_on_both(self):
        for host, other in ("ab", "ba"):
            self.wait_for(host, {(other, f"mlx5_{index}"): {"up": True, "heard_on": "mlx5_0, mlx5_1"} for index in range(2)})


if __name__ == "__main__":
    need("ip")
    unittest.main()
