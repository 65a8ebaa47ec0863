#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unmodified librdmacm programs: bare; with meshverbs installed; and with meshverbs while their cable is pulled.

    SIM_BUILD=BUILD test_rdmacm.py [TEST...]
"""
import contextlib
import os
import pathlib
import re
import shutil
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "rightnic"), str(HERE.parents[1] / "chaos")]
from schedule import hosts  # noqa: E402
from schedule.hosts import until  # noqa: E402
from nicmatrix import REPO  # noqa: E402
from nicmatrix.world import World, enter, need, staged  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release")).resolve()
RPING_MAY_WAIT = b"\0eventfd\0" in pathlib.Path(shutil.which("rping") or os.devnull).read_bytes()
SECONDS = 60  # generous: each takes about a second
# perftest's server listens after a handshake of the two. A faster client is refused, tries again by itself, and crashes (perftest 4.5).
TOO_EARLY, TRIES = "RDMA_CM_EVENT_REJECTED; error: 8", 10
PAIR = {"a": ("10.1.0.1", "10.2.0.1"), "b": ("10.1.0.2", "10.2.0.2")}
# What each pair of the triangle has between it: client, server, the server's NIC, its address there.
TRIANGLE = [("a", "b", 0, "10.1.0.2"), ("b", "a", 0, "10.1.0.1"), ("b", "c", 0, "10.2.0.2"),
            ("c", "b", 1, "10.2.0.1"), ("c", "a", 1, "10.3.0.2"), ("a", "c", 1, "10.3.0.1")]


class Cases:
    """Runs pairs of programs; `world` is set by who inherits."""
    world = None

    def wait_listening(self, server, host, port):
        self.assertTrue(self.world.wait_cm_listening(server, host, port, SECONDS), f"no server: {server.said()}")

    def story(self, *programs):
        return "\n".join([program.said() for program in programs] +
                         [f"-- {host}: {self.world.identifiers(host)}\n{self.world.told(host, 15)}" for host in self.world.pids])

    def end(self, program, host):
        """The exit status of an rping; None: it does not end.

        An rping of later versions of rdma-core may wait for ever, bare as well. Its thread polls the event channel and an eventfd. The
        thread has seen an event, the identifier is destroyed, the event goes with the identifier, and then the thread reads the event.
        Such an rping has ended when its identifier has been gone for ten seconds. An rping without an eventfd has to exit."""
        if not RPING_MAY_WAIT:
            return program.wait(SECONDS)
        gone = 0
        for _ in range(10 * SECONDS):
            if program.poll() is not None or gone == 100:
                return program.poll() or 0
            gone = gone + 1 if self.world.identifiers(host) == ["none"] else 0
            time.sleep(0.1)
        return None

    def both_end(self, client, server, client_host="a", server_host="b"):
        self.assertEqual((self.end(client, client_host), self.end(server, server_host)), (0, 0), self.story(client, server))

    def talk(self, client, server, client_command, server_command, port, excuse=None):
        """Both end well. Returns what the client said; "" when the client failed with the words of the excuse."""
        serving = self.world.start(server, *server_command)
        self.addCleanup(serving.kill)
        self.wait_listening(serving, server, port)
        asking = self.world.start(client, *client_command)
        self.addCleanup(asking.kill)
        if client_command[0] == "rping":
            self.both_end(asking, serving, client, server)
            return asking.said()
        status = asking.wait(SECONDS)
        if status and excuse and excuse in asking.said():
            serving.kill()
            return ""
        ended = serving.wait(SECONDS if status == 0 else 2)
        self.assertEqual((status, ended), (0, 0), self.story(asking, serving))
        return asking.said()

    def carried(self, host, nic, before):
        """The NIC had the traffic, and not another."""
        after = self.world.bytes_of(host)
        grown = {name: after[name] - before[name] for name in after}
        self.assertEqual(max(grown, key=grown.get), nic, grown)

    def rping(self, client, server, address, nic, rounds=20):
        port, before = self.world.fresh_port(), self.world.bytes_of(server)
        said = self.talk(client, server,
                         ["rping", "-c", "-v", "-V", "-a", address, "-p", str(port), "-C", str(rounds), "-S", "4000"],
                         ["rping", "-s", "-v", "-V", "-a", address, "-p", str(port), "-C", str(rounds), "-S", "4000"], port)
        self.assertEqual(re.findall(r"rdma-ping-(\d+):", said), [str(i) for i in range(rounds)])
        self.carried(server, nic, before)


class Programs(Cases, unittest.TestCase):
    stacked, topology = False, "pair"

    @classmethod
    def setUpClass(cls):
        cls.world = enter(cls, cls.up())

    @classmethod
    @contextlib.contextmanager
    def up(cls):
        with contextlib.ExitStack() as stack:
            stage = stack.enter_context(staged(BUILD)) if cls.stacked else None
            yield stack.enter_context(World.up(cls.topology, BUILD, stage, f"rdmacm-{cls.topology}"))

    def test_rping(self):
        for nic, address in enumerate(PAIR["b"]):
            with self.subTest(address=address):
                self.rping("a", "b", address, nic)

    def example(self, port, nic, *command):
        """One of those that have a port of their own and differ in the client's "-s SERVER" only."""
        before = self.world.bytes_of("b")
        self.talk("a", "b", [*command, "-s", PAIR["b"][nic]], list(command), port)
        self.carried("b", nic, before)

    def test_ucmatose(self):
        self.example(7471, 1, "ucmatose", "-C", "50", "-S", "5000", "-c", "3")

    def test_udaddy(self):
        """Datagrams, whose queue pairs are asked for by SIDR messages."""
        self.example(7174, 1, "udaddy", "-C", "50", "-S", "500", "-c", "2")

    def test_client_and_server(self):
        for nic in (0, 1):
            self.talk("a", "b", ["rdma_client", "-s", PAIR["b"][nic]], ["rdma_server"], 7471)

    def test_rsockets(self):
        options = ["-T", "v", "-S", "20000", "-C", "200"]
        self.talk("a", "b", ["rstream", "-s", PAIR["b"][0], *options], ["rstream", *options], 7471)

    def perftest(self, program, nic):
        before, said = self.world.bytes_of("b"), ""
        for _ in range(TRIES):
            port = self.world.fresh_port()
            command = [program, "-R", "-F", "-n", "200", "-p", str(port)]
            said = self.talk("a", "b", [*command, PAIR["b"][nic]], command, port, TOO_EARLY)
            if said:
                break
        self.assertRegex(said, r"\n *\d+ +200 ")
        self.carried("b", nic, before)

    def test_perftest(self):
        for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
            for nic in (0, 1):
                with self.subTest(program=program, nic=nic):
                    self.perftest(program, nic)

    def test_server_dies(self):
        """Its kernel tells the client, as for a socket."""
        port = self.world.fresh_port()
        ends = ["-v", "-a", PAIR["b"][0], "-p", str(port)]
        server = self.world.start("b", "rping", "-s", *ends)
        self.addCleanup(server.kill)
        self.wait_listening(server, "b", port)
        client = self.world.start("a", "rping", "-c", *ends)
        self.addCleanup(client.kill)
        self.assertTrue(until(lambda: "rdma-ping-5:" in client.said(), SECONDS), client.said())
        server.kill()
        self.assertIsNotNone(client.wait(SECONDS), self.story(client, server))
        self.assertTrue(until(lambda: self.world.identifiers("b") == ["none"], SECONDS), self.world.identifiers("b"))

    def test_nobody_listens(self):
        status, said = self.world.run("a", "rping", "-c", "-a", PAIR["b"][0], "-p", "999", "-C", "1", seconds=SECONDS)
        self.assertNotIn(status, (0, None))
        self.assertIn("RDMA_CM_EVENT_REJECTED", said)


class Stacked(Programs):
    stacked = True


class InfiniBand(Programs):
    """The same addresses, on ports that are found by LID."""
    topology = "ibpair"


class InfiniBandStacked(InfiniBand):
    stacked = True


class Lossy(Cases, unittest.TestCase):
    """Messages of the connection manager are repeated."""

    def test_loss(self):
        with World.up("pair", BUILD, None, "rdmacm-lossy") as self.world:
            self.world.sim.control("a", "mlx5_0 drop dir=rx qpn=1 limit=1")
            self.rping("a", "b", PAIR["b"][0], 0, 3)


class Triangle(Cases, unittest.TestCase):
    """Who names an address names the link; meshverbs has nothing to move, and does not."""

    def test_each_link(self):
        with staged(BUILD) as stage, World.up("triangle", BUILD, stage, "rdmacm") as self.world:
            for client, server, nic, address in TRIANGLE:
                with self.subTest(client=client, server=server):
                    self.rping(client, server, address, nic)


class Survival(Cases, unittest.TestCase):
    """The cable is pulled in the middle; the queue pairs move to the other one."""
    rounds, topology = 3000, "pair"

    @classmethod
    def setUpClass(cls):
        stage = enter(cls, hosts.staged(BUILD))
        cls.place = enter(cls, hosts.Hosts.up(BUILD, stage, f"cm-{cls.topology}-live", topo=hosts.topology(cls.topology)))
        cls.world = cls.place.world

    def setUp(self):
        self.addCleanup(self.place.heal)

    def begin(self, client_host="a"):
        """(client, server), in the middle of their work"""
        port = self.world.fresh_port()
        ends = ["-v", "-V", "-a", PAIR["b"][0], "-p", str(port), "-C", str(self.rounds)]
        server = self.world.start("b", "stdbuf", "-oL", "rping", "-s", *ends)
        self.addCleanup(server.kill)
        self.wait_listening(server, "b", port)
        client = self.world.start(client_host, "stdbuf", "-oL", "rping", "-c", *ends)
        self.addCleanup(client.kill)
        self.reach(client, 300)
        return client, server

    def reach(self, client, n):
        self.assertTrue(until(lambda: f"rdma-ping-{n}:" in client.said() or client.poll() is not None, SECONDS), self.story(client))

    def moves(self, host):
        return self.world.told(host, 1000).count("moved to mlx5_1")

    def all_right(self, *programs):
        for program in programs:
            self.assertEqual(re.findall(r"rdma-ping-(\d+):", program.said()), [str(i) for i in range(self.rounds)])

    def pulled(self, what):
        before = {host: self.moves(host) for host in "ab"}
        client, server = self.begin()
        self.place.link(what, False)
        self.reach(client, 600)
        self.assertEqual({host: self.moves(host) for host in "ab"}, {host: n + 1 for host, n in before.items()})
        self.place.link(what, True)
        self.both_end(client, server)
        self.all_right(client, server)

    def test_both_ends(self):
        self.pulled("l0")

    def test_the_clients_end(self):
        self.pulled("a.0")

    def test_the_servers_end(self):
        self.pulled("b.0")

    def test_own_host(self):
        """Both ends are on one, and move."""
        before = self.moves("b")
        client, server = self.begin("b")
        self.place.link("b.0", False)
        self.reach(client, 600)
        self.assertEqual(self.moves("b"), before + 2)
        self.place.link("b.0", True)
        self.both_end(client, server, "b")
        self.all_right(client, server)

    def test_stays_out(self):
        """All is done, and right; but the message that says good-bye is the kernels', and takes the dead link."""
        client, server = self.begin()
        self.place.link("l0", False)
        self.assertEqual(self.end(client, "a"), 0, self.story(client, server))
        self.assertIsNone(server.poll())
        self.all_right(client, server)


class InfiniBandSurvival(Survival):
    topology = "ibpair"


if __name__ == "__main__":
    need("ip", "bridge", "rping", "ib_write_bw", "stdbuf")
    unittest.main()
