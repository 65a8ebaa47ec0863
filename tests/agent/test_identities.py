#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Identities of hosts: pinned at first contact, sealed in pairs, changed, rotated:  test_identities.py BUILD [TEST...]"""
import json
import os
import pathlib
import sys
import unittest

import hosts
from hosts import wait_for

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "attack"))
import wire  # noqa: E402

BUILD = None


def directory_flags(host, name):
    """Flags of that host in the directory that processes read."""
    for entry in wire.Directory(host.run_dir / "directory").hosts:
        if entry[1].rstrip(b"\0").decode() == name:
            return entry[5]
    return None


class IdentityTest(unittest.TestCase):
    def setUp(self):
        self.world = hosts.World(BUILD)
        self.addCleanup(self.world.fini)
        self.qpn = 10

    def tearDown(self):
        for host in self.world.hosts.values():
            log = host.log.read_text() if host.log.exists() else ""
            self.assertNotRegex(log, "Sanitizer|runtime error")

    def pair(self):
        a, b = self.world.host("a"), self.world.host("b")
        self.world.cable(a, "eth0", b, "eth0", ["10.1.0.1/24"], ["10.1.0.2/24"])
        a.device("mlx5_0", "eth0", ["10.1.0.1"])
        b.device("mlx5_0", "eth0", ["10.1.0.2"])
        return a, b

    def known(self, host, name):
        """What a host knows of the key of another one."""
        return next((entry for entry in host.get("keys")["hosts"] if entry["name"] == name), {"trust": "unheard", "authenticated": False})

    def own(self, host):
        return host.get("keys")["identity"]["key"]

    def authenticated(self, host, name, want=True):
        wait_for(f"{host.name} has {name} authenticated: {want}; {self.known(host, name)}",
                 lambda: self.known(host, name)["authenticated"] == want and (directory_flags(host, name) or 0) & 1 == want)

    def both(self, a, b):
        self.authenticated(a, b.name)
        self.authenticated(b, a.name)

    def order(self, host, **order):
        return json.loads(host.ask(json.dumps(order)))

    def traffic(self, a, b):
        """Messages, one after the other, each of which has to arrive."""
        ends = a.talk(), b.talk()
        self.qpn += 1
        qpn, number = self.qpn, 0
        for end in ends:
            end.claim("mlx5_0", qpn)

        def say():
            nonlocal number
            number += 1
            ends[0].say(f"send 10.1.0.1 {qpn} 10.1.0.2 {qpn} {number}")
            ends[1].expect(f"deliver mlx5_0 {qpn} 10.1.0.1 {qpn} {number}")
            ends[1].say(f"send 10.1.0.2 {qpn} 10.1.0.1 {qpn} {number}")
            ends[0].expect(f"deliver mlx5_0 {qpn} 10.1.0.2 {qpn} {number}")
        return say

    def identified_pair(self):
        a, b = self.pair()
        self.world.identify(a, b)
        a.start()
        b.start()
        self.both(a, b)
        return a, b

    def test_first_contact(self):
        a, b = self.identified_pair()
        self.assertEqual(self.known(a, "b")["trust"], "pinned")
        self.assertEqual(self.known(a, "b")["how"], "first-contact")
        self.assertEqual(self.known(a, "b")["key"], self.own(b))
        self.assertNotEqual(self.own(a), self.own(b))
        self.traffic(a, b)()
        for host, other in ((a, b), (b, a)):
            identity = host.state_dir / "identity"
            self.assertEqual(identity.stat().st_mode & 0o7777, 0o600)
            wait_for("known_hosts", (host.state_dir / "known_hosts").exists)
            self.assertIn(f"{other.name} {self.own(other)} first-contact ", (host.state_dir / "known_hosts").read_text())
        # Identity and pins outlive the agents, and traffic goes on after a restart of either.
        before = self.own(a)
        a.stop()
        a.start()
        self.assertEqual(self.own(a), before)
        self.both(a, b)
        self.traffic(a, b)()
        self.assertEqual(self.known(b, "a")["how"], "first-contact")

    def test_without_identity(self):
        """An agent without one goes with an agent that has one as before."""
        a, b = self.pair()
        self.world.identify(a)
        a.start()
        b.start()
        wait_for("both", lambda: a.peers() == ["b"] and b.peers() == ["a"])
        self.traffic(a, b)()
        self.assertEqual(self.known(a, "b")["trust"], "none")
        self.assertEqual(directory_flags(a, "b"), 0)
        self.assertEqual(directory_flags(a, "a"), 1)
        self.assertIsNone(b.get("keys")["identity"])

    def test_changed_key(self):
        """A host that was installed anew, or somebody with its name: not authenticated, and said so; all goes on as without."""
        a, b = self.identified_pair()
        old = self.own(b)
        b.stop()
        (b.state_dir / "identity").unlink()
        wait_for("b is forgotten", lambda: a.peers() == [])
        b.start()
        wait_for("another key", lambda: self.known(a, "b")["trust"] == "changed")
        self.assertNotEqual(self.own(b), old)
        self.authenticated(a, "b", False)
        self.traffic(a, b)()
        log = a.log.read_text()
        self.assertIn(f"host b has the key {self.own(b)}, but is known with {old}", log)
        self.assertIn("take its line out of", log)
        self.assertGreaterEqual(a.metric("host_keys_changed"), 1)

    def test_hosts_file(self):
        """A key in the hosts file has precedence over what was met first."""
        a, b = self.identified_pair()
        right = self.own(b)
        (a.dir / "hosts").write_text(f"b 10.1.0.2 key={self.own(a)}\n")
        a.agent.send_signal(1)
        wait_for("changed", lambda: self.known(a, "b")["trust"] == "changed")
        self.authenticated(a, "b", False)
        (a.dir / "hosts").write_text(f"b 10.1.0.2 key={right}\n")
        a.agent.send_signal(1)
        self.authenticated(a, "b")
        self.assertEqual(self.known(a, "b")["how"], "hosts-file")
        self.traffic(a, b)()

    def test_no_directory(self):
        """Where nothing can be kept, an identity lasts as long as its agent, and nobody notes it."""
        a, b = self.pair()
        self.world.identify(a, b)
        b.state_dir.rmdir()
        a.start()
        b.start()
        self.both(a, b)
        self.assertIn("this host has an identity until its agent ends", b.log.read_text())
        self.assertFalse(b.get("keys")["identity"]["lasting"])
        self.assertEqual(a.get("keys")["pins"], [])
        b.stop()
        wait_for("b is forgotten", lambda: a.peers() == [])
        b.start()
        self.both(a, b)
        self.traffic(a, b)()

    def test_bad_identity_file(self):
        a, b = self.pair()
        self.world.identify(a, b)
        (b.state_dir / "identity").write_text("secret nonsense\n")
        (b.state_dir / "identity").chmod(0o600)
        os.chown(b.state_dir / "identity", hosts.NOBODY, hosts.NOBODY)
        a.start()
        b.start()
        self.assertIn("this host has no identity until that is mended", b.log.read_text())
        self.traffic(a, b)()
        self.assertEqual((b.state_dir / "identity").read_text(), "secret nonsense\n")


if __name__ == "__main__":
    why = hosts.cannot_run()
    if why:
        print(f"cannot run here: {why}")
        sys.exit(hosts.SKIP)
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
