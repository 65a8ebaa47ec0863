# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Attacks on a running agent from addresses beyond a router, without a key."""

import signal
import time

import attacknet
import wire
from attackcase import ALICE, OutsiderTest, V, main
from attacknet import Listener, wait_for


class OffPathTest(OutsiderTest):
    """From an address of one's own, or from none, without a key."""

    def test_message_without_cookie(self):
        for number in range(20):
            self.outsider.say("10.0.3.1", wire.MESSAGE, wire.envelope(self.message, number + 1))
        wait_for(lambda: self.v.rejected("unproven") >= 20, self.v.metrics)
        self.assertIsNone(self.ours.receive(timeout=0.5))
        # Nor with one, before it has told who it is: v asks.
        self.outsider.meet("10.0.3.1")
        self.outsider.say("10.0.3.1", wire.MESSAGE, wire.envelope(self.message, 98))
        wait_for(lambda: self.v.metrics()["messages_not_theirs"] == 1, self.v.metrics)
        self.assertIsNone(self.ours.receive(timeout=0.5))
        self.answer_query(self.description())
        self.outsider.say("10.0.3.1", wire.MESSAGE, wire.envelope(self.message, 99))
        self.assertEqual(self.ours.receive(), self.message)

    def test_message_with_forged_source(self):
        forger = self.forger("outsider", "o0", attacknet.mac_of(3, 2))
        self.outsider.meet("10.0.3.1")
        for cookie in (wire.NO_COOKIE, b"x" * 16, self.outsider.cookies["10.0.3.1"]):
            for source in ("10.0.1.2", "10.0.4.77", "10.0.3.77"):
                for kind in (wire.QUERY, wire.ENTRY, wire.MESSAGE, wire.PROOF, wire.CHALLENGE):
                    head = wire.Header(kind=kind, sender=b"M" * 16, counter=1, cookie=cookie,
                                       about=wire.MESSAGE if kind == wire.CHALLENGE else 0)
                    forger.send(source, "10.0.3.1", head.pack() + wire.envelope(self.message, 7), hop_limit=64)
        wait_for(lambda: self.v.rejected("unproven") >= 3 * 3 * 5, self.v.metrics)
        self.assertIsNone(self.ours.receive(timeout=0.5))
        self.assert_alice_reaches_v_from(self.ours)

    def assert_alice_reaches_v_from(self, ours):
        ours.close()
        self.assert_alice_reaches_v()

    def test_long_datagrams(self):
        """What is longer than any datagram of an agent takes no room in the sockets."""
        speaker = self.speaker("outsider", "10.0.4.2")
        for size in [1233, 1400, 3000, 60000] * 20:
            speaker.sock.sendto(bytes(size), ("10.0.3.1", wire.PORT))
        speaker.sock.sendto(bytes(1232), ("10.0.3.1", wire.PORT))
        wait_for(lambda: self.v.rejected("port") >= 1, self.v.metrics)
        self.assertEqual(self.v.rejected("port"), 1)

    def test_no_amplification(self):
        """What goes to an address that has proven nothing is no more than what came from there."""
        sent = received = 0
        for number in range(60):
            kind = (wire.QUERY, wire.MESSAGE, wire.ENTRY)[number % 3]
            datagram = self.outsider.datagram(kind)
            self.outsider.sock.sendto(datagram, ("10.0.3.1", wire.PORT))
            sent += len(datagram)
        wait_for(lambda: self.v.rejected("unproven") >= 60, self.v.metrics)
        while heard := self.outsider.hear(0.5):
            received += wire.HEADER.size + len(heard[1])
            self.assertEqual(heard[0].kind, wire.CHALLENGE)
        self.assertGreater(received, 0)
        self.assertLessEqual(received, sent)

    def waiting_message(self):
        """A message of a process of v to alice that cannot arrive, so that it stays under way for a while."""
        self.alice.process.send_signal(signal.SIGSTOP)
        before = self.v.metrics()["messages_accepted"]
        self.ours.send("10.0.1.2", wire.message(V, ALICE))
        wait_for(lambda: self.v.metrics()["messages_accepted"] > before, "the message is under way")

    def test_waiting_messages_are_not_given_away(self):
        """A challenge in alice's name does not make v repeat to us what it has to say to her."""
        alice_id = next(host[0] for host in self.v.directory().hosts[1:])
        self.outsider.meet("10.0.3.1")
        self.waiting_message()
        for _ in range(20):
            self.outsider.say("10.0.3.1", wire.CHALLENGE, about=wire.MESSAGE, sender=alice_id, start=2**63)
        while heard := self.outsider.hear(0.3):
            self.assertNotEqual(heard[0].kind, wire.MESSAGE)
        wait_for(lambda: self.v.metrics()["messages_retried"], self.v.metrics)

    def test_forged_ack(self):
        """Who knows the number of a message (the last receiver does) cannot make the next one disappear."""
        heard = Listener("alice", "a0")
        self.addCleanup(heard.close)
        self.waiting_message()
        _, datagram = heard.datagram(lambda head: head.kind == wire.MESSAGE)
        head = wire.Header.parse(datagram)
        _, number, _, _ = wire.parse_envelope(datagram[wire.HEADER.size:])
        self.outsider.meet("10.0.3.1")
        for _ in range(20):
            self.ours.send("10.0.1.2", wire.message(V, ALICE))
        for guess in range(number, number + 30):
            self.outsider.say("10.0.3.1", wire.MESSAGE, wire.ack(guess, head.start))
        wait_for(lambda: self.v.metrics()["messages_waiting"] == 0, "all are given up")
        self.assertEqual(self.v.metrics()["messages_arrived"], 0)

    def test_message_in_anothers_name(self):
        """Messages under alice's id, of a later life of hers, do not make v take hers for old ones."""
        alice_id = next(host[0] for host in self.v.directory().hosts[1:])
        self.outsider.meet("10.0.3.1")
        for number in (1, 2**63, 2**64 - 1):
            self.outsider.say("10.0.3.1", wire.MESSAGE, wire.envelope(self.message, number), sender=alice_id,
                              start=2**64 - 1)
        wait_for(lambda: self.v.metrics()["messages_not_theirs"] == 3, self.v.metrics)
        self.assertIsNone(self.ours.receive(timeout=0.3))
        self.assert_alice_reaches_v_from(self.ours)

    def test_many_names(self):
        """Nor do ten thousand names fill what v remembers of others."""
        self.outsider.meet("10.0.3.1")
        for number in range(20000):
            self.outsider.say("10.0.3.1", wire.MESSAGE, wire.envelope(self.message, number + 1),
                              sender=number.to_bytes(16, "big"))
            if not number % 500:
                time.sleep(0.01)
        self.assert_alice_reaches_v_from(self.ours)

    def test_honest_answer(self):
        self.answer_query(self.description())
        wait_for(lambda: self.v.directory().holders("10.0.4.2") == {"outsider"}, self.v.metrics)

    def test_answer_in_anothers_name(self):
        """An answer under alice's id, with a later start, does not push alice aside."""
        alice_id = next(host[0] for host in self.v.directory().hosts[1:])
        rail = wire.rail("mlx5_0", "o0", ["10.0.4.2", "10.0.1.2"])
        self.answer_query(wire.beacon(wire.description(rail), name="evil", rail_number=0xffff),
                          sender=alice_id, start=2**64 - 1)
        self.assert_alice_keeps_her_address(looks=80)
        self.assertNotIn("evil", self.v.directory().names())
        self.assert_alice_reaches_v_from(self.ours)

    def test_answer_claims_another_hosts_gids(self):
        rail = wire.rail("mlx5_0", "o0", ["10.0.4.2", "10.0.1.2", "10.0.1.1"])
        self.answer_query(wire.beacon(wire.description(rail), name="evil", rail_number=0xffff))
        wait_for(lambda: self.v.directory().holders("10.0.4.2") == {"evil"}, self.v.metrics)
        self.assertEqual(self.v.directory().holders("10.0.1.2"), self.alice_name)
        self.assertEqual(self.v.directory().holders("10.0.1.1"), {""})

    def test_answers_under_many_names(self):
        """There is one host at an address: who answers under a hundred ids, each with 16 addresses, is the first of them."""
        before, rejected = self.v.metrics()["hosts"], self.v.metrics()["entries_rejected"]
        say, n = self.outsider.say, 100

        def say_all(to, kind, payload, **fields):
            if kind != wire.ENTRY:
                return say(to, kind, payload, **fields)
            for number in range(n):
                rail = wire.rail("mlx5_0", "o0", ["10.0.4.2", *(f"10.7.{number}.{g}" for g in range(1, 17))])
                say(to, kind, wire.beacon(wire.description(rail), name=f"evil{number}", rail_number=0xffff),
                    sender=number.to_bytes(16, "big"), **fields)

        self.outsider.say = say_all
        self.answer_query(b"")
        wait_for(lambda: self.v.metrics()["entries_rejected"] >= rejected + n - 2, self.v.metrics)
        # Another one may have come after an interval in which the machine did nothing else.
        self.assertLess(self.v.metrics()["hosts"], before + 4)
        self.assertEqual(len(self.v.directory().holders("10.0.4.2")), 1)

    def test_answer_that_nobody_asked_for(self):
        rail = wire.rail("mlx5_0", "o0", ["10.0.4.2", "10.0.9.9"])
        self.outsider.meet("10.0.3.1")
        for _ in range(5):
            self.outsider.say("10.0.3.1", wire.ENTRY, wire.beacon(wire.description(rail), rail_number=0xffff))
        wait_for(lambda: self.v.metrics()["entries_rejected"] == 5, self.v.metrics)
        self.assertEqual(self.v.directory().holders("10.0.9.9"), set())


class IdentityTest(OutsiderTest):
    """The same towards hosts that have identities."""

    def agent(self, namespace, rails, **kwargs):
        return super().agent(namespace, rails, has_identity=True, **kwargs)

    def test_sealed_datagram_with_forged_source(self):
        """Who seals with a key that v does not know is told v's, which is longer: but only with a cookie of that address."""
        self.answer_query(self.description())
        wait_for(lambda: self.v.directory().holders("10.0.4.2") == {"outsider"}, self.v.metrics)
        victim = self.speaker("mallory", "10.0.2.2", port=wire.PORT)
        forger = self.forger("outsider", "o0", attacknet.mac_of(3, 2))
        sealed = wire.Header(kind=wire.MESSAGE, protection=2, key_id=1, sender=self.outsider.sender).pack() + bytes(64)
        before = self.v.rejected("stranger")
        while self.outsider.hear(0.3):
            pass
        forger.send("10.0.2.2", "10.0.3.1", sealed, hop_limit=64)
        heard = victim.hear(attacknet.WAIT_S)
        self.assertEqual((heard[0].kind, heard[1]), (wire.CHALLENGE, b""))

        def is_told():
            self.outsider.say("10.0.3.1", wire.MESSAGE, bytes(64), protection=2, key_id=1)
            heard = self.outsider.hear(0.5)
            if heard and heard[0].kind == wire.CHALLENGE:
                self.outsider.cookies["10.0.3.1"] = heard[0].mine
            if heard and heard[0].kind == wire.QUERY:
                self.outsider.say("10.0.3.1", wire.ENTRY, self.description())
            return heard and heard[0].kind == wire.IDENTITY

        wait_for(is_told, self.v.metrics)
        self.assertGreater(self.v.rejected("stranger"), before)
        self.assertIsNone(victim.hear(0.3))


if __name__ == "__main__":
    main()
