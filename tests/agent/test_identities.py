#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Identities of hosts: pinned at first contact, sealed in pairs, changed, rotated:  test_identities.py BUILD [TEST...]"""
import base64
import json
import os
import pathlib
import re
import signal
import socket
import sys
import threading
import time
import unittest

import hosts
from hosts import wait_for

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "attack"))
import attacknet  # noqa: E402
import wire  # noqa: E402

BUILD = None
FAR_APART_MS = 60000  # between two beacons: neither host forgets the other one while it has no processor


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
        self.stood, self.stopped = 0, None  # seconds that agents stood still; since when one does

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

    def order(self, host, /, **order):
        return json.loads(host.ask(json.dumps(order)))

    def waited(self):
        """How long agents were ready to run, and other processes had the processors."""
        return sum(attacknet.waited_seconds(host.agent.pid) for host in self.world.hosts.values() if host.agent)

    def stalled(self):
        """How long agents had no processor."""
        return self.waited() + self.stood + (time.monotonic() - self.stopped if self.stopped else 0)

    def traffic(self, a, b):
        """Messages, one after the other, each of which has to arrive. Agents give up a message after a second: that is no fault if an agent
        had no processor for most of that time."""
        ends = a.talk(), b.talk()
        self.qpn += 1
        qpn, number = self.qpn, 0
        for end in ends:
            end.register("mlx5_0", qpn)

        def arrives(end, gid, other, other_gid):
            nonlocal number
            number, before = number + 1, self.stalled()
            end.say(f"send {gid} {qpn} {other_gid} {qpn} {number}")
            came, given_up = f"deliver mlx5_0 {qpn} {gid} {qpn} {number}", f"unreachable {other_gid} {qpn} {number}"
            wait_for(f"'{came}', there is {other.lines}", lambda: came in other.poll() or given_up in end.poll())
            if came in other.poll():
                return True
            self.assertGreater(self.stalled() - before, 0.7, "a message has not arrived")
            return False

        def say():
            wait_for("there", lambda: arrives(ends[0], "10.1.0.1", ends[1], "10.1.0.2"))
            wait_for("and back", lambda: arrives(ends[1], "10.1.0.2", ends[0], "10.1.0.1"))
        return say

    def identified_pair(self, interval_ms=300):
        a, b = self.pair()
        self.world.identify(a, b)
        for host in (a, b):
            host.settings["beacon_interval_ms"] = interval_ms
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
        self.assertIn("if it was installed anew: meshverbs keys forget b", log)
        self.assertGreaterEqual(a.metric("host_keys_changed"), 1)

    def test_host_id_of_a_known_host(self):
        """Somebody else speaks with the host id of a host that is known and silent: also to an agent that has just started."""
        a, b = self.identified_pair()
        known = time.time()
        wait_for("known_hosts", (a.state_dir / "known_hosts").exists)
        b.stop()
        wait_for("b is forgotten", lambda: a.peers() == [])
        time.sleep(max(0, known + 1.1 - time.time()))  # since when a host is known is noted in seconds
        right, b.name, b.state_dir = b.state_dir, "mallory", b.dir / "other"
        b.state_dir.mkdir()
        os.chown(b.state_dir, hosts.NOBODY, hosts.NOBODY)
        listener = attacknet.Listener(a.netns, "eth0")
        b.start()
        said = {}
        while len(said) < 2:
            source, datagram = listener.datagram(lambda head: head.kind in (wire.BEACON, wire.IDENTITY))
            said[wire.Header.parse(datagram).kind] = source, datagram
        listener.close()
        wait_for("mallory", lambda: self.known(a, "mallory")["trust"] == "changed")
        self.assertIn("has the host id of host b, which is silent: not authenticated", a.log.read_text())
        a.stop()
        a.start()
        wait_for("mallory", lambda: self.known(a, "mallory")["trust"] == "pinned")
        b.stop()
        b.name, b.state_dir = "b", right
        forger, stop = attacknet.Forger(b.netns, "eth0", "33:33:00:00:00:01"), threading.Event()

        def speak():
            while not stop.wait(0.02):
                for source, datagram in said.values():
                    forger.send(source, "ff12::6d65:7368", datagram)
        thread = threading.Thread(target=speak)
        thread.start()
        try:
            time.sleep(1.2)  # longer than a host is known without a beacon
            self.assertEqual(self.known(a, "mallory")["trust"], "pinned")
            b.start()
            self.both(a, b)
            self.assertEqual(a.peers(), ["b"])
            self.traffic(a, b)()
        finally:
            stop.set()
            thread.join()
            forger.close()
        self.assertIn("host mallory, met for the first time, had the host id of host b", a.log.read_text())
        self.assertGreater(a.metric("impostors"), 0)

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

    def refused(self, *group):
        """Datagrams that were refused for their key, or for what a key protects. Not "unproven": that says that the key was right, and
        that no cookie is known yet for the address. The sender is told the cookie, and sends again."""
        return [{verdict: n for verdict, n in host.metric("datagrams_rejected").items() if verdict != "unproven"} for host in group]

    def rotate(self, host):
        """Return: its new key, when it is in force."""
        answer = self.order(host, do="key-rotate")
        self.assertEqual(sorted(answer), ["former_key", "key"], answer)
        wait_for("rotated", lambda: self.own(host) == answer["key"])
        return answer["key"]

    def without_processor(self, host, say):
        """The host's agent does not run for a moment. So messages to that host are sent again, to addresses that were not used before."""
        def go_on():
            host.agent.send_signal(signal.SIGCONT)
            self.stood, self.stopped = self.stood + time.monotonic() - self.stopped, None

        host.halt()
        self.stopped = time.monotonic()
        goes_on = threading.Timer(0.5, go_on)
        goes_on.start()
        try:
            say()
        finally:
            goes_on.join()

    def test_rotation(self):
        """Messages both ways while both ends change their keys: each arrives, none is refused for its key, both stay authenticated."""
        a, b = self.identified_pair(FAR_APART_MS)
        say = self.traffic(a, b)
        before = self.refused(a, b)
        for host, other in ((a, b), (b, a)):
            old = self.own(host)
            answer = self.order(host, do="key-rotate")
            self.assertEqual(answer["former_key"], old)
            self.without_processor(other, say)
            self.without_processor(host, say)

            def learnt():
                say()
                for one, name in ((host, other.name), (other, host.name)):
                    self.assertTrue(self.known(one, name)["authenticated"])
                return self.known(other, host.name).get("pinned_key") == answer["key"]
            wait_for("the new key is known", learnt)
            say()
            self.assertEqual((self.own(host), self.known(other, host.name)["how"]), (answer["key"], "rotated"))
            self.assertEqual(other.metric("host_keys_rotated"), 1)
            self.assertIn(f"host {host.name} has a new key, which its former key has signed: {answer['key']}", other.log.read_text())
        self.assertEqual(self.refused(a, b), before)
        self.assertEqual([host.metric("host_keys_changed") + host.metric("impostors") for host in (a, b)], [0, 0])
        self.assertIn("less than a minute ago", self.order(a, do="key-rotate")["error"])
        # The file of either outlives its agent.
        key = self.own(a)
        a.stop()
        a.start()
        self.both(a, b)
        self.assertEqual((self.own(a), self.known(b, "a")["pinned_key"]), (key, key))
        self.traffic(a, b)()

    def test_rotation_of_both(self):
        """At the same time, so neither end knows of the other's new key."""
        a, b = self.identified_pair(FAR_APART_MS)
        say = self.traffic(a, b)
        before = self.refused(a, b)
        keys = {host: self.order(host, do="key-rotate")["key"] for host in (a, b)}

        def learnt():
            say()
            return all(self.known(other, host.name).get("pinned_key") == keys[host] for host, other in ((a, b), (b, a)))
        wait_for("the new keys are known", learnt)
        say()
        self.assertEqual(self.refused(a, b), before)
        self.both(a, b)

    def test_rotation_in_absence(self):
        """A host that was away during one rotation takes the new key all the same."""
        a, b = self.identified_pair()
        a.stop()
        wait_for("a is forgotten", lambda: b.peers() == [])
        key = self.rotate(b)
        a.start()
        self.both(a, b)
        self.assertEqual((self.known(a, "b")["pinned_key"], self.known(a, "b")["how"]), (key, "rotated"))
        self.traffic(a, b)()

    def test_rotation_cannot_be_written(self):
        a, b = self.identified_pair()
        key = self.own(a)
        (a.state_dir / "identity.new").mkdir()
        self.order(a, do="key-rotate")
        wait_for("said", lambda: "rotate_error" in a.get("status"))
        self.assertEqual(self.own(a), key)
        self.assertIn("identity: File exists: this host keeps its key", a.log.read_text())
        (a.state_dir / "identity.new").rmdir()
        self.rotate(a)
        self.both(a, b)
        self.assertNotIn("rotate_error", a.get("status"))

    def saved(self, host):
        wait_for("saved", lambda: not host.get("status")["keys_unsaved"])
        return (host.state_dir / "known_hosts").read_text()

    def test_orders(self):
        """What the administrator says of another host's key."""
        a, b = self.identified_pair()
        say, key, other = self.traffic(a, b), self.own(b), self.own(a)
        say()
        self.order(a, do="key-pin", host="b", key=key)  # the one that it has: nothing is interrupted
        self.assertEqual((self.known(a, "b")["authenticated"], self.known(a, "b")["how"]), (True, "operator"))
        say()
        self.order(a, do="key-forget", host="b")  # nobody is refused for longer than it takes to meet again
        say()
        self.both(a, b)
        self.assertEqual(self.known(a, "b")["how"], "first-contact")
        self.assertEqual(self.order(a, do="key-pin", host="b", key=other), {"host": "b", "key": other, "former_key": key})
        wait_for("changed", lambda: self.known(a, "b")["trust"] == "changed")
        self.authenticated(a, "b", False)
        self.assertIn(f"b {other} operator ", self.saved(a))
        self.assertEqual(self.order(a, do="key-forget", host="b"), {"host": "b", "key": other})
        self.both(a, b)
        self.assertEqual(self.known(a, "b")["how"], "first-contact")
        self.assertIn(f"b {key} first-contact ", self.saved(a))
        say()
        self.assertEqual(self.order(a, do="key-revoke", host="b"), {"host": "b", "key": key})
        wait_for("revoked", lambda: self.known(a, "b")["trust"] == "revoked")
        self.authenticated(a, "b", False)
        self.assertIn(f"b {key} revoked ", self.saved(a))
        end = a.talk()  # to b, which takes nothing plain in a's name
        end.register("mlx5_0", 9)
        end.say("send 10.1.0.1 9 10.1.0.2 9 1")
        wait_for("refused", lambda: b.metric("datagrams_rejected")["unsealed"])
        self.assertIn(f"this key is revoked: meshverbs keys restore b {key}", self.order(a, do="key-pin", host="c", key=key)["error"])
        a.stop()
        a.start()
        wait_for("revoked, still", lambda: self.known(a, "b")["trust"] == "revoked")
        self.assertEqual(self.order(a, do="key-restore", host="b"), {"host": "b", "key": key})
        self.both(a, b)
        self.assertNotIn("revoked", self.saved(a))
        self.traffic(a, b)()

    def test_known_hosts_that_cannot_be_used(self):
        """Hosts are met anew, so that messages pass: hosts that know this one take nothing plain from it. The file waits for its repair."""
        a, b = self.identified_pair()
        nobody = base64.b64encode(wire.Signer(bytes(32)).public).decode()
        self.traffic(a, b)()
        self.order(a, do="key-revoke", host="c", key=nobody)
        kept = self.saved(a)
        self.assertIn(f"c {nobody} revoked ", kept)
        a.stop()
        (a.state_dir / "known_hosts").chmod(0o620)
        a.start()
        self.both(a, b)
        self.traffic(a, b)()
        self.assertIn("known_hosts: others may write it: chown it to the user of the agent, chmod 0600: all hosts are met anew, no key counts as "
                      "revoked, and nothing is written there, until that is mended and the agent restarted", a.log.read_text())
        self.assertIn("could not be read", self.order(a, do="key-revoke", host="c", key=nobody)["error"])
        a.stop()
        self.assertEqual((a.state_dir / "known_hosts").read_text(), kept)
        (a.state_dir / "known_hosts").chmod(0o600)
        a.start()
        self.both(a, b)
        self.assertIn("this key is revoked", self.order(a, do="key-pin", host="c", key=nobody)["error"])

    def start_again(self, a, b, identity=None):
        """b, with another file for its identity, or none, when a has forgotten that it was there."""
        b.stop()
        wait_for("b is forgotten", lambda: a.peers() == [])
        if identity:
            (b.state_dir / "identity").write_text(identity)
        else:
            (b.state_dir / "identity").unlink()
        b.start()

    def test_former_key(self):
        """Who has a former key of a host is not that host; and what a revoked key has signed is no better than that key."""
        a, b = self.identified_pair()
        stolen = (b.state_dir / "identity").read_text()
        key = self.rotate(b)
        wait_for("the new key is known", lambda: self.known(a, "b")["pinned_key"] == key)
        right = (b.state_dir / "identity").read_text()
        self.start_again(a, b, stolen)
        wait_for("the former key is none of b's", lambda: self.known(a, "b")["trust"] == "changed")
        self.authenticated(a, "b", False)
        self.start_again(a, b, right)
        self.both(a, b)
        self.assertEqual(self.order(a, do="key-revoke", host="b")["key"], key)
        wait_for("revoked", lambda: self.known(a, "b")["trust"] == "revoked")
        signed = self.rotate(b)
        wait_for("what it has signed", lambda: self.known(a, "b")["key"] == signed)
        self.assertEqual(self.known(a, "b")["trust"], "revoked")
        self.assertFalse(self.known(a, "b")["authenticated"])
        self.start_again(a, b)
        self.both(a, b)
        self.assertEqual(self.known(a, "b")["how"], "first-contact")
        self.traffic(a, b)()

    def test_orders_refused(self):
        a, b = self.identified_pair()
        key, nobody = self.own(b), wire.Signer(bytes(32)).public
        for order, error in (
                ({"do": "key-pin", "host": "b", "key": "abc"}, "'abc' is no key of a host: copy all 44 characters"),
                ({"do": "key-pin", "host": "two words", "key": key}, "the key of host two words cannot be noted: this is no name"),
                ({"do": "key-forget", "host": "c"}, "no key of host c is known: meshverbs keys lists them"),
                ({"do": "key-revoke", "host": "c"}, "no key of host c is known"),
                ({"do": "key-revoke", "host": "a", "key": self.own(a)}, "this is the key of this host: meshverbs keys rotate"),
                ({"do": "key-restore", "host": "b"}, "no key of host b is revoked"),
                ({"do": "key-restore", "host": "b", "key": base64.b64encode(nobody).decode()}, "this key of host b is not revoked")):
            self.assertIn(error, self.order(a, **order)["error"])
        (a.dir / "hosts").write_text(f"b 10.1.0.2 key={key}\n")
        a.agent.send_signal(1)
        wait_for("the hosts file", lambda: self.known(a, "b")["how"] == "hosts-file")
        self.assertIn("has a key of host b, which has precedence", self.order(a, do="key-pin", host="b", key=self.own(a))["error"])
        self.assertEqual(self.order(a, do="key-forget", host="b")["key"], key)  # the one beside the hosts file's
        self.assertIn("the key of host b is in the hosts file", self.order(a, do="key-forget", host="b")["error"])
        self.both(a, b)
        code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
                "s.sendall(sys.argv[2].encode() + b'\\n'); print(s.recv(4096).decode())")
        for order in ({"do": "key-forget", "host": "b"}, {"do": "key-rotate"}):
            said = json.loads(hosts.sh(*hosts.as_user(1), sys.executable, "-c", code, str(a.control_dir / "control"), json.dumps(order)))
            self.assertEqual(said["error"], "only root and the user of the agent may change keys, and not in a container")
        self.assertRegex(a.log.read_text(), r"user 1, process \d+ may not forget the key of host b")
        self.both(a, b)
        # Where it cannot be written, that is said, and it is tried again.
        (a.state_dir / "known_hosts.new").mkdir()
        self.order(a, do="key-pin", host="c", key=key)
        wait_for("said", lambda: a.get("status").get("keys_error") == "File exists")
        (a.state_dir / "known_hosts.new").rmdir()
        self.order(a, do="key-pin", host="d", key=key)
        self.assertRegex(self.saved(a), rf"c {re.escape(key)} operator \d+\nd {re.escape(key)} operator ")

    def test_command(self):
        """meshverbs keys, with an agent: what it has changed is on the disk when it returns."""
        a, b = self.identified_pair()

        def keys(*words):
            return json.loads(hosts.sh(f"{BUILD}/tools/meshverbs", "--run-dir", str(a.run_dir), "--control-dir", str(a.control_dir), "keys", "-j",
                                       *words))

        key, file = self.own(b), a.state_dir / "known_hosts"
        shown = keys()
        self.assertEqual(shown["identity"]["key"], self.own(a))
        self.assertLess(abs(shown["identity"]["since"] - (a.state_dir / "identity").stat().st_mtime), 2)
        self.assertEqual([(host["host"], host["key"], host["pinned_key"], host["how"], host["authenticated"], host["trust"])
                          for host in shown["hosts"]], [("b", key, key, "first-contact", True, "pinned")])
        self.assertEqual(keys("pin", "c", key), {"done": "pin", "host": "c", "key": key, "former_key": None, "saved": True})
        self.assertIn(f"c {key} operator ", file.read_text())
        self.assertEqual(keys("revoke", "c"), {"done": "revoke", "host": "c", "key": key, "former_key": None, "saved": True})
        self.assertIn(f"c {key} revoked ", file.read_text())
        keys("restore", "c")
        self.assertNotIn("revoked", file.read_text())
        before = (a.state_dir / "identity").read_text()
        self.assertEqual(keys("rotate")["key"], self.own(a))
        after = (a.state_dir / "identity").read_text()
        self.assertNotEqual(after, before)
        self.assertIn(f"former {shown['identity']['key']} ", after)
        b.stop()
        wait_for("b is forgotten", lambda: a.peers() == [])
        gone, = [host for host in keys()["hosts"] if host["host"] == "b"]
        self.assertEqual((gone["trust"], gone["heard_ms"]), ("not-heard", None))
        self.assertLess(abs(gone["seen"] - time.time()), hosts.WAIT_S)

    def test_impostor(self):
        """Another host announces the name, the id and the GID of one that is known, with a key of its own."""
        a, b = self.identified_pair()
        c = self.world.host("c")
        self.world.cable(a, "eth1", c, "eth0", ["10.2.0.1/24"], ["10.2.0.3/24"])
        a.device("mlx5_1", "eth1", ["10.2.0.1"])
        wait_for("a listens there", lambda: [net["netdev"] for net in a.get("status")["nets"] if net["running"]] == ["eth0", "eth1"])
        say = self.traffic(a, b)
        say()
        key = self.own(b)
        status = b.get("status")
        with attacknet.inside(a.netns):
            listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x86dd))
            listener.bind(("eth0", 0))
        self.addCleanup(listener.close)
        listener.settimeout(hosts.WAIT_S)
        raw = b""
        while b"MVDG" not in raw:  # b's start number, as everybody on the link hears it
            raw = listener.recv(2048)
        started = wire.Header.parse(raw[raw.find(b"MVDG"):]).start
        sender, mallory = bytes.fromhex(status["id"]), wire.Signer(b"m" * 32)
        theirs = base64.b64encode(mallory.public).decode()
        desc = wire.description(wire.rail("mlx5_0", "eth0", ["10.1.0.2"], flags=0))
        with attacknet.inside(c.netns):
            sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            sock.bind(("::", wire.PORT))
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
            scope = socket.if_nametoindex("eth0")
        self.addCleanup(sock.close)

        def announce(name, sender, start, generation):
            for kind, payload in ((wire.BEACON, wire.beacon(desc, name=name, generation=generation)),
                                  (wire.IDENTITY, wire.statement(mallory, sender, start, name, generation)),
                                  (wire.BEACON, wire.beacon(desc, name=name, generation=generation))):
                head = wire.Header(kind=kind, sender=sender, start=start, counter=1 << 60, mine=b"m" * 16)
                sock.sendto(head.pack() + payload, ("ff12::6d65:7368", wire.PORT, 0, scope))

        # With b's own id, in this life and in a later one.
        wait_for("the impostor is seen", lambda: (announce("b", sender, started, 1000), a.metric("impostors"))[1] >= 1)
        for number in range(10):
            announce("b", sender, started + number % 2, 1001 + number)
            say()
        wait_for("more of them are", lambda: (announce("b", sender, started, 2000), a.metric("impostors"))[1] >= 5)
        # With an id of its own and b's name.
        wait_for("its twin by name is seen", lambda: (announce("b", b"M" * 16, 1, 1), a.metric("host_keys_changed"))[1] >= 1)
        for _ in range(10):
            announce("b", b"M" * 16, 1, 1)
            say()
        known = {}

        def both_known():
            announce("b", b"M" * 16, 1, 1)
            known.update({entry["id"]: entry for entry in a.get("keys")["hosts"]})
            return (b"M" * 16).hex() in known
        wait_for("both are known", both_known)
        self.assertEqual((known[status["id"]]["authenticated"], known[status["id"]]["key"], known[status["id"]]["pinned_key"]), (True, key, key))
        self.assertEqual((known[(b"M" * 16).hex()]["authenticated"], known[(b"M" * 16).hex()]["trust"]), (False, "changed"))
        directory = wire.Directory(a.run_dir / "directory")
        self.assertEqual((directory.holders("10.1.0.2"), directory.up("10.1.0.2")), ({"b"}, True))
        self.assertTrue(all(directory.rails[entry[1]][2] == [host[0] for host in directory.hosts].index(sender)
                            for entry in directory.gids if entry[0] == wire.gid("10.1.0.2")))
        log = a.log.read_text()
        self.assertEqual(len(re.findall(rf"somebody at fe80::[0-9a-f:]+ on eth1, with the key {re.escape(theirs)}, speaks as host b, "
                                        rf"which has the key {re.escape(key)}: ignored", log)), 1)
        self.assertEqual(log.count("speaks as host"), 1)
        self.assertEqual(log.count(f"host b has the key {theirs}, but is known with {key}: not authenticated"), 1)
        say()

if __name__ == "__main__":
    why = hosts.cannot_run()
    if why:
        print(f"cannot run here: {why}")
        sys.exit(hosts.SKIP)
    BUILD = sys.argv.pop(1)
    unittest.main(verbosity=2)
