# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What attacks on a running agent have in common: the agent of v under attack, honest alice, and mallory on a link.

docs/security.md names the tests with the claims they stand for. Each attack has a counterpart that shows that the same
thing done honestly works, so that a test cannot pass because nothing works.
"""

import os
import sys
import threading
import time
import unittest

import attacknet
import wire
from attacknet import Agent, Forger, Process, Speaker, link_local, wait_for

V_RAILS = [("v0", "10.0.1.1/24", 0, 2), ("v1", "10.0.2.1/24", 1, 2), ("v2", "10.0.3.1/24", 2, 2)]
ALICE_RAILS = [("a0", "10.0.1.2/24", 0, 1)]
GROUP = "ff12::6d65:7368"
KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
ALICE, V = ("10.0.1.2", 17), ("10.0.1.1", 33)


class AttackTest(unittest.TestCase):
    key = None

    def setUp(self):
        self.agents = {}
        self.v = self.agent("v", V_RAILS, key=self.key)

    def tearDown(self):
        for agent in self.agents.values():
            agent.close()

    def agent(self, namespace, rails, **kwargs):
        agent = Agent(os.environ["IN_NETNS"], namespace, rails, **kwargs)
        self.agents[namespace] = agent
        self.addCleanup(agent.close)
        return agent

    def with_alice(self):
        self.alice = self.agent("alice", ALICE_RAILS, key=self.key)
        wait_for(lambda: self.v.directory().holders("10.0.1.2") and self.alice.directory().holders("10.0.1.1"),
                 lambda: f"v and alice know each other: {self.v.metrics()}")
        self.alice_name = self.v.directory().holders("10.0.1.2")

    def process(self, agent, device=None, qpn=0):
        process = Process(agent)
        self.addCleanup(process.close)
        if device:
            process.register(device, qpn)
            process.settle()
        return process

    def speaker(self, *args, **kwargs):
        speaker = Speaker(*args, **kwargs)
        self.addCleanup(speaker.close)
        return speaker

    def forger(self, *args):
        forger = Forger(*args)
        self.addCleanup(forger.close)
        return forger

    def mallory(self):
        """On v's second link, with any packet."""
        return self.forger("mallory", "m0", attacknet.mac_of(1, 2))

    def stranger(self):
        """A host on v's second link with an agent that says what we like, from the port of agents; it has the GID 10.0.2.2."""
        rail = wire.rail("mlx5_0", "m0", ["10.0.2.2"])
        mallory = self.mallory()
        mallory.send(link_local(1, 1), GROUP, self.beacon(rail, interval_ms=60000))
        wait_for(lambda: self.v.directory().holders("10.0.2.2") == {"mallory"}, "mallory is heard")
        speaker = self.speaker("mallory", "10.0.2.2", port=wire.PORT)
        speaker.meet("10.0.2.1")
        return speaker

    def beacon(self, *rails, name="mallory", sender=b"M" * 16, start=1, counter=1, **kwargs):
        payload = wire.beacon(wire.description(*rails), name=name, **kwargs)
        return wire.Header(kind=wire.BEACON, sender=sender, start=start, counter=counter).pack() + payload

    def under_fire(self, fire, run):
        """What @run() returns while @fire(number) is called 200 times a second."""
        stop, numbers = threading.Event(), iter(range(1, 1 << 30))

        def shoot():
            while not stop.wait(0.005):
                fire(next(numbers))

        thread = threading.Thread(target=shoot)
        thread.start()
        try:
            return run()
        finally:
            stop.set()
            thread.join()

    def invent(self, mallory, number):
        """A beacon of a host that does not exist."""
        mallory.send(link_local(1, 1), GROUP, self.beacon(
            wire.rail("mlx5_0", "m0", [f"10.77.{number >> 8}.{number & 255}"]), sender=number.to_bytes(16, "big"), name=f"h{number}"))

    def assert_alice_keeps_her_address(self, attack=lambda: None, looks=20):
        """After each @attack(), as often as v knows alice then. An agent forgets a host that has no processor for a while, and later
        knows the host again."""
        left = looks

        def is_hers():
            nonlocal left
            attack()
            directory = self.v.directory()
            if self.alice_name <= directory.names():
                self.assertEqual(directory.holders(ALICE[0]), self.alice_name)
                left -= 1
            return not left

        wait_for(is_hers, lambda: f"v seldom knows alice: {left} of {looks} looks left, {self.v.metrics()}")

    def feed(self, say, number, counted, batch=50):
        """Calls say() so often, and never so often ahead of what counted() says that a socket of the agent has no room left."""
        before, said = counted(), 0
        while said < number:
            for _ in range(min(batch, number - said)):
                say()
                said += 1
            wait_for(lambda: counted() >= before + said, self.v.metrics)

    def assert_alice_reaches_v(self):
        """A message arrives, as it would without any attack."""
        ours = self.process(self.v, "mlx5_0", V[1])
        hers = self.process(self.alice, "mlx5_0", ALICE[1])
        sent, end = [], time.monotonic() + attacknet.WAIT_S
        while time.monotonic() < end:
            sent.append(wire.message(ALICE, V, attempt=len(sent) + 1))
            hers.send(V[0], sent[-1])
            while heard := ours.receive(timeout=2):
                if heard in sent:  # no message of an attack, still on its way
                    ours.close()
                    hers.close()
                    return
        self.fail(f"no message arrives: {self.alice.metrics()} {self.v.metrics()}")


class OutsiderTest(AttackTest):
    """With an outsider who has an address and the port of agents."""

    def setUp(self):
        super().setUp()
        self.with_alice()
        self.ours = self.process(self.v, "mlx5_0", V[1])
        self.outsider = self.speaker("outsider", "10.0.4.2", port=wire.PORT)
        self.message = wire.message(("10.0.4.2", 5), V)

    def description(self):
        return wire.beacon(wire.description(wire.rail("mlx5_0", "o0", ["10.0.4.2"])), name="outsider", rail_number=0xffff)

    def answer_query(self, payload, **fields):
        """v asks the outsider who it is, because a process wants to talk to it, and gets @payload."""
        outsider = self.outsider
        self.ours.send("10.0.4.2", wire.message(V, ("10.0.4.2", 5)))
        begun, answered = time.monotonic(), 0
        while answered < 5 and time.monotonic() < begun + (5 if answered else attacknet.WAIT_S):
            heard = outsider.hear()
            if not heard:
                continue
            outsider.cookies["10.0.3.1"] = heard[0].mine
            if heard[0].kind == wire.QUERY:
                # No cookie of ours in it yet: ask for it, as agents do.
                if heard[0].cookie == wire.NO_COOKIE:
                    outsider.sock.sendto(outsider.datagram(wire.CHALLENGE, cookie=heard[0].mine, about=wire.QUERY),
                                         ("10.0.3.1", wire.PORT))
                else:
                    outsider.say("10.0.3.1", wire.ENTRY, payload, **fields)
                    answered += 1
        self.assertGreater(answered, 0)


def main():
    """Run the tests of the program, in network namespaces of their own."""
    if not attacknet.AGENT:
        sys.exit("MESHVERBS_AGENT is not set")
    if "IN_NETNS" not in os.environ:
        sys.exit(attacknet.in_namespaces())
    attacknet.make_network()
    unittest.main()
