#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wrong GID indexes with mlx5's numbering (RoCE v1 before v2 for each address), on two simulated pairs of hosts: one
bare, one with meshverbs installed.  What meshverbs repairs must fail on the bare one; what works there must stay as it is.

    SIM_BUILD=BUILD test_gid.py [TEST...]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / "hosts"), str(REPO / "tests/lab")]
from test_hosts import PREFIX, act, prepare, read, runtime, until  # noqa: E402
from verbsmatrix.simhosts import Simulation  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release"))
SECONDS = 60
LOST_S = 5  # until a datagram on bare hosts, where most do not arrive, is taken for lost
UD = ["/usr/bin/python3", str(HERE / "ud.py")]


def dotted(a, b, c, d):
    """As sysfs shows an IPv4 address."""
    return f"ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


class Pair:
    """Two hosts that are up, bare or stacked."""

    def __init__(self, place):
        self.place = place
        self.sim = runtime.Sim(place.name)
        self.stacked = place.logs

    def argv(self, host, *command):
        return self.place.argv(host, "timeout", str(SECONDS), "env", f"UD_SECONDS={SECONDS if self.stacked else LOST_S}", *command)

    def run(self, host, *command):
        return subprocess.run(self.argv(host, *command), text=True, capture_output=True, check=False)

    def start(self, host, *command):
        return subprocess.Popen(self.argv(host, *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def table(self, host):
        """{index: (GID, netdev, type)}"""
        port = self.sim.root(host) / "sys/class/infiniband/mlx5_0/ports/1"
        rows = {}
        for i in range(31):
            kind = read(port / f"gid_attrs/types/{i}").strip()
            if kind:
                rows[i] = (read(port / f"gids/{i}").strip(), read(port / f"gid_attrs/ndevs/{i}").strip(), kind.removeprefix("IB/"))
        return rows

    def index(self, host, gid, kind="RoCE v2", netdev="eth0"):
        return next((i for i, row in self.table(host).items() if row[0].endswith(gid) and row[1:] == (netdev, kind)), None)

    def addr(self, verb, port, address):
        act("addr", "-n", self.place.name, verb, port, address)

    def listening(self, host, port):
        return until(lambda: self.sim.listening(host, port), SECONDS)

    def log(self, host):
        return self.run(host, "cat", "/var/log/meshverbs.log").stdout if self.stacked else ""


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stage = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, stage)
        subprocess.run([REPO / "scripts/stage", BUILD, stage], check=True)
        cls.pairs = []
        for label, overlays in (("bare", []), ("stacked", [stage])):
            up = Simulation.up(str(HERE / "gid.topo"), f"{PREFIX}-{cls.__name__.lower()}-{label}", BUILD, overlays)
            cls.pairs.append(Pair(up.__enter__()))
            cls.addClassCleanup(up.__exit__, None, None, None)

    def setUp(self):
        for pair in self.pairs:
            self.assertEqual(pair.index("b", dotted(10, 1, 0, 2)), 3, "an earlier test left the table changed")

    def move(self, pair, host, last, other="fd66::{last}/64", taken="fd66:0000:0000:0000:0000:0000:0000:{last:04x}"):
        """10.1.0.LAST goes, another address takes its entries (the first free ones), it comes back elsewhere."""
        gid, port = dotted(10, 1, 0, last), f"{host}.0"
        was = pair.index(host, gid)
        pair.addr("del", port, f"10.1.0.{last}/24")
        self.assertIsNotNone(until(lambda: pair.index(host, gid) is None))
        pair.addr("add", port, other.format(last=last))
        self.assertIsNotNone(until(lambda: pair.index(host, taken.format(last=last)) == was))
        pair.addr("add", port, f"10.1.0.{last}/24")
        self.assertIsNotNone(until(lambda: pair.index(host, gid) is not None))
        self.assertNotEqual(pair.index(host, gid), was)

    def move_back(self, pair, host, last):
        """As it was, whichever of the addresses are there."""
        for address in (f"10.1.0.{last}/24", f"10.66.0.{last}/24", f"fd66::{last}/64"):
            pair.run(host, "ip", "addr", "del", address, "dev", "eth0")
        self.assertIsNotNone(until(lambda: not {2, 3} & set(pair.table(host))))
        pair.addr("add", f"{host}.0", f"10.1.0.{last}/24")
        self.assertIsNotNone(until(lambda: pair.index(host, dotted(10, 1, 0, last)) == 3))

    def pingpong(self, pair, index, meanwhile=None, tool="ibv_rc_pingpong", client_index=None):
        """Exit statuses of client and server, what both said; `meanwhile` is called while the server waits."""
        argv = [tool, "-d", "mlx5_0", "-n", "50", "-g"]
        with pair.start("b", *argv, str(index)) as server:
            self.assertIsNotNone(pair.listening("b", 18515), "no server")
            if meanwhile:
                meanwhile()
            client = pair.run("a", *argv, str(client_index or index), "b")
            if client.returncode:
                server.terminate()
            said, _ = server.communicate()
        return (client.returncode, server.returncode), client.stdout + client.stderr + said

    def works_both_ways(self, what):
        for pair in self.pairs:
            with self.subTest(stacked=pair.stacked):
                before = len(pair.log("b"))
                rcs, said = what(pair)
                self.assertEqual(rcs, (0, 0), said)
                if pair.stacked:
                    added = pair.log("b")[before:]
                    self.assertIn(": overlaid", added)
                    self.assertNotRegex(added, r": (repair|replac|moved|using)", "untouched")

    # What is repaired

    def test_index_moved_while_the_server_waits(self):
        for pair in self.pairs:
            for emptied in (False, True):
                with self.subTest(stacked=pair.stacked, emptied=emptied):
                    def flap():
                        self.move(pair, "b", 2)
                        if emptied:  # now nobody has the old index
                            pair.addr("del", "b.0", "fd66::2/64")
                            self.assertIsNotNone(until(lambda: 3 not in pair.table("b")))
                    try:
                        rcs, said = self.pingpong(pair, 3, flap)
                    finally:
                        self.move_back(pair, "b", 2)
                    if pair.stacked:
                        self.assertEqual(rcs, (0, 0), said + pair.log("b")[-1500:])
                    else:
                        self.assertNotEqual(rcs[0], 0, said)

    def test_perftest_index_moved_between_reading_and_connecting(self):
        """The server has read its GID and waits for the client's; meanwhile the address moves."""
        argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "3", "-n", "50", "-F"]
        for pair in self.pairs:
            with self.subTest(stacked=pair.stacked), pair.start("b", *argv, "-p", "18600") as server:
                self.assertIsNotNone(pair.listening("b", 18600), "no server")
                with pair.start("a", "/usr/bin/python3", str(HERE / "hold.py"), "18601", "b", "18600") as proxy:
                    self.assertIsNotNone(pair.listening("a", 18601), "no proxy")
                    with pair.start("a", *argv, "-p", "18601", "localhost") as client:
                        try:
                            self.assertEqual(proxy.stdout.readline(), "held\n")
                            self.move(pair, "b", 2)
                            proxy.stdin.write("\n")
                            proxy.stdin.flush()
                            said, _ = client.communicate()
                        finally:
                            proxy.kill()
                            if client.wait():
                                server.terminate()
                            said += server.communicate()[0]
                            self.move_back(pair, "b", 2)
                self.assertEqual((client.returncode, server.returncode) == (0, 0), pair.stacked, said)
                if pair.stacked:
                    self.assertRegex(said, r"\n +65536 +50 ")

    def datagram(self, pair, index, destination, receiver_index=3, moved=None):
        """(receiver's exit status, its last line, the sender's)."""
        with pair.start("b", *UD, "receive", str(receiver_index)) as receiver:
            qpn = receiver.stdout.readline().strip()
            self.assertTrue(qpn.isdigit(), qpn)
            with pair.start("a", *UD, "hold" if moved else "send", str(index), f"::ffff:{destination}", qpn) as sender:
                if moved:
                    self.assertEqual(sender.stdout.readline(), "opened\n")
                    moved()
                sent, _ = sender.communicate("\n")
            if sender.returncode:
                receiver.terminate()
            got, _ = receiver.communicate("\n")
        return receiver.returncode, got.strip().splitlines()[-1:], sent.strip().splitlines()[-1:]

    def test_datagram_from_another_family(self):
        for pair in self.pairs:
            index = pair.index("a", "fd01:0000:0000:0000:0000:0000:0000:0001")
            rc, got, sent = self.datagram(pair, index, "10.1.0.2")
            self.assertEqual((rc == 0, got == ["got a datagram from 10.1.0.1"]), (pair.stacked, pair.stacked), (got, sent))

    def test_datagram_from_another_vlan(self):
        for pair in self.pairs:
            index = pair.index("b", dotted(10, 7, 0, 2), netdev="eth0.7")
            rc, got, sent = self.datagram(pair, 3, "10.7.0.2", index)
            self.assertEqual((rc == 0, got == ["got a datagram from 10.7.0.1"]), (pair.stacked, pair.stacked), (got, sent))

    def test_datagram_from_an_entry_that_moved(self):
        for pair in self.pairs:
            def leave():  # the entry is empty, the address has another one
                self.move(pair, "a", 1)
                pair.addr("del", "a.0", "fd66::1/64")
                self.assertIsNotNone(until(lambda: 3 not in pair.table("a")))
            try:
                rc, got, sent = self.datagram(pair, 3, "10.1.0.2", moved=leave)
            finally:
                self.move_back(pair, "a", 1)
            self.assertEqual((rc == 0, got == ["got a datagram from 10.1.0.1"]), (pair.stacked, pair.stacked), (got, sent))

    # What must stay untouched

    def test_right_entries_stay(self):
        for tool, index in (("ibv_rc_pingpong", 1), ("ibv_rc_pingpong", 3), ("ibv_uc_pingpong", 5), ("ibv_rc_pingpong", 7),
                            ("ibv_ud_pingpong", 3), ("ibv_srq_pingpong", 3), ("ibv_rc_pingpong", 9)):
            with self.subTest(tool=tool, index=index):
                self.works_both_ways(lambda pair: self.pingpong(pair, index, tool=tool))

    def test_roce_v1_stays(self):
        self.works_both_ways(lambda pair: self.pingpong(pair, 2))

    def test_a_datagram_from_another_subnet_stays(self):
        """It reaches its destination, so the program may know why."""
        for pair in self.pairs:
            _, got, sent = self.datagram(pair, pair.index("a", dotted(10, 9, 0, 1)), "10.1.0.2")
            self.assertEqual(got, ["got a datagram from 10.9.0.1"], sent)

    def test_other_entries_of_the_same_address_stay(self):
        """Link flap: carrier goes and comes, the table stays, so does everything else."""
        def flap(pair):
            for word in ("off", "on"):
                act("link", "-n", pair.place.name, "lan", word)
        self.works_both_ways(lambda pair: self.pingpong(pair, 3, lambda: flap(pair)))

    def test_an_entry_taken_by_a_neighbour_subnet_fails_as_it_did(self):
        """The new tenant of the index reaches the destination, too: a program that looked again means that one, and
        nobody can tell whether it did.  So it stays, also for the program that did not look."""
        for pair in self.pairs:
            try:
                rcs, said = self.pingpong(pair, 3, lambda: self.move(pair, "b", 2, "10.66.0.{last}/24", "ffff:0a42:{last:04x}"))
            finally:
                self.move_back(pair, "b", 2)
            self.assertEqual(rcs[0], 1, said)
            self.assertIn("transport retry counter exceeded", said)

    def test_what_cannot_be_repaired_fails_as_it_did(self):
        """The address is gone for good, or the index never was one: same end, with and without."""
        ends = []
        for pair in self.pairs:
            def leave():
                pair.addr("del", "b.0", "10.1.0.2/24")
                self.assertIsNotNone(until(lambda: 3 not in pair.table("b")))
            try:
                rcs, said = self.pingpong(pair, 3, leave)
            finally:
                pair.addr("add", "b.0", "10.1.0.2/24")
            empty, words = self.pingpong(pair, 25)
            ends.append((rcs[0], empty[0], re.findall(r"Failed.*", said + words)))
        self.assertNotEqual(ends[0][0], 0)
        self.assertEqual(ends[0], ends[1])


if __name__ == "__main__":
    prepare()
    unittest.main()
