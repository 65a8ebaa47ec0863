# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Forged messages for connections of two hosts."""

import itertools

import wire
from attackcase import ALICE, AttackTest, GROUP, V, main
from attacknet import link_local, wait_for


class ForgedMessageTest(AttackTest):
    """Without a key: messages for a connection between alice and v, by who holds neither end of it."""

    def setUp(self):
        super().setUp()
        self.with_alice()
        self.ours = self.process(self.v, "mlx5_0", V[1])

    def assert_nothing_came(self):
        self.assertIsNone(self.ours.receive(timeout=0.5))
        self.ours.close()
        self.assert_alice_reaches_v()

    def test_message_of_a_user_of_the_hosts(self):
        """An unprivileged user of alice's host, whose address is right, has not the port of agents while hers runs."""
        user, kinds = self.speaker("alice", "10.0.1.2"), itertools.cycle((wire.HELLO, wire.OFFER, wire.BYE))
        self.feed(lambda: user.say("10.0.1.1", wire.MESSAGE, wire.envelope(wire.message(ALICE, V, next(kinds)), user.counter + 1)), 1500,
                  lambda: self.v.rejected("port"))
        self.assertEqual(self.v.rejected("port"), 1500)
        self.assertIsNone(user.hear(0.3))
        with self.assertRaises(OSError):
            self.speaker("alice", "10.0.1.2", port=wire.PORT)
        self.assert_nothing_came()

    def test_beacon_of_a_user(self):
        """Nor are hosts that he invents believed."""
        forger = self.mallory()
        rail = wire.rail("mlx5_0", "m0", ["10.0.2.2"])
        forger.send(link_local(1, 1), GROUP, self.beacon(rail), port=40000)
        wait_for(lambda: self.v.rejected("port") == 1, self.v.metrics)
        self.assertEqual(self.v.directory().names(), self.alice_name)

    def test_datagrams_over_loopback(self):
        """A user of v's own host takes no room in the agent's sockets: no agent sends over loopback."""
        mallory = self.mallory()
        for address, to in (("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "10.0.1.1"), ("10.0.1.1", "10.0.1.1"), ("::1", "::1"),
                            (link_local(0, 2), link_local(0, 2)), (link_local(0, 2), GROUP)):
            user = self.speaker("v", address, netdev="v0" if address.startswith("fe80") else None)
            for _ in range(100):
                user.say(to, wire.MESSAGE)
        # What comes later by a link, to each of the two sockets, is counted, and nothing before.
        mallory.send("10.0.2.2", "10.0.2.1", self.beacon(), port=40000)
        mallory.send(link_local(1, 1), GROUP, self.beacon(), port=40000)
        wait_for(lambda: self.v.rejected("port") >= 2, self.v.metrics)
        self.assertEqual(self.v.rejected("port"), 2)
        self.assert_nothing_came()

    def test_message_of_an_invented_host(self):
        """A host that invents itself, or others, speaks for its own GIDs: not for alice's, and not under her id."""
        stranger = self.stranger()
        alice_id = next(host[0] for host in self.v.directory().hosts[1:] if host[1].rstrip(b"\0").decode() in self.alice_name)
        kinds = itertools.cycle((wire.HELLO, wire.OFFER, wire.BYE))
        for sender in (stranger.sender, alice_id, b"X" * 16):
            self.feed(lambda sender=sender: stranger.say("10.0.2.1", wire.MESSAGE, wire.envelope(wire.message(ALICE, V, next(kinds)), stranger.counter + 1),
                                                         sender=sender), 300, lambda: self.v.metrics()["messages_not_theirs"])
        self.assertEqual(self.v.metrics()["messages_not_theirs"], 900)
        said = [line for line in self.v.text().splitlines() if "does not have these GIDs" in line]
        self.assertEqual(len(said), 1, said)
        self.assertIn("dropped a message from 10.0.2.2 in the name of 10.0.1.2", said[0])
        self.assertIsNone(self.ours.receive(timeout=0.3))
        # For its own it may.
        message = wire.message(("10.0.2.2", 5), V)
        stranger.say("10.0.2.1", wire.MESSAGE, wire.envelope(message, stranger.counter + 1))
        self.assertEqual(self.ours.receive(), message)
        self.assert_nothing_came()

    def test_message_names_its_host(self):
        """A link-local GID may have several holders: whose message it is the process is told, and that is not what the message says."""
        self.ours.sock.send(wire.frame(wire.SENDERS, version=wire.CTL_VERSION))
        stranger = self.stranger()
        self.mallory().send(link_local(1, 1), GROUP, self.beacon(
            wire.rail("mlx5_0", "m0", ["10.0.2.2", "fe80::77"]), interval_ms=60000, generation=2, counter=2))
        wait_for(lambda: self.v.directory().holders("fe80::77") == {"mallory"}, "mallory has it")
        message = wire.message(("fe80::77", 5), V)
        stranger.say("10.0.2.1", wire.MESSAGE, wire.envelope(message, stranger.counter + 1))
        self.assertEqual(self.ours.receive_from(), (stranger.sender, message))

    def test_message_of_a_host_without_an_id(self):
        """An id of zero says that the agent is an older one, which tells no host: nobody has that id, and nothing is delivered with it."""
        self.ours.sock.send(wire.frame(wire.SENDERS, version=wire.CTL_VERSION))
        mallory = self.mallory()
        rail = wire.rail("mlx5_0", "m0", ["10.0.2.2", "fe80::77"])
        mallory.send(link_local(1, 1), GROUP, self.beacon(rail, interval_ms=60000, sender=bytes(16)))
        speaker = self.speaker("mallory", "10.0.2.2", port=wire.PORT, sender=bytes(16))
        message = wire.message(("fe80::77", 5), V)
        for kind in (wire.QUERY, wire.MESSAGE, wire.PROOF, wire.CHALLENGE):
            speaker.say("10.0.2.1", kind, wire.envelope(message, speaker.counter + 1))
        wait_for(lambda: self.v.rejected("not_ours") == 5, self.v.metrics)
        self.assertIsNone(speaker.hear(0.3))
        self.assertEqual(self.v.directory().names(), self.alice_name)
        # With any other id it is a host.
        mallory.send(link_local(1, 1), GROUP, self.beacon(rail, interval_ms=60000))
        wait_for(lambda: self.v.directory().holders("fe80::77") == {"mallory"}, "mallory has it")
        speaker.sender = b"M" * 16
        speaker.meet("10.0.2.1")
        speaker.say("10.0.2.1", wire.MESSAGE, wire.envelope(message, speaker.counter + 1))
        self.assertEqual(self.ours.receive_from(), (speaker.sender, message))

    def test_path_of_another_host(self):
        """Who holds an end of a connection cannot have it moved to somebody else's address: not alice's, not v's own."""
        stranger = self.stranger()
        for path in (ALICE, V, ("10.0.9.9", 7)):
            message = wire.message(("10.0.2.2", 5), V, wire.OFFER, path=path)
            stranger.say("10.0.2.1", wire.MESSAGE, wire.envelope(message, stranger.counter + 1))
        wait_for(lambda: self.v.metrics()["messages_not_theirs"] == 3, self.v.metrics)
        message = wire.message(("10.0.2.2", 5), V, wire.OFFER, path=("10.0.2.2", 6))
        stranger.say("10.0.2.1", wire.MESSAGE, wire.envelope(message, stranger.counter + 1))
        self.assertEqual(self.ours.receive(), message)
        # Nor does an honest agent send that for one of its processes.
        hers = self.process(self.alice, "mlx5_0", ALICE[1])
        hers.send(V[0], wire.message(ALICE, V, wire.OFFER, path=("10.0.2.2", 6)))
        wait_for(lambda: self.alice.metrics()["messages_not_theirs"] == 1, self.alice.metrics)
        hers.close()
        self.assert_nothing_came()


if __name__ == "__main__":
    main()
