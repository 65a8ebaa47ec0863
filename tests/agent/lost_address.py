# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An address goes with the carrier of its netdev. Processes are still known by it."""
import time

from agentcase import AgentTest, KEPT_S, POLL_S
from hosts import wait_for


class AddressGone(AgentTest):
    """It goes with the carrier of its netdev. Processes go on to be known by it."""

    def setUp(self):
        super().setUp()
        self.a, self.b = self.pair()
        self.world.cable(self.a, "eth1", self.b, "eth1", ["10.2.0.1/24"], ["10.2.0.2/24"])
        self.a.device("mlx5_1", "eth1", ["10.2.0.1"])
        self.b.device("mlx5_1", "eth1", ["10.2.0.2"])
        for host in (self.a, self.b):
            host.start()
        self.converge(self.a, self.b)
        self.talks = self.a.talk(), self.b.talk()
        for talk, qpn in zip(self.talks, (11, 22)):
            talk.register("mlx5_0", qpn)
        self.b.ip("link", "set", "eth0", "down")
        self.b.ip("addr", "del", "10.1.0.2/24", "dev", "eth0")
        self.b.device("mlx5_0", "eth0", [])
        wait_for("a hears of it", lambda: self.known().get("10.1.0.2") == "gone")

    def own(self, host):
        return {gid["gid"]: gid["type"] for rail in host.get("status")["rails"] for gid in rail["gids"]}

    def known(self):
        return {gid["gid"]: gid["type"] for host in self.a.get("peers")["hosts"] for rail in host["rails"] for gid in rail["gids"]}

    def exchange(self, number):
        a, b = self.talks
        a.say(f"send 10.1.0.1 11 10.1.0.2 22 {number}")
        b.expect(f"deliver mlx5_0 22 10.1.0.1 11 {number}")
        b.say(f"send 10.1.0.2 22 10.1.0.1 11 {number}")
        a.expect(f"deliver mlx5_0 11 10.1.0.2 22 {number}")

    def test_messages(self):
        self.exchange(1)
        time.sleep(KEPT_S + POLL_S + 1)  # as long as there is no carrier
        self.exchange(2)
        self.b.ip("link", "set", "eth0", "up")
        self.b.ip("addr", "add", "10.1.0.2/24", "dev", "eth0")
        self.b.device("mlx5_0", "eth0", ["10.1.0.2"])
        wait_for("it is back", lambda: "v2" in self.known().get("10.1.0.2", "").lower())
        self.exchange(3)

    def test_does_not_come_back(self):
        """There are others on that netdev: it is forgotten."""
        self.b.ip("addr", "add", "10.1.0.3/24", "dev", "eth0")
        self.b.ip("link", "set", "eth0", "up")
        self.b.device("mlx5_0", "eth0", ["10.1.0.3"])
        wait_for("the port is up", lambda: self.b.get("status")["rails"][0]["up"])
        self.exchange(1)
        wait_for("it is forgotten", lambda: "10.1.0.2" not in self.known())

    def test_moves_to_another_host(self):
        """There it is more than kept."""
        self.a.ip("addr", "add", "10.1.0.2/24", "dev", "eth1")
        self.a.device("mlx5_1", "eth1", ["10.2.0.1", "10.1.0.2"])
        wait_for("b has given it up", lambda: "10.1.0.2" not in self.own(self.b))
        self.assertIn("10.1.0.2", self.own(self.a))
        wait_for("a knows that", lambda: "10.1.0.2" not in self.known())
