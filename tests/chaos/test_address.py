#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The address of a port goes with its carrier, as systemd-networkd has it: connections leave the port, say what they have to say to each
other by the address that is gone, and return with it. Needs root; SIM_BUILD is the build."""
import contextlib
import pathlib
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import CLIENT, SERVER  # noqa: E402
from schedule.obedient import RETRY_EXCEEDED, Obedient, has_pyverbs  # noqa: E402
from schedule.watched import BUILD, ENDS  # noqa: E402
from launcher import agents, fabric  # noqa: E402
from nicmatrix.world import need  # noqa: E402

KEPT_S = 5  # MD_GID_GRACE_NS of meshverbsd/util/bounds.h
OTHER_ADDRESS = "10.1.0.77/25"  # reaches the subnet of mlx5_0; with another prefix than its address, the kernel does not take both away
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(BUILD, hosts.FLAPPING))
    Address.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "address"))


def tearDownModule():
    STACK.close()


class Address(Obedient):
    def setUp(self):
        self.start()
        self.addCleanup(self.clean)
        self.connect()
        for host in ENDS:
            self.exchange(host)
        self.are_movable()

    def figures(self, host):
        other = CLIENT if host == SERVER else SERVER
        return "\n".join(self.tool(host, *words)[1] for words in (("status",), ("peers", "--json"), ("paths", other), ("explain", "-d", "mlx5_0", other)))

    def lose(self, host):
        self.hosts.link(f"{host}.0", False)
        time.sleep(0.005)
        self.hosts.address(f"{host}.0", False)

    def find(self, host):
        self.hosts.link(f"{host}.0", True)
        time.sleep(0.3)
        self.hosts.address(f"{host}.0", True)

    def test_new_key(self):
        """Also one that was told of while the address was gone; and the way back to the primary path is found when it is back."""
        for host in ENDS:
            with self.subTest(host=host):
                self.lose(host)
                self.are_on("mlx5_1")
                time.sleep(1)
                for end in ENDS:
                    self.exchange(end)  # where an end is not heard, it fails: test_agent_again_key
                self.find(host)
                self.are_on("mlx5_0")
                for end in ENDS:
                    self.exchange(end)

    def test_stays_away(self):
        """The primary path is where the address is: the port alone is none."""
        self.lose(CLIENT)
        self.are_on("mlx5_1")
        self.hosts.link(f"{CLIENT}.0", True)
        time.sleep(KEPT_S / 2)
        self.are_on("mlx5_1")
        self.exchange(SERVER)
        self.hosts.address(f"{CLIENT}.0", True)
        self.are_on("mlx5_0")
        self.exchange(SERVER)

    def other_address(self, on):
        nic = self.hosts.topo.nic(f"{CLIENT}.0")
        fabric.ip("-n", self.hosts.sim.netns(CLIENT), "addr", "replace" if on else "del", OTHER_ADDRESS, "dev", nic.netdev)

    def forget(self):
        """The agent is another one, which was never told of the address that is gone."""
        self.hosts.agent_restart(CLIENT)
        self.wait_for("it knows the connection", lambda: [qp["state"] for qp in self.qps(CLIENT)] == ["moved"])

    def test_agent_again_move(self):
        """Where there is somewhere to go, a connection goes there; but not if the agent has forgotten the address: then when that is back."""
        for forgotten in (False, True):
            with self.subTest(forgotten=forgotten):
                self.lose(CLIENT)
                self.are_on("mlx5_1")
                self.hosts.link(f"{CLIENT}.0", True)
                self.other_address(True)
                if forgotten:
                    self.forget()
                self.wait_for("both know the other address", lambda: all(agents.knows(self.hosts.sim, host, OTHER_ADDRESS) for host in ENDS))
                self.hosts.link(f"{CLIENT}.1", False)
                if forgotten:
                    time.sleep(2)
                    self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_1"}] * 2, self.story())
                    self.hosts.address(f"{CLIENT}.0", True)
                self.are_on("mlx5_0")
                self.hosts.address(f"{CLIENT}.0", True)
                self.hosts.link(f"{CLIENT}.1", True)
                self.is_primary()  # before the other address goes: else there may be no path for longer than errors wait
                self.other_address(False)
                for end in ENDS:
                    self.exchange(end)

    def is_primary(self):
        """The connection is on its own path, by the program's addresses: the next fault does not meet it on its way there."""
        primary = {(SERVER, "rail_gid"): "10.1.0.1", (SERVER, "rail_peer_gid"): "10.1.0.2",
                (CLIENT, "rail_gid"): "10.1.0.2", (CLIENT, "rail_peer_gid"): "10.1.0.1"}
        self.wait_for("it is on the primary path", lambda: all([qp[what] for qp in self.qps(host)] == [gid] for (host, what), gid in primary.items()))

    def test_agent_again_key(self):
        """Likewise, and a remote key is used that is not known for the other NIC."""
        self.lose(CLIENT)
        self.are_on("mlx5_1")
        self.forget()
        region = self.region(SERVER)
        begun = time.monotonic()
        self.tell(SERVER, f"write {region}", RETRY_EXCEEDED)
        self.assertGreater(time.monotonic() - begun, 9.5, self.story())


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    if not has_pyverbs():
        print("no python3-pyverbs; scripts/deps sim installs it")
        sys.exit(77)
    unittest.main()
