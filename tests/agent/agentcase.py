# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the tests of agents share."""
import os
import unittest

import hosts
from hosts import WAIT_S, wait_for

BUILD = None  # set by test_agents.py

EXPIRY = 3.5 * 0.3  # 3.5 missed beacons of 300 ms
LOOK_S = 0.11  # from one look for silent hosts to the next (md_expiry_look())

# A limit for what takes milliseconds, and longer where other tests run as well. Far less than the 60 s between two beacons of these tests, so
# no beacon can bring it about.
SOON = 40
KEPT_S, POLL_S = 5, 5  # MD_GID_GRACE_NS, MD_POLL_NS


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.world = hosts.World(BUILD)
        self.addCleanup(self.world.fini)

    def tearDown(self):
        # What a sanitizer has to say is in the log.
        for host in self.world.hosts.values():
            log = host.log.read_text() if host.log.exists() else ""
            self.assertNotRegex(log, "Sanitizer|runtime error")

    def pair(self, ipv6=True):
        a, b = self.world.host("a"), self.world.host("b")
        if not ipv6:
            for host in (a, b):
                host.sysctl("ipv6/conf/all/disable_ipv6", 1)
                host.sysctl("ipv6/conf/default/disable_ipv6", 1)
        self.world.cable(a, "eth0", b, "eth0", ["10.1.0.1/24"], ["10.1.0.2/24"])
        a.device("mlx5_0", "eth0", ["10.1.0.1"])
        b.device("mlx5_0", "eth0", ["10.1.0.2"])
        return a, b

    def key(self, host, text):
        path = host.dir / "key"
        path.write_text(text + "\n")
        path.chmod(0o600)
        os.chown(path, hosts.NOBODY, hosts.NOBODY)

    def converge(self, *group, timeout=WAIT_S):
        """Each of them knows all the others. Returns how long it took."""
        took = 0
        for host in group:
            others = sorted(other.name for other in group if other is not host)
            took += wait_for(f"{host.name} knows {others}, not {host.peers()}", lambda: host.peers() == others,
                             timeout)[1]
        return took

    def message(self, a_talk, b_talk, number, a_gid="10.1.0.1", b_gid="10.1.0.2"):
        a_talk.say(f"send {a_gid} 11 {b_gid} 22 {number}")
        return b_talk.expect(f"deliver mlx5_0 22 {a_gid} 11 {number}")
