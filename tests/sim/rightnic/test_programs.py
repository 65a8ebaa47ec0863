#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that choose NICs by themselves, or insist on one that is not cabled: bare they fail, with meshverbs at all
ends they work.

    [RIGHTNIC_HALF=bare|stacked] [RIGHTNIC_SHORT=SEED] SIM_BUILD=BUILD test_programs.py [TEST...]
"""
import concurrent.futures
import ipaddress
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from nicmatrix import REPO, drive, gids  # noqa: E402
from nicmatrix.world import World, enter, need, staged  # noqa: E402
from launcher import agents  # noqa: E402
from verbsmatrix.program import UCX_PERFTEST  # noqa: E402
from verbsmatrix.simhosts import act  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release")).resolve()
SHORT = os.environ.get("RIGHTNIC_SHORT")  # one of each kind, drawn with this seed
HALF = os.environ.get("RIGHTNIC_HALF")  # only this half of the proof
NCCLISH = str(BUILD / "tests/sim/verbs/sim_ncclish")
MPI = str(HERE.parent / "accept/mpi")
UCX = ["UCX_TLS=rc_verbs,ud_verbs,self"]  # and no UCX_NET_DEVICES
RNG = random.Random(SHORT)
UCX_UNREACHED = (r"modifying QP to RTR|ibv_create_ah\(.* failed: Connection timed out|Endpoint timeout|unhandled timeout|"
                 "retry counter exceeded|client None")  # and no other reason
MPI_UNREACHED = UCX_UNREACHED.replace("client None", "UD verbs connect on .* failed|BAD TERMINATION|EXIT CODE: 124|mpi ended with (None|124)")
PAIRS = [("a", "b"), ("a", "c"), ("b", "a"), ("b", "c"), ("c", "a"), ("c", "b")]  # server, client


def ucx_status():
    """Exit status of ucx_perftest where ibv_create_ah() says that there is no path: UCX 1.10 aborts then."""
    said = subprocess.run(["ucx_info", "-v"], text=True, capture_output=True, check=True).stdout
    version = re.search(r"version\D{1,3}(\d+)\.(\d+)", said, re.I)
    return -signal.SIGABRT if (int(version[1]), int(version[2])) <= (1, 10) else 255


def some(things):
    """All of them, or one in the short form."""
    return [RNG.choice(things)] if SHORT else things


class Worlds(unittest.TestCase):
    """The same topology twice, bare and with meshverbs."""
    topology = "triangle"
    same_ends = False  # programs end with meshverbs as they do bare; the short form shows the former only

    @classmethod
    def setUpClass(cls):
        label = cls.__name__.lower()
        cls.bare = cls.stacked = None
        if HALF != "stacked" and not (SHORT and cls.same_ends):
            cls.bare = enter(cls, World.up(cls.topology, BUILD, None, label, cls.before_agents))
        if HALF != "bare":
            stage = enter(cls, staged(BUILD))
            cls.stacked = enter(cls, World.up(cls.topology, BUILD, stage, label, cls.before_agents))

    @staticmethod
    def before_agents(world):
        """To be done to the hosts first."""

    def both(self, what, reason):
        """what(world) -> (whether it worked, what was said): not on the bare hosts, for that reason, but with meshverbs.

        Side by side, since bare programs mostly wait for what does not come."""
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            bare = pool.submit(what, self.bare) if self.bare else None
            if self.stacked:
                ok, said = what(self.stacked)
                with self.subTest("stacked"):
                    self.assertTrue(ok, said + self.logs())
        if bare:
            ok, said = bare.result()
            with self.subTest("bare"):
                self.assertFalse(ok, f"works bare, so it proves nothing:\n{said}")
                self.assertRegex(said, reason)

    def logs(self):
        return "".join(f"\n-- log of {host}\n{self.stacked.told(host, 15)}\n-- its agent\n{self.stacked.agent_log(host)[-1000:]}"
                       for host in self.stacked.pids)

    def talk(self, world, server, client, server_command, client_command, port, sane, seconds=None):
        """(both ended well and the client said so, what they said)"""
        got = drive.talk(world, server, client, server_command, client_command, port, seconds or (60 if world.stacked else 8))
        said = f"-- client {got['client']}\n{got['output']['client']}\n-- server {got['server']}\n{got['output']['server']}"
        return (got["client"], got["server"]) == (0, 0) and bool(re.search(sane, got["output"]["client"])), said


class Triangle(Worlds):
    def ring(self, world, hosts, *options):
        """NCCL-like ranks, one per host."""
        port = str(world.fresh_port())
        ranks = [world.start(host, NCCLISH, str(rank), *hosts, "-p", port, "-t", "80" if world.stacked else "10", *options)
                 for rank, host in enumerate(hosts)]
        statuses = [rank.wait(90) for rank in ranks]
        return statuses == [0] * len(hosts), "".join(rank.said() for rank in ranks)

    def test_nccl_ring(self):
        """Two queue pairs per device over both devices; of each rank's two neighbours each device reaches one."""
        self.both(lambda world: self.ring(world, "abc", "-n", "100"), "modify QP to RTR")

    def test_nccl_ring_the_other_way_with_more_queue_pairs(self):
        self.both(lambda world: self.ring(world, "cba", "-q", "4", "-n", "100", "-r", "7"), "modify QP to RTR")

    def test_nccl_pair_with_one_device(self):
        self.both(lambda world: self.ring(world, "ac", "-d", "mlx5_0", "-n", "100", "-r", "3"), "modify QP to RTR")

    def test_nccl_with_link_local_gids(self):
        self.both(lambda world: self.ring(world, "abc", "-g", "1", "-n", "50"), "modify QP to RTR|took too long|status 12")

    def ucx(self, world, server, client, test, *options, both=()):
        """both: options of the server, too."""
        port = world.fresh_port()
        command = ["env", *UCX, *UCX_PERFTEST.split(), "-p", str(port), *both]
        return self.talk(world, server, client, command, [*command, server, "-t", test, "-n", "500", "-s", "4096", *options],
                         port, r"Final: +500 ")

    def test_ucx_tag_bw(self):
        for server, client in some(PAIRS):
            with self.subTest(server=server, client=client):
                self.both(lambda world: self.ucx(world, server, client, "tag_bw"), UCX_UNREACHED)

    def test_ucx_large_messages(self):
        """By rendezvous, over both rails when UCX likes."""
        for server, client in some(PAIRS):
            with self.subTest(server=server, client=client):
                self.both(lambda world: self.ucx(world, server, client, "tag_bw", "-s", "1000000", "-n", "500"), UCX_UNREACHED)

    def test_ucx_latency(self):
        for server, client in some(PAIRS):
            with self.subTest(server=server, client=client):
                self.both(lambda world: self.ucx(world, server, client, "tag_lat"), UCX_UNREACHED)

    def test_ucx_transport_alone(self):
        """am_lat is a test of one transport on one device, of the same name at both ends."""
        for server, client, device in some([("a", "b", 1), ("b", "c", 0), ("c", "b", 1), ("a", "c", 0)]):
            for transport in ("rc_verbs", "ud_verbs"):
                with self.subTest(server=server, client=client, transport=transport):
                    # UCX 1.18's server insists on the test and on the device, too
                    both = ["-t", "am_lat", "-d", f"mlx5_{device}:1", "-x", transport]
                    self.both(lambda world: self.ucx(world, server, client, "am_lat", "-s", "64", both=both), UCX_UNREACHED)

    def ucx_ends_as_bare(self, world, transports):
        """Both ends end by themselves, with UCX's error of a path that does not work, before anything times out there."""
        port = world.fresh_port()
        command = ["env", *transports, "UCX_NET_DEVICES=mlx5_1:1", *UCX_PERFTEST.split(), "-p", str(port)]
        got = drive.talk(world, "b", "a", command, [*command, "b", "-t", "tag_lat", "-n", "100"], port, 25, None)
        said = json.dumps(got, indent=1)
        self.assertEqual((got["client"], got["server"]), (ucx_status(), ucx_status()), said)  # not killed, nor aborted later
        for end in ("client", "server"):
            self.assertRegex(got["output"][end], "ibv_create_ah.* failed: Connection timed out", said)

    def test_ucx_that_drives_its_queue_pairs(self):
        """By mlx5dv, with or without libibverbs for the datagrams by which it connects: the same ends as bare."""
        for transports in ([], ["UCX_TLS=rc_mlx5,ud_verbs,self"], ["UCX_TLS=rc_verbs,ud_mlx5,self"]):
            for world in filter(None, (None if SHORT else self.bare, self.stacked)):
                with self.subTest(transports=transports, stacked=bool(world.stacked)):
                    self.ucx_ends_as_bare(world, transports)

    def mpi(self, world, *settings):
        status, said = world.run("a", MPI, "a,b,c", "1", *settings, seconds=60)
        return status == 0 and bool(re.search(r"mpi: 3 ranks on 3 hosts, 1 rounds, \d+ checks, 0 wrong", said)), f"mpi ended with {status}\n{said}"

    def test_mpi(self):
        self.both(lambda world: self.mpi(world, *UCX), MPI_UNREACHED)

    def test_mpi_rc_with_more_lanes(self):
        self.both(lambda world: self.mpi(world, "UCX_TLS=rc_v,self", "UCX_MAX_RNDV_RAILS=2"), MPI_UNREACHED)


class Unopened(Worlds):
    """Host a's NIC 0, by which b would be reached, cannot be opened: its device file is not there."""
    same_ends = True

    @staticmethod
    def before_agents(world):
        status, said = world.run("a", "rm", "/dev/infiniband/uverbs0")
        if status != 0:
            raise RuntimeError(said)

    def ends_as_bare(self, server, client, program):
        """Both ends end by themselves, with the error of the path that the program asked for."""
        nics = {"a": "mlx5_1", "b": "mlx5_0"}
        for world in filter(None, (self.bare, self.stacked)):
            with self.subTest(server=server, program=program, stacked=bool(world.stacked)):
                port = world.fresh_port()
                command = [*program, "-p", str(port), "-d"]
                got = drive.talk(world, server, client, [*command, nics[server]], [*command, nics[client], server], port, 25, None)
                said = json.dumps(got, indent=1)
                self.assertNotIn(None, (got["client"], got["server"]), said)  # had to be killed
                self.assertNotIn(0, (got["client"], got["server"]), said)
                self.assertRegex(got["output"]["client" if client == "a" else "server"], "modify QP.* to RTR|Unable to Connect", said)

    def test_receiver_or_sender_cannot_move(self):
        """a only receives, or only sends; its peer b, which could move, is told."""
        for server, client in (("a", "b"), ("b", "a")):
            for program in some(["ib_send_bw", "ib_write_bw"]):
                self.ends_as_bare(server, client, [program, "-F", "-n", "200"])

    def test_datagrams(self):
        """ibv_create_ah() says so; nothing else would."""
        for world in filter(None, (self.bare, self.stacked)):
            with self.subTest(stacked=bool(world.stacked)):
                port = world.fresh_port()
                command = ["ibv_ud_pingpong", "-g", "3", "-p", str(port), "-d"]
                got = drive.talk(world, "a", "b", [*command, "mlx5_1"], [*command, "mlx5_0", "a"], port, 25, None)
                self.assertIn("Failed to create AH", got["output"]["server"], json.dumps(got, indent=1))


class Versions(Worlds):
    """RoCE v1 (index 0) at one end or both, messages in both directions from the first moment on."""
    topology = HERE / "gids.topo"
    same_ends = True

    def ack_timeouts(self, world):
        return [int(world.file(host, "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err")) for host in "ab"]

    def test_first_messages_arrive(self):
        """No end sends before the other receives: nothing is lost and sent again after the ACK timeout, four seconds here."""
        for world, indexes in ((self.bare, [(0, 0)]), (self.stacked, [(0, 0), (0, 1), (1, 0)])):
            for server, client in indexes if world else []:
                with self.subTest(stacked=world.stacked, server=server, client=client):
                    before, port = self.ack_timeouts(world), world.fresh_port()
                    command = ["ib_send_bw", "-b", "-F", "-u", "20", "-n", "100", "-s", "4096", "-d", "mlx5_0", "-p", str(port), "-x"]
                    ok, said = self.talk(world, "b", "a", [*command, str(server)], [*command, str(client), "b"], port, r"\n *4096 +100 ", 60)
                    self.assertTrue(ok, said)
                    time.sleep(0.3)  # counters are brought up to date ten times a second
                    self.assertEqual(self.ack_timeouts(world), before, said)


class Uncabled(Worlds):
    """Host a's NIC 0 never has a carrier; b reaches it through NIC 1 only."""
    topology = "pair"

    @staticmethod
    def before_agents(world):
        act("link", "-n", world.place.name, "a.0", "off")

    def pingpong(self, world, server, client, program, *options, gid="3", devices=("mlx5_0", "mlx5_0")):
        port = world.fresh_port()
        command = [program, "-p", str(port), "-n", "200", "-c", *options]
        ends = [[*command, "-g", gid, "-d", device] for device in devices]
        return self.talk(world, server, client, ends[0], [*ends[1], server], port, r"\d+ iters in ")

    def perftest(self, world, server, client, program, devices):
        port = world.fresh_port()
        command = [program, "-F", "-n", "200", "-p", str(port), "-d"]
        return self.talk(world, server, client, [*command, devices[0]], [*command, devices[1], server], port, r"\n *\d+ +200 ")

    def test_examples_insist(self):
        for server, client in some([("a", "b"), ("b", "a")]):
            for program, options in (("ibv_rc_pingpong", ()), ("ibv_rc_pingpong", ("-e",)), ("ibv_srq_pingpong", ())):
                with self.subTest(server=server, program=program, options=options):
                    self.both(lambda world: self.pingpong(world, server, client, program, *options),
                              r"modify QP(\[0\])? to RTR|status .*retry")

    def test_link_local_index(self):
        self.both(lambda world: self.pingpong(world, "a", "b", "ibv_rc_pingpong", gid="1"), r"modify QP(\[0\])? to RTR|status .*retry")

    def test_the_cabled_end_insists(self):
        """b's NIC 0 is cabled, but to nothing that a has left."""
        for program in some(["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"]):
            for server, client, devices in (("a", "b", ("mlx5_1", "mlx5_0")), ("b", "a", ("mlx5_0", "mlx5_1"))):
                with self.subTest(program=program, server=server):
                    self.both(lambda world: self.perftest(world, server, client, program, devices), "modify QP|Unable to Connect")

    def test_perftest_looks_at_the_port_first(self):
        """It ends by itself on a device whose port is down, before it connects anything: nobody can help it there."""
        for world in filter(None, (self.bare, self.stacked)):
            status, said = world.run("a", "ib_write_bw", "-d", "mlx5_0", "-F", "-p", str(world.fresh_port()), seconds=60)
            self.assertNotEqual(status, 0)
            self.assertIn("state is Down", said)


class SameAddress(Worlds):
    """NIC 0 of a has one address on two netdevs: without its subnet on a VLAN, where it stands at a lower index, and with it on the port itself."""
    topology = "sameip"

    @staticmethod
    def before_agents(world):
        for port, address in (("a.0.100", "10.1.0.1/32"), ("a.0", "10.1.0.1/24")):
            act("addr", "-n", world.place.name, "add", port, address)

    def index(self, world, host, address, netdev):
        found = [index for index, entry in gids.entries(world, host, "mlx5_0").items()
                 if entry == (str(ipaddress.IPv6Address(f"::ffff:{address}")), "RoCE v2", netdev)]
        self.assertEqual(len(found), 1, f"{host}: {gids.entries(world, host, 'mlx5_0')}")
        return str(found[0])

    def crossing(self, world, server, client):
        """a asks for NIC 1, which does not reach b's NIC 0: NIC 0 of a takes over, by the index of its right netdev."""
        port = world.fresh_port()
        command = {host: ["ibv_rc_pingpong", "-d", device, "-g", "3", "-p", str(port), "-n", "100"]
                   for host, device in (("a", "mlx5_1"), ("b", "mlx5_0"))}
        return self.talk(world, server, client, command[server], [*command[client], server], port, r"\b100 iters in ")

    def test_crossing(self):
        for server, client in some([("a", "b"), ("b", "a")]):
            with self.subTest(server=server):
                self.both(lambda world: self.crossing(world, server, client), "modify QP to RTR|retry")
                if self.stacked:
                    self.assertRegex(self.stacked.log("a"), r"; goes from mlx5_0 \(10\.1\.0\.1\) to 10\.1\.0\.2 instead")

    def pingpong(self, world, program, server, client):
        port = world.fresh_port()
        indexes = {"a": self.index(world, "a", "10.1.0.1", "eth0.100"), "b": self.index(world, "b", "10.1.0.2", "eth0")}
        command = {host: [program, "-d", "mlx5_0", "-g", indexes[host], "-p", str(port), "-n", "100"] for host in "ab"}
        return self.talk(world, server, client, command[server], [*command[client], server], port, r"\b100 iters in ")

    def test_pingpong(self):
        for program in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
            for server, client in some([("a", "b"), ("b", "a")]):
                with self.subTest(program=program, server=server):
                    self.both(lambda world: self.pingpong(world, program, server, client), "modify QP to RTR|create AH")

    def test_without_agents(self):
        """Nobody has to agree: it is the same address."""
        if self.stacked:
            agents.stop(self.stacked.sim, ["a", "b"])
            self.addCleanup(self.stacked.start_agents)
        for program in some(["ibv_rc_pingpong", "ibv_ud_pingpong"]):
            with self.subTest(program=program):
                self.both(lambda world: self.pingpong(world, program, "a", "b"), "modify QP to RTR|create AH")


class Lost(Worlds):
    """NIC 0 of a loses its carrier between a program's start and its connection."""
    topology = "pair"

    def perftest(self, world, program):
        port, name = world.fresh_port(), world.place.name
        command = [program, "-F", "-n", "200", "-p", str(port), "-d", "mlx5_0"]
        serving = world.start("a", *command)
        try:
            self.assertTrue(world.wait_listening(serving, "a", port), serving.said())
            act("link", "-n", name, "a.0", "off")
            if world.stacked:
                self.wait_known_down(world)
            status, said = world.run("b", *command, "a", seconds=60)
            served = serving.wait(5 if status else 60)
        finally:
            serving.kill()
            act("link", "-n", name, "a.0", "on")
        text = f"-- client {status}\n{said}\n-- server {served}\n{serving.said()}"
        return (status, served) == (0, 0) and bool(re.search(r"\n *\d+ +200 ", said)), text

    def wait_known_down(self, world):
        """Until b's agent has heard of it: within that time a connection sees what bare programs see."""
        for _ in range(100):
            _, said = world.run("b", str(BUILD / "tools/meshverbs"), "peers", "--json")
            if any(rail["host"] == "a" and rail["device"] == "mlx5_0" and not rail["up"] for rail in json.loads(said)["rails"]):
                return
            time.sleep(0.05)
        self.fail(f"b never hears that a's NIC 0 is down:\n{said}")

    def test_perftest(self):
        for program in some(["ib_write_bw", "ib_send_bw"]):
            with self.subTest(program=program):
                self.both(lambda world: self.perftest(world, program), "modify QP|Unable to Connect|retry")



if __name__ == "__main__":
    need("ucx_perftest", "mpiexec.mpich", "mpicc.mpich", "ib_write_bw", "ibv_rc_pingpong")
    if not pathlib.Path(NCCLISH).exists():
        sys.exit(f"no {NCCLISH}; build it")
    del Worlds  # its tests are those of its subclasses
    unittest.main()
