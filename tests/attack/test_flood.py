#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Ten thousand forged datagrams a second, until the agent has received as many as in ten seconds: its memory stays bounded, it
answers its control socket and carries messages. Its processor time is a figure that is printed."""

import itertools
import os
import struct
import sys
import threading
import time
import unittest

import attacknet
import wire
from attackcase import ALICE, AttackTest, GROUP, KEY, V
from attacknet import link_local, wait_for

PER_SECOND = 10000
SECONDS = float(os.environ.get("MESHVERBS_FLOOD_SECONDS", "10"))
ENOUGH = int(0.6 * PER_SECOND * SECONDS)  # datagrams that the agent received; a socket without room drops the others
MEMORY_KIB = 64 * 1024


class Flood(threading.Thread):
    """Sends prepared frames round and round at a steady rate, until it is over."""

    def __init__(self, forger, frames):
        super().__init__()
        self.forger, self.frames = forger, frames
        self.sent = self.late = 0
        self.over = threading.Event()

    def run(self):
        begun = time.monotonic()
        while not self.over.is_set():
            due = min(self.sent + PER_SECOND, int((time.monotonic() - begun) * PER_SECOND))
            while self.sent < due:
                try:
                    self.forger.sock.send(self.frames[self.sent % len(self.frames)])
                except OSError:
                    self.late += 1
                self.sent += 1
            time.sleep(0.002)
        self.seconds = time.monotonic() - begun


class FloodTest(AttackTest):
    def carry(self, hers, ours, number):
        """A message of alice's arrives. Returns after how many attempts: an agent gives up after a second without ack."""
        message, attempts = wire.message(ALICE, V, attempt=number + 1), 0
        limit = time.monotonic() + attacknet.WAIT_S
        while time.monotonic() < limit:
            hers.send(V[0], message)
            attempts += 1
            while heard := ours.receive(timeout=2):
                if heard == message:
                    return attempts
        return self.fail(f"message {number} does not arrive in {attempts} attempts")

    def flood(self, forger, frames):
        self.with_alice()
        ours = self.process(self.v, "mlx5_0", V[1])
        hers = self.process(self.alice, "mlx5_0", ALICE[1])
        received = self.v.metrics()["datagrams_received"]
        memory, cpu = self.v.rss_kib(), self.v.cpu_seconds()
        flood = Flood(forger, frames)
        slowest = asked = arrived = 0
        # Without the time in which others have the processors: a busy machine is no flood.
        clock = lambda: time.monotonic() - self.v.waited_seconds() - attacknet.waited_seconds()
        flood.start()
        try:
            while not arrived or self.v.metrics()["datagrams_received"] - received < ENOUGH:
                begun = clock()
                self.v.ask("openmetrics")
                slowest = max(slowest, clock() - begun)
                asked += self.carry(hers, ours, arrived)
                arrived += 1
                time.sleep(0.1)
        finally:
            flood.over.set()
            flood.join()
        cpu = self.v.cpu_seconds() - cpu
        memory = self.v.rss_kib() - memory
        received = self.v.metrics()["datagrams_received"] - received
        print(f"{flood.sent / flood.seconds:.0f}/s sent, {received / flood.seconds:.0f}/s received: "
              f"{cpu / flood.seconds:.0%} of a processor, {memory} KiB more, slowest answer {slowest * 1000:.0f} ms, "
              f"{arrived} messages in {asked} attempts")
        self.assertLess(memory, MEMORY_KIB)
        self.assertEqual(self.v.directory().holders("10.0.1.2"), self.alice_name)

    def random_frames(self, forger, make, n=4000):
        return [forger.packet(*make(number)) for number in range(n)]

    def test_beacons_of_invented_hosts(self):
        """On the link, where without a key everybody is believed who invents a host, up to a bound."""
        forger = self.mallory()

        def make(number):
            rail = wire.rail("mlx5_0", "m0", [f"10.{100 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"])
            return link_local(1, 1), GROUP, self.beacon(rail, sender=number.to_bytes(16, "big"), name=f"h{number}")

        self.flood(forger, self.random_frames(forger, make, 60000))

    def test_beacons_of_large_hosts(self):
        """The same, each with a thousand GIDs: they take no more memory than the unit allows the agent, by far."""
        self.with_alice()
        mallory, before, end, number = self.mallory(), self.v.rss_kib(), time.monotonic() + SECONDS, 0
        head = wire.text("mlx5_0") + wire.text("m0") + struct.pack("!IiHHBBBH", 100000, -1, 0, 4096, 1, 2, 1, 1000)
        while time.monotonic() < end or (self.v.metrics()["hosts"] <= 50 and time.monotonic() < end + attacknet.WAIT_S):
            number += 1
            gids = (struct.pack("!4IIHBB", 0x20010db8, number, 0, g, g, 0xffff, wire.ROCE_V2, 128) for g in range(1000))
            desc = struct.pack("!HH", 1, 1000) + head + b"".join(gids)
            for piece in range(0, len(desc), 1000):
                data = desc[piece:piece + 1000]
                said = struct.pack("!BBHHHIIQ", 1, piece // 1000, 0, 2, len(data), 60000, len(desc), 1) + wire.text(f"h{number}") + data
                mallory.send(link_local(1, 1), GROUP, wire.Header(kind=wire.BEACON, sender=number.to_bytes(16, "big")).pack() + said)
            time.sleep(0.002)
        metrics, memory = self.v.metrics(), self.v.rss_kib() - before
        print(f"{metrics['hosts']} hosts of {number}, {metrics['hosts_bytes']} bytes, {metrics['hosts_refused']} refused, {memory} KiB more")
        self.assertGreater(metrics["hosts"], 50)
        self.assertLessEqual(metrics["hosts_bytes"], 64 << 20)
        self.assertLess(memory, 450 * 1024)
        self.assert_alice_reaches_v()

    def test_beacons_that_tell_nothing_new(self):
        """One large host, heard on one rail after the other, in one life after the other: it has the GIDs that it had."""
        head = wire.text("mlx5_0") + wire.text("m0") + struct.pack("!IiHHBBBH", 100000, -1, 0, 4096, 1, 2, 1, 1000)
        gids = (struct.pack("!4IIHBB", 0x20010db8, 0, 0, g, g, 0xffff, wire.ROCE_V2, 128) for g in range(1000))
        desc = struct.pack("!HH", 1, 1000) + head + b"".join(gids)
        forger = self.mallory()

        def large(piece, rail, start):
            data = desc[piece * 1000:piece * 1000 + 1000] if piece < 0xff else b""
            said = struct.pack("!BBHHHIIQ", 1, piece, rail, 3, len(data), 60000, len(desc), 1) + wire.text("large") + data
            return link_local(1, 1), GROUP, wire.Header(kind=wire.BEACON, sender=b"L" * 16, start=start, counter=1).pack() + said

        for piece in range(len(desc) // 1000 + 1):
            forger.send(*large(piece, 0, 1))
        wait_for(lambda: self.v.directory().holders("2001:db8::3e7") == {"large"}, "it is heard")
        self.flood(forger, self.random_frames(forger, lambda number: large(0xff, number % 60, number)))

    def test_bundles(self):
        """A neighbour of his own name sends as many messages as fit into each datagram."""
        stranger, forger = self.stranger(), self.mallory()

        def bundle(number):
            first = wire.message(("10.0.2.2", 5), ("10.0.2.1", 4711), nonces=(1, 1))
            record = struct.pack("!Q", number << 16) + first
            records = struct.pack("!H", len(first)) + b"".join(
                bytes([0, len(part)]) + part for part in (record[at:at + 255] for at in range(0, len(record), 255)))
            n = 1
            while len(records) < 1000:
                rest = len(record) - 8
                records += struct.pack("!H", len(first)) + bytes([7, 1, n]) + bytes([rest, 0])
                n += 1
            head = wire.Header(kind=wire.BUNDLE, sender=stranger.sender, start=stranger.start, counter=1000 + number,
                               cookie=stranger.cookies["10.0.2.1"], mine=b"m" * 16)
            return "10.0.2.2", "10.0.2.1", head.pack() + struct.pack("!BBHQ", 2, 1, n, 0) + records

        frames = self.random_frames(forger, bundle)
        sent = itertools.cycle(frames)

        def has_used_up():
            """What may come in a row is over."""
            for _ in range(100):
                forger.sock.send(next(sent))
            return self.v.metrics()["messages_throttled"]

        wait_for(has_used_up, "the burst is over", timeout=60)
        self.flood(forger, frames)
        metrics = self.v.metrics()
        self.assertGreater(metrics["messages_throttled"], metrics["messages_received"])

    def test_forged_sources(self):
        """From beyond the router, each from another address: all want to be challenged."""
        forger = self.forger("router", "r0", attacknet.mac_of(2, 2))

        def make(number):
            source = f"10.0.{200 + number % 50}.{number // 50 % 250 + 1}"
            kind = (wire.MESSAGE, wire.QUERY, wire.ENTRY, wire.CHALLENGE)[number % 4]
            head = wire.Header(kind=kind, sender=os.urandom(16), counter=number + 1, cookie=os.urandom(16),
                               about=wire.MESSAGE if kind == wire.CHALLENGE else 0)
            return source, "10.0.3.1", head.pack() + os.urandom(300), 64

        self.flood(forger, self.random_frames(forger, make))

    def test_in_alices_name(self):
        """Forged beacons and messages with alice's address and id, on her own link."""
        forger = self.forger("alice", "a0", attacknet.mac_of(0, 2))

        def make(number):
            head = wire.Header(kind=wire.MESSAGE, sender=os.urandom(16), counter=number + 1, cookie=os.urandom(16))
            return "10.0.1.2", "10.0.1.1", head.pack() + os.urandom(300), 64

        self.flood(forger, self.random_frames(forger, make))

    def test_noise(self):
        forger = self.mallory()
        self.flood(forger, self.random_frames(forger, lambda number: (
            "10.0.2.2", "10.0.2.1", os.urandom(number % 1200) if number % 2 else b"MVDG\1\4" + os.urandom(200), 64)))


class SealedFloodTest(FloodTest):
    key = KEY
    test_beacons_of_large_hosts = test_beacons_that_tell_nothing_new = test_bundles = None  # nobody believes them

    def test_beacons_of_invented_hosts(self):
        """Sealed, as far as one sees from outside: each costs an attempt to open it."""
        forger = self.mallory()
        listener = attacknet.Listener("v", "v0")
        self.addCleanup(listener.close)
        self.with_alice()
        _, good = listener.datagram(lambda head: head.kind == wire.BEACON)
        key_id = wire.Header.parse(good).key_id

        def make(number):
            head = wire.Header(kind=wire.BEACON, protection=1, key_id=key_id, sender=os.urandom(16), counter=number + 1)
            return link_local(1, 1), GROUP, head.pack() + os.urandom(400)

        self.alice.close()
        self.flood(forger, self.random_frames(forger, make))
        forged, throttled = self.v.rejected("forged"), self.v.rejected("throttled")
        self.assertGreater(min(forged, throttled), 0)
        self.assertGreater(forged + throttled, ENOUGH // 2)


del AttackTest

if __name__ == "__main__":
    if not attacknet.AGENT:
        sys.exit("MESHVERBS_AGENT is not set")
    if "IN_NETNS" not in os.environ:
        sys.exit(attacknet.in_namespaces())
    attacknet.make_network()
    unittest.main()
