# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs doctor: findings about the agent, qualification, keys and peers."""

import json
import os
import pathlib
import subprocess
import unittest
from unittest import mock

from doctorcase import DoctorTest
from fixture import TOOL, Directory


class Agents(DoctorTest):
    def test_none(self):
        self.status = self.peers = None
        (self.dir / "run/directory").unlink(missing_ok=True)
        self.found("agent", "meshverbsd", "no agent answers at DIR/rund/control: No such file", "systemctl start meshverbsd")

    def test_none_in_a_container(self):
        self.status = self.peers = None
        self.file("run/.containerenv", "")
        self.found("agent", "DIR/run", "not in this container", "mount the host's /run/meshverbs")

    def test_in_a_container(self):
        """The directory of peers is all there is to be seen of it there."""
        self.status = None
        self.file("run/.containerenv", "")
        got = self.doctor()
        self.assertEqual(got["findings"], [])
        self.assertIn(("agent-version", "skipped", "the agent answers on the host only"),
                      [(check["name"], check["state"], check.get("skipped")) for check in got["checks"]])

    def test_older(self):
        self.agent(json.dumps(self.status).encode(), "run")
        self.status = None
        self.found("agent", "meshverbsd", "is older than this command", "restart meshverbsd")

    def test_stale_directory(self):
        self.agent(self.answers())
        self.status = None
        self.directory(self.peers, age_s=60)
        self.peers = None
        self.found("agent", "DIR/run/directory", "does not keep it up to date", "restart meshverbsd")

    def test_writable_directory(self):
        self.directory(self.peers)
        self.peers = None
        (self.dir / "run/directory").chmod(0o666)
        self.found("agent", "DIR/run/directory", "somebody other than its owner", "restart meshverbsd")

    def test_of_another_version(self):
        self.status["version"] = "0.0.9"
        self.found("agent-version", "meshverbsd", "is of version 0.0.9, this command of", "restart meshverbsd")

    def test_nobody_heard(self):
        self.status["hosts"] = 0
        self.found("beacons", "meshverbsd", "hears no other host", "UDP port 28791.*IGMP snooping.*hosts file")

    def test_nobody_on_a_netdev(self):
        self.status["nets"][1]["rails_heard"] = 0
        self.found("beacons", "eth1", "no other host is heard on this netdev", "UDP port 28791", level="note")

    def test_nobody_on_a_netdev_that_is_down(self):
        self.status["nets"][1].update(rails_heard=0, running=False)
        self.assertEqual(self.doctor()["findings"], [])

    def test_no_key(self):
        self.status.update(has_key=False, identity={"name": "a", "key": "A" * 43 + "=", "lasting": True})
        self.found("key", "fleet key", "the agent has none: hosts know each other by keys of their own", "meshverbsd --make-key.*/etc/libibverbs.d/mesh/key", level="note")

    def test_no_key_of_any_kind(self):
        self.status["has_key"] = False
        self.found("key", "fleet key", "the agent has none: it trusts the network as far as RoCE", "meshverbsd --make-key", level="note", also={"identity"})

    def test_key_that_is_not_there(self):
        for line, there, what in (("key = /etc/mesh.key", "etc/other.key", "/etc/mesh.key is not there, but key in .agent. of .*mesh.conf names it"),
                                  ("kee = /etc/mesh.key", "etc/mesh.key", "/mesh/key is not there, and a line of .*mesh.conf that is not understood"),
                                  ("key = mesh.key", "etc/mesh.key", "what stands for key in .agent. of .*mesh.conf cannot be used")):
            for status in (self.status, None):
                with self.subTest(line=line, runs=bool(status)), mock.patch.object(self, "status", status):
                    self.file("etc/libibverbs.d/mesh/mesh.conf", f"[agent]\n{line}\n")
                    self.file(there, "")
                    found = [f for f in self.doctor()["findings"] if f["check"] == "key"]
                    self.assertEqual([f["level"] for f in found], ["action"])
                    self.assertRegex(found[0]["what"], what + ".*does not start")
                    (self.dir / "rund/control").unlink(missing_ok=True)

    def test_key_that_is_there(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[agent]\nkey = /etc/mesh.key\n")
        self.file("etc/mesh.key", "").chmod(0o600)
        self.assertEqual(self.doctor()["findings"], [])

    def test_keys_differ(self):
        for reason, what in (("plain", "without a fleet key"), ("sealed", "with a fleet key"), ("other_key", "another fleet key")):
            with self.subTest(reason=reason):
                self.metrics["datagrams_rejected"] = {reason: 17}
                self.found("key", "fleet key", f"{what}.*: 17 datagrams dropped", "key")
                (self.dir / "rund/control").unlink()

    def test_same_id(self):
        self.metrics["datagrams_rejected"]["same_id"] = 3
        self.found("host-id", "/etc/machine-id", "another agent has the host id.*3 datagrams", "systemd-machine-id-setup")


class Qualified(DoctorTest):
    """survive = auto, the default"""

    def row(self, **members):
        self.qualified["devices"].append({"device": "mlx5_1", **members})

    def test_qualified(self):
        self.row(state="qualified")
        self.row(state="none", running=True)
        self.row(state="unknown", why="no mlx5 device")
        self.assertNotIn("qualified", [finding["check"] for finding in self.doctor()["findings"]])

    def test_failed(self):
        self.row(state="failed", trial="flush", assumption="all work requests are flushed", reason="slot 3 was not")
        self.found("qualified", "mlx5_1", r'"all work requests are flushed" does not hold \(flush: slot 3 was not\); connections at work stay on it',
                   "nothing has to be done", level="note")

    def test_no_verdict(self):
        self.row(state="none")
        self.qualified["waits"] = "programs have queue pairs"
        self.found("qualified", "mlx5_1", "nobody has found out whether it qualifies: programs have queue pairs;", "meshverbs qualify mlx5_1", level="note")

    def test_unsure(self):
        self.row(state="unsure", trial="holes", reason="disturbed")
        self.found("qualified", "mlx5_1", r"is not certain \(holes: disturbed\)", "meshverbs qualify mlx5_1", level="note")

    def test_refused(self):
        self.row(state="refused", why="x.json: others may write it: chmod go-w")
        self.found("qualified", "mlx5_1", "not believed: x.json: others may write it", "correct or remove that file")

    def test_not_asked_for(self):
        self.row(state="none")
        for conf in ("[survive]\nqualify = never\n", "[meshverbs]\nmode = observe\n", "[meshverbs]\nmoves = off\n"):
            with self.subTest(conf=conf):
                self.file("etc/libibverbs.d/mesh/mesh.conf", conf)
                self.assertNotIn("qualified", [finding["check"] for finding in self.doctor()["findings"]])
                (self.dir / "rund/control").unlink(missing_ok=True)


class Keys(DoctorTest):
    """Without a fleet key, on a host with an identity."""

    KEYS = [letter * 43 + "=" for letter in "ABCD"]

    def setUp(self):
        super().setUp()
        self.status.update(has_key=False, identity={"name": "a", "key": self.KEYS[0], "lasting": True})
        self.file("var/lib/meshverbs/identity", "secret").chmod(0o600)
        self.file("var/lib/meshverbs/known_hosts", "").chmod(0o600)
        self.keys["hosts"] = [{"name": "b", "trust": "pinned", "key": self.KEYS[1], "pinned_key": self.KEYS[1]}]

    def found(self, *args, also=(), **kwargs):
        return super().found(*args, also={"key", *also}, **kwargs)

    def test_nothing(self):
        got = self.doctor()
        self.assertEqual([(f["check"], f["level"]) for f in got["findings"]], [("key", "note")])
        self.assertIn("hosts know each other by keys of their own (meshverbs keys)", got["findings"][0]["what"])
        self.assertEqual({check["name"] for check in got["checks"] if check["state"] == "skipped"}, set())

    def test_identity_that_others_may_read(self):
        for mode in (0o644, 0o640):
            with self.subTest(mode=mode):
                (self.dir / "var/lib/meshverbs/identity").chmod(mode)
                self.found("key-files", "/var/lib/meshverbs/identity", rf"others may use the secret of this host \(mode 0{mode:o}\)",
                           "^rm /var/lib/meshverbs/identity; systemctl restart meshverbsd.*meshverbs keys forget with the name")
                (self.dir / "rund/control").unlink()

    def test_known_hosts_that_others_may_write(self):
        (self.dir / "var/lib/meshverbs/known_hosts").chmod(0o664)
        self.found("key-files", "/var/lib/meshverbs/known_hosts", r"others may write the keys of other hosts \(mode 0664\)", "chmod 0600")

    def test_fleet_key_that_others_may_read(self):
        self.status = None
        self.file("etc/mesh.key", "").chmod(0o604)
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[agent]\nkey = /etc/mesh.key\n")
        super().found("key-files", "/etc/mesh.key", r"everybody on this host may use the fleet key \(mode 0604\)",
                      "^chmod 0600 /etc/mesh.key.*meshverbsd --make-key", also={"agent"})

    def test_no_identity(self):
        self.status.update(identity=None, identity_error="/var/lib/meshverbs/identity: a line of it is not understood")
        self.found("identity", "identity", "^this host has no key of its own: /var/lib/meshverbs/identity: a line of it is not understood$",
                   "^mend that, or remove the file; systemctl restart meshverbsd")

    def test_no_identity_wanted(self):
        self.status.update(identity=None, identity_error="the agent runs with --run-dir and without --state-dir")
        self.found("identity", "identity", "without --state-dir", "^name a directory that lasts by --state-dir", level="note")

    def test_identity_that_does_not_last(self):
        self.status["identity"]["lasting"] = False
        self.found("identity", "identity", "cannot be written, so the agent makes another with each start", "^install -d -m 0700.*restart meshverbsd")

    def test_identity_that_does_not_last_in_a_container(self):
        self.status["identity"]["lasting"] = False
        self.file("run/.containerenv", "")
        self.found("identity", "identity", "cannot be written", "^mount the host's /var/lib/meshverbs")

    def test_known_hosts_that_cannot_be_written(self):
        self.status["keys_error"] = "No space left on device"
        self.found("identity", "/var/lib/meshverbs/known_hosts", "is not written, and forgotten with the agent: No space left", "its owner, its mode")

    def test_changed_key(self):
        self.keys["hosts"].append({"name": "c", "trust": "changed", "key": self.KEYS[2], "pinned_key": self.KEYS[3]})
        self.found("peer-keys", "c", f"^it shows the key {self.KEYS[2]}, but is known with {self.KEYS[3]}$",
                   "^was it installed anew,.*Then meshverbs keys forget c; if not, somebody speaks in its name")

    def test_host_id_of_another(self):
        self.keys["hosts"].append({"name": "c", "trust": "changed", "key": self.KEYS[2]})
        self.found("peer-keys", "c", "c has the host id of a host that is silent$", "Then meshverbs keys forget its former name")

    def test_changed_keys(self):
        self.keys["hosts"] += [{"name": f"n{i}", "trust": "changed", "key": self.KEYS[2], "pinned_key": self.KEYS[3]} for i in range(7)]
        self.found("peer-keys", "n0, n1, n2, n3, n4 and 2 more", "^7 hosts show other keys than they are known with; n0 shows", "keys forget n0")

    def test_revoked_key(self):
        self.keys["hosts"].append({"name": "c", "trust": "revoked", "key": self.KEYS[2]})
        self.found("peer-keys", "c", "1 hosts have keys that are revoked", "meshverbs keys restore", level="note")

    def test_impostors(self):
        self.metrics["impostors"] = 17
        self.found("peer-keys", "impostors", "17 times.* with another key: ignored", "journalctl -u meshverbsd -g 'speaks as host'")

    def test_hosts_without_identity(self):
        self.keys["hosts"].append({"name": "c", "trust": "none"})
        self.found("peer-identities", "c", "1 hosts have no key of their own, and this one has", "^upgrade meshverbs there", level="note")

    def test_hosts_beyond_routers(self):
        self.keys["hosts"].append({"name": "c", "trust": "unpinned", "key": self.KEYS[2]})
        self.found("peer-identities", "c", "1 hosts beyond routers are not authenticated", "^meshverbs keys pin HOST KEY, or key=KEY in", level="note")

    def routed_found(self, conf, state):
        (self.dir / "rund/control").unlink()
        if conf:
            self.file("etc/libibverbs.d/mesh/mesh.conf", conf)
        self.qualified["devices"] = [{"device": "mlx5_1", "state": state}]
        self.found("peers-routed", "c", "^1 hosts are beyond routers and not authenticated: connections with them do not leave",
                   "key=KEY.*or have a fleet key", level="note")

    def test_routed_hosts(self):
        def more(directory):
            for name, flags in (("c", Directory.ROUTED), ("d", Directory.ROUTED | Directory.AUTHENTICATED), ("e", 0)):
                directory.host(name, flags=flags)

        self.peers = self.make_peers(more=more)
        self.qualified["devices"] = [{"device": "mlx5_1", "state": "failed"}]
        self.assertNotIn("peers-routed", [f["check"] for f in self.doctor()["findings"]])  # nothing moves at work
        for conf, state in ((None, "qualified"), ("[meshverbs]\nsurvive = on\n", "none")):
            with self.subTest(conf=conf):
                self.routed_found(conf, state)
        (self.dir / "rund/control").unlink()
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nsurvive = on\n[survive]\nunauthenticated = on\n")
        self.assertEqual([f["check"] for f in self.doctor()["findings"]], ["key"])

    def test_ipoib_without_a_key(self):
        for name, kind in (("ib0", 32), ("ib1", 32), ("eth0", 1), ("lo", 772)):
            self.sysfs.write(f"class/net/{name}/type", f"{kind}\n")
        self.found("ipoib", "ib0, ib1", "^every user who may open an RDMA device can send any IP packet", "fleet key", level="note")
        (self.dir / "rund/control").unlink()
        self.status["has_key"] = True
        self.assertEqual(self.doctor()["findings"], [])

    def test_with_a_fleet_key(self):
        """Identities do nothing then."""
        self.status.update(has_key=True, identity=None, identity_error="x")
        self.keys["hosts"].append({"name": "c", "trust": "changed", "key": self.KEYS[2], "pinned_key": self.KEYS[3]})
        self.assertEqual(self.doctor()["findings"], [])

    def test_older_agent(self):
        del self.status["identity"]
        got = self.doctor()
        self.assertEqual({c["name"]: c["skipped"] for c in got["checks"] if c["state"] == "skipped"},
                         {name: "the agent is of a version without identities" for name in ("identity", "peer-keys", "peer-identities")})

    @unittest.skipIf(os.geteuid(), "needs another user")
    def test_of_another_user(self):
        """Who may not look into the directory finds nothing there, and is told so."""
        (self.dir / "var/lib/meshverbs").chmod(0o700)
        self.agent(self.answers())
        self.dir.chmod(0o755)
        pathlib.Path(self.dir).parent.chmod(0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", TOOL, "--sysfs", self.dir / "sys", "--root", self.dir, "doctor", "-j"],
                              env=self.env, text=True, capture_output=True, timeout=60, check=False)
        skipped = {c["name"]: c["skipped"] for c in json.loads(done.stdout)["checks"]}
        self.assertEqual(skipped["key-files"], "only root may look into /var/lib/meshverbs")


class Peers(DoctorTest):
    def test_silent(self):
        def more(directory):
            for i in range(7):
                directory.host(f"n{i}", agent_version=0)
        self.peers = self.make_peers(more=more)
        self.found("peers-silent", "n0, n1, n2, n3, n4 and 2 more", "7 hosts of the hosts file", "start meshverbsd there, let UDP port 28791")

    def test_newer(self):
        self.peers = self.make_peers(version=9)
        self.found("peers-version", "b", "newer version", "upgrade meshverbs on this host")

    def test_addresses_twice(self):
        """Of both RoCE versions of an address one finding for each other host; link-local ones may be anywhere."""
        def more(directory):
            directory.host("c")
            directory.rail("mlx5_9", [(0, "fe80::1/64", 2), (3, "10.2.0.1/24", 2), (2, "10.2.0.1/24", 1)], netdev="eth9")

        self.peers = self.make_peers(more=more)
        self.found("addresses-twice", "10.2.0.1 (eth1)", "^mlx5_9 of host c has this address, too", "another address; ip neigh")

    def test_mtu(self):
        self.peers = self.make_peers(mtu=1024)
        got = self.doctor()
        self.assertEqual([(f["check"], f["thing"]) for f in got["findings"]], [("mtu", "mlx5_0 (eth0)"), ("mtu", "mlx5_1 (eth1)")])
        self.assertIn("its RoCE MTU is 4096, that of mlx5_0 on b is 1024", got["findings"][0]["what"])
        self.assertIn("ip link set eth0 mtu", got["findings"][0]["fix"])


if __name__ == "__main__":
    unittest.main()
