# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Attacks on a running agent from its links, and from beyond them."""

import itertools
import time

import attacknet
import wire
from attackcase import AttackTest, GROUP, main
from attacknet import Listener, link_local, wait_for

V_LINK1 = link_local(1, 2)


class LinkTest(AttackTest):
    """From the links, and from beyond, without a key."""

    def test_beacon_from_beyond_the_link(self):
        rail = wire.rail("mlx5_0", "m0", ["10.0.4.2"])
        mallory = self.mallory()
        mallory.send(link_local(1, 1), GROUP, self.beacon(rail), hop_limit=64)
        mallory.send(link_local(1, 1), V_LINK1, self.beacon(rail), hop_limit=254)
        wait_for(lambda: self.v.rejected("off_link") == 2, "both are refused")
        # As well as an outsider can: the router takes one off.
        outsider = self.forger("outsider", "o0", attacknet.mac_of(3, 2))
        outsider.send("10.0.4.2", "10.0.3.1", self.beacon(rail), hop_limit=255)
        wait_for(lambda: self.v.rejected("off_link") == 3, "the outsider's is refused")
        self.assertEqual(self.v.directory().names(), set())
        mallory.send(link_local(1, 1), GROUP, self.beacon(rail), hop_limit=255)
        wait_for(lambda: self.v.directory().names() == {"mallory"}, "the honest one is taken")

    def test_beacon_claims_another_hosts_gids(self):
        self.with_alice()
        rail = wire.rail("mlx5_0", "m0", ["10.0.2.2", "10.0.1.2", "10.0.1.1", "10.0.3.1"])
        mallory = self.mallory()

        def claim():
            mallory.send(link_local(1, 1), GROUP, self.beacon(rail, interval_ms=60000))
            return self.v.directory().holders("10.0.2.2") == {"mallory"}

        wait_for(claim, "mallory is heard")
        self.assert_alice_keeps_her_address(claim)
        self.assertEqual(self.v.directory().holders("10.0.1.1"), {""})
        self.assertEqual(self.v.directory().holders("10.0.3.1"), {""})
        self.assert_alice_reaches_v()
        # Whoever says so may have it once its holder is silent: addresses do move.
        self.alice.stop()
        wait_for(lambda: claim() and self.v.directory().holders("10.0.1.2") == {"mallory"}, "alice is forgotten")
        # And who is heard on the GID's own link has the better claim.
        self.alice.start()
        wait_for(lambda: claim() and self.v.directory().holders("10.0.1.2") == self.alice_name, "alice is back")

    def test_beacon_claims_an_address_on_anothers_link(self):
        """It may be that of a host without an agent. Programs that connect to it are not led to mallory, whose port is down, he says."""
        self.with_alice()
        rail = wire.rail("mlx5_0", "m0", ["10.0.1.9", "10.0.2.9", "10.0.9.9"], flags=0)
        mallory = self.mallory()

        def claim():
            mallory.send(link_local(1, 1), GROUP, self.beacon(rail))
            return self.v.directory().holders("10.0.1.9") == {"mallory"}

        wait_for(claim, "mallory is heard")
        directory = self.v.directory()
        self.assertEqual([directory.unmet(address) for address in ("10.0.1.9", "10.0.2.9", "10.0.9.9", "10.0.1.2")],
                         [True, False, False, False])

    def test_beacons_of_many_hosts(self):
        mallory = self.mallory()
        before = self.v.rss_kib()
        # One that says that it will be silent for a minute.
        mallory.send(link_local(1, 1), GROUP, self.beacon(wire.rail("mlx5_0", "m0", ["10.78.0.1"]), sender=b"L" * 16, name="seldom", interval_ms=60000))
        most = 0
        for number in range(20000):
            rail = wire.rail("mlx5_0", "m0", [f"10.77.{number >> 8}.{number & 255}"])
            mallory.send(link_local(1, 1), GROUP, self.beacon(rail, sender=number.to_bytes(16, "big"), name=f"h{number}"))
            if number % 1000 == 999:
                most = max(most, self.v.metrics()["hosts"])
        self.assertGreater(most, 100)
        self.assertLessEqual(most, 16384)
        self.assertLess(self.v.rss_kib() - before, 128 * 1024)
        self.with_alice()
        self.assert_alice_reaches_v()
        # Each when its own time is over: the seldom one is still there.
        wait_for(lambda: self.v.metrics()["hosts"] == 2, "they are forgotten")
        self.assertEqual(self.v.directory().holders("10.78.0.1"), {"seldom"})


    def test_names_in_json(self):
        """Processes print the name of their peer's host into the state that they report: no name writes a member of its own there."""
        mallory = self.mallory()
        for name, device in (('m","reason":"x', "mlx5_0"), ("m\\", "mlx5_0"), ("mallory", 'm"'), ("mallory", "m\\")):
            mallory.send(link_local(1, 1), GROUP, self.beacon(wire.rail(device, "m0", ["10.0.2.2"]), name=name, interval_ms=60000))
        wait_for(lambda: self.v.metrics()["beacons_rejected"] == 4, self.v.metrics)
        self.assertEqual(self.v.directory().names(), set())
        mallory.send(link_local(1, 1), GROUP, self.beacon(wire.rail("mlx5_0", "m0", ["10.0.2.2"]), interval_ms=60000, generation=2))
        wait_for(lambda: self.v.directory().holders("10.0.2.2") == {"mallory"}, "mallory is heard")

    def test_halves_of_descriptions(self):
        """First pieces of hosts that do not exist, without end: descriptions in pieces that come by another link are learnt meanwhile."""
        mallory, honest = self.mallory(), self.forger("alice", "a0", attacknet.mac_of(0, 2))
        half = wire.pieces(wire.description(wire.rail("mlx5_0", "m0", [f"10.78.0.{i}" for i in range(1, 60)])), interval_ms=60000)[0]
        whole = wire.description(wire.rail("mlx5_0", "a0", [f"10.0.1.{i}" for i in range(20, 80)]))

        def fire(number):
            payload = half[:16] + number.to_bytes(8, "big") + half[24:]  # another generation
            mallory.send(link_local(1, 1), GROUP, wire.Header(kind=wire.BEACON, sender=(1 + number % 512).to_bytes(16, "big")).pack() + payload)

        def announce(generation):
            for payload in wire.pieces(whole, name="large", generation=generation, interval_ms=60000):
                honest.send(link_local(0, 1), GROUP, wire.Header(kind=wire.BEACON, sender=b"L" * 16, counter=generation).pack() + payload)
            return self.v.directory().holders("10.0.1.79") == {"large"}

        def run():
            wait_for(lambda: self.v.metrics()["hosts"] >= 512, self.v.metrics)
            self.assertGreater(len(wire.pieces(whole)), 1)
            wait_for(lambda: announce(1), self.v.metrics)

        self.under_fire(fire, run)

    def test_beacons_wake_processes_seldom(self):
        """Invented hosts, one after the other: 32 directories, and two a second, for all of them together."""
        mallory, begun = self.mallory(), time.monotonic()
        process = self.process(self.v)
        number = self.under_fire(lambda number: self.invent(mallory, number), lambda: process.wakes(6, seconds=6))
        self.assertLessEqual(number, 32 + 2 * (time.monotonic() - begun) + 2)
        self.with_alice()
        self.assert_alice_reaches_v()

    def test_hosts_that_end_wake_processes_seldom(self):
        """Invented hosts that come at once, and go one after the other: likewise."""
        mallory, intervals, begun = self.mallory(), itertools.count(1000, 30), time.monotonic()
        process = self.process(self.v)

        def invent():
            interval = next(intervals)
            mallory.send(link_local(1, 1), GROUP, self.beacon(
                wire.rail("mlx5_0", "m0", [f"10.78.{interval >> 8}.{interval & 255}"]), sender=interval.to_bytes(16, "big"),
                name=f"h{interval}", interval_ms=interval))

        self.feed(invent, 100, lambda: self.v.metrics()["beacons_received"])
        wait_for(lambda: self.v.metrics()["hosts"] == 0, self.v.metrics)
        wait_for(lambda: not self.v.directory().names(), self.v.metrics)
        number = process.settle()
        self.assertGreater(number, 5)
        self.assertLessEqual(number, 32 + 2 * (time.monotonic() - begun) + 2)

    def test_beacons_say_that_a_port_is_down(self):
        """In alice's name: so many changes at most; and what she says herself is what counts in the end."""
        self.with_alice()
        heard = Listener("v", "v0")
        self.addCleanup(heard.close)
        alice = wire.Header.parse(heard.datagram(lambda head: head.kind == wire.BEACON)[1])
        mallory = self.mallory()

        def lie(number):
            """Her port is down, and up again, and so on."""
            mallory.send(link_local(1, 1), GROUP, self.beacon(
                wire.rail("mlx5_0", "a0", ["10.0.1.2"], flags=number % 2), name="alice", sender=alice.sender, start=alice.start,
                counter=alice.counter + number, generation=1000 + number))

        before, begun = self.v.metrics()["descriptions_held_back"], time.monotonic()
        process = self.process(self.v)

        def is_woken():
            number = process.wakes(6, seconds=6)
            wait_for(lambda: self.v.metrics()["descriptions_held_back"] > before + 200, self.v.metrics)
            return number

        number = self.under_fire(lie, is_woken)
        self.assertLessEqual(number, 32 + 2 * (time.monotonic() - begun) + 2)
        wait_for(lambda: self.v.directory().holders("10.0.1.2") == self.alice_name and self.v.directory().up("10.0.1.2"), self.v.metrics)
        self.assert_alice_reaches_v()


if __name__ == "__main__":
    main()
