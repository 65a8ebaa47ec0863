# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Attacks on agents that have a fleet key."""



import attacknet
import wire
from attackcase import ALICE, AttackTest, GROUP, KEY, V, main
from attacknet import Listener, link_local, wait_for

KEY2 = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"


class KeyTest(AttackTest):
    """With a fleet key: strangers, and those who hear and repeat."""

    key = KEY

    def setUp(self):
        super().setUp()
        self.with_alice()

    def test_without_the_key(self):
        mallory = self.mallory()
        mallory.send(link_local(1, 1), GROUP, self.beacon(wire.rail("mlx5_0", "m0", ["10.0.2.2"])))
        outsider = self.speaker("outsider", "10.0.4.2")
        outsider.say("10.0.3.1", wire.MESSAGE)
        outsider.say("10.0.3.1", wire.QUERY)
        wait_for(lambda: self.v.rejected("plain") == 3, self.v.metrics)
        self.assertIsNone(outsider.hear(0.3))
        self.assertEqual(self.v.directory().names(), self.alice_name)
        # A whole agent without the key, and one with another.
        stranger = self.agent("mallory", [("m0", "10.0.2.2/24", 1, 1)])
        wait_for(lambda: self.v.rejected("plain") > 3 and stranger.rejected("sealed") > 0, self.v.metrics)
        stranger.stop()
        stranger.write_key(KEY2)
        stranger.start()
        wait_for(lambda: self.v.rejected("other_key") > 0, self.v.metrics)
        self.assertEqual(self.v.directory().names(), self.alice_name)
        self.assertEqual(stranger.directory().names(), set())
        self.assert_alice_reaches_v()

    def test_wrong_checksums(self):
        """Datagrams with a wrong checksum, which the kernel counts as dropped, keep no host alive that is dead."""
        forger = self.forger("outsider", "o0", attacknet.mac_of(3, 2))
        packet = bytearray(forger.packet("198.51.100.7", "10.0.3.1", bytes(200), hop_limit=64))
        packet[40] ^= 1  # Ethernet 14, IPv4 20, UDP 6: its checksum

        def alice_dies():
            wait_for(lambda: attacknet.dropped("v") > 10, "v's kernel drops them")
            self.alice.process.kill()
            self.alice.process.wait()
            wait_for(lambda: not self.v.directory().holders("10.0.1.2"), "alice is forgotten")

        self.under_fire(lambda _: forger.sock.send(packet), alice_dies)

    def test_nothing_in_clear(self):
        heard = Listener("v", "v0")
        self.addCleanup(heard.close)
        _, datagram = heard.datagram(lambda head: head.kind == wire.BEACON)
        self.assertEqual(wire.Header.parse(datagram).protection, 1)
        self.assertNotIn(b"mlx5_0", datagram)
        self.assertNotIn(bytes([10, 0, 1, 2]), datagram)

    def replay(self, heard):
        """As somebody on alice's link, with her address and hardware address."""
        forger = self.forger("alice", "a0", attacknet.mac_of(0, 2))
        for source, datagram in heard:
            destination = V[0] if "." in source else link_local(0, 2)
            forger.send(source, destination, datagram)

    def rejections(self):
        return {name: value for name, value in self.v.metrics().items() if name.startswith("datagrams_rejected")}

    def test_replay(self):
        on_v = Listener("v", "v0")
        self.addCleanup(on_v.close)
        ours = self.process(self.v, "mlx5_0", V[1])
        hers = self.process(self.alice, "mlx5_0", ALICE[1])
        hers.send(V[0], wire.message(ALICE, V))
        # The first one went without a cookie.
        heard = [on_v.datagram(lambda head: head.kind == wire.MESSAGE and head.cookie != wire.NO_COOKIE)]
        heard += [on_v.datagram(lambda head: head.kind == wire.BEACON) for _ in range(2)]
        self.assertIsNotNone(ours.receive())
        before = self.v.rejected("replay")
        self.replay(heard * 5)
        wait_for(lambda: self.v.rejected("replay") >= before + 15, self.rejections)
        self.assertIsNone(ours.receive(timeout=0.3))
        # After v has forgotten everything, and alice is gone: nothing of hers comes to life again.
        self.alice.stop()
        self.v.stop()
        self.v.start()
        ours = self.process(self.v, "mlx5_0", V[1])
        self.replay(heard * 5)
        wait_for(lambda: self.v.rejected("unproven") >= 15, self.rejections)
        self.assertEqual(self.v.metrics()["hosts"], 0)
        # The directory of before the restart serves for a moment.
        wait_for(lambda: self.v.directory().names() == set(), "she is forgotten")
        self.assertIsNone(ours.receive(timeout=0.3))
        # And after alice has come back, neither.
        self.alice.start()
        wait_for(lambda: self.v.directory().holders("10.0.1.2"), self.v.metrics)
        before = sum(self.rejections().values())
        self.replay(heard * 5)
        wait_for(lambda: sum(self.rejections().values()) >= before + 15, self.rejections)
        self.assertIsNone(ours.receive(timeout=0.3))

    def test_changed_on_the_way(self):
        on_v = Listener("v", "v0")
        self.addCleanup(on_v.close)
        source, datagram = on_v.datagram(lambda head: head.kind == wire.BEACON)
        changed = bytearray(datagram)
        changed[-20] ^= 1
        before = self.v.rejected("forged")
        self.replay([(source, bytes(changed))])
        wait_for(lambda: self.v.rejected("forged") == before + 1, self.rejections)

    def assert_each_hears_the_other(self):
        """What each sends from now on, and nothing was refused for its key."""
        heard = lambda: [agent.metrics()["beacons_received"] for agent in (self.v, self.alice)]
        before = heard()
        wait_for(lambda: all(now > then + 3 for now, then in zip(heard(), before)), lambda: f"{before}, {heard()}")
        self.assertEqual((self.v.rejected("other_key"), self.alice.rejected("other_key")), (0, 0))
        wait_for(lambda: self.v.directory().holders("10.0.1.2") == self.alice_name, self.v.metrics)

    def test_rotation(self):
        """Both agents change their keys step by step and hear each other all the time."""
        for text in (f"{KEY}\n{KEY2}", f"{KEY2}\n{KEY}", KEY2):
            for agent in (self.v, self.alice):
                agent.write_key(text)
                agent.reload()
                self.assert_each_hears_the_other()
        self.assert_alice_reaches_v()
        # A file that cannot be used leaves the keys as they are.
        self.v.write_key("nonsense")
        self.v.reload()
        self.v.key_file.chmod(0o644)
        self.v.reload()
        self.v.key_file.unlink()
        self.v.reload()
        self.assert_each_hears_the_other()
        self.assert_alice_reaches_v()

    def test_bad_key_file_at_start(self):
        """An agent whose key file cannot be used does not run without one."""
        self.v.stop()
        for text, mode in ((KEY, 0o644), ("nonsense", 0o600), (KEY[:40], 0o600)):
            self.v.write_key(text)
            self.v.key_file.chmod(mode)
            with self.assertRaisesRegex(AssertionError, "key"):
                self.v.start()
        self.v.write_key(KEY)
        self.v.start()

    def test_named_key_that_is_not_there(self):
        """Nor does one whose mesh.conf names a key that is not there, or in a way that cannot be used."""
        self.v.stop()
        for line, why in ((f"key = {self.v.dir}/kee\n", "kee: No such file or directory: .*mesh.conf names this file"),
                          ("key = key\n", "mesh.conf: what stands for key in .agent. cannot be used"),
                          (f"kee = {self.v.key_file}\n", "mesh.conf, which was not understood, may name another key file")):
            with self.subTest(line=line):
                with self.assertRaisesRegex(AssertionError, f"(?s){why}.*cannot start"):
                    self.v.start(line)
                self.v.log.truncate(0)
        self.v.start()


if __name__ == "__main__":
    main()
