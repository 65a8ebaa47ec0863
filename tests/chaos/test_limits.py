#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What docs/guarantees.md says is not guaranteed, or not protected: the program gets the error that it would get without us. Needs root;
SIM_BUILD is the build."""
import contextlib
import errno
import pathlib
import re
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import CLIENT, SERVER, Program  # noqa: E402
from schedule.obedient import FLUSHED, RETRY_EXCEEDED, SUCCESS, Obedient, has_pyverbs  # noqa: E402
from schedule.watched import BUILD, ENDS, SECONDS, TRAFFIC, Watched  # noqa: E402
from launcher import agents, fabric  # noqa: E402
from nicmatrix.world import need  # noqa: E402

ALL_RAILS = {(host, f"mlx5_{index}") for host in ENDS for index in (0, 1)}
OTHER_RAILS = {(host, "mlx5_1") for host in ENDS}
SELF = str(BUILD / "tests/chaos/chaos-self")
FAILED = 5  # chaos-self: right, but work requests failed
KIND = "it posted a work request of a kind that cannot be posted again"
UNSEEN = "connections of a protection domain stay where they are: it has a key that was not registered by a function of libibverbs"
THROUGH = "nothing gets through; moved to mlx5_1"
ALL = 100000  # lines of a log
LINK_LOCAL_GIDS = 2  # each port has these
DEVICE_FATAL = "8"  # IBV_EVENT_DEVICE_FATAL
ALL_PORTS = [f"{host}.{index}" for host in ENDS for index in (0, 1)]
LARGEST_MTU = 9000
POSTS = 4  # of which each is done at most once on a path that loses acknowledgements
SILENT_S = 2  # nothing comes in that time; retries are used up after half a second
STACK = contextlib.ExitStack()


def setUpModule():
    stage = STACK.enter_context(hosts.staged(BUILD, hosts.FLAPPING))
    Limits.hosts = STACK.enter_context(hosts.Hosts.up(BUILD, stage, "limits"))


def tearDownModule():
    STACK.close()


class Limits(Obedient):
    def setUp(self):
        self.programs = []
        self.addCleanup(self.clean)

    def begin(self, *options, before=()):
        if self.programs:
            self.clean()
        self.start(*options, before=before)
        self.connect()
        for host in ENDS:
            self.exchange(host)

    def rails(self, host):
        """{(host, device)} with addresses of theirs, as the agent of a host knows them."""
        seen = agents.read(self.hosts.sim, host)
        return {(rail.host, rail.device) for rail in seen.rails if rail.n_gids > LINK_LOCAL_GIDS} if seen else set()

    def know(self, what, rails):
        self.wait_for(what, lambda: all(self.rails(host) == rails for host in ENDS))

    def stays(self, why):
        """That connection is not protected, as the log says, and fails with its cable."""
        qpn = int(self.line(SERVER, 0, "end").split()[0])
        self.assertRegex(self.hosts.world.told(SERVER, ALL), rf"QP {qpn:#x}\b.*: cannot be moved later: {re.escape(why)}; the program gets its errors")
        self.hosts.link("a.0", False)
        for host in ENDS:
            self.tell(host, f"write {self.region(host)}", RETRY_EXCEEDED)

    def survives(self):
        """Another one is protected."""
        self.begin()
        self.are_movable()
        self.hosts.link("a.0", False)
        self.are_on("mlx5_1")
        for host in ENDS:
            self.exchange(host)

    def test_invalidation(self):
        """What cannot be posted again stays where it is, and all that is outstanding with it; where a connection has moved it is refused."""
        for kind in (True, False):
            with self.subTest(kind=kind):
                self.begin()
                self.are_movable()
                region = self.region(SERVER)
                self.tell(SERVER, f"write {region}", SUCCESS)
                self.hosts.fault(f"{SERVER}.0", "drop dir=tx class=request")  # probes and carrier stay
                self.tell(SERVER, f"post {region}", "posted")
                if kind:
                    self.tell(SERVER, "invalidate", "posted")
                self.tell(SERVER, f"completion {SECONDS}", RETRY_EXCEEDED if kind else SUCCESS)
                if kind:
                    self.tell(SERVER, f"completion {SECONDS}", FLUSHED)
                self.hosts.fault(f"{SERVER}.0", "clear")
                self.wait_for("the log says so", lambda line=KIND if kind else THROUGH: line in self.hosts.world.told(SERVER, 8))
        self.tell(SERVER, "invalidate", f"errno {errno.EINVAL}")
        self.exchange(SERVER)

    def fails_everywhere(self, words, post="post", settings=(), switch_mtu=None, host=SERVER):
        """Both paths lose the work of one end, and neither ports nor probes tell: it has its error, each path tried once."""
        self.begin(*settings)
        self.are_movable()
        regions = [self.region(host) for _ in range(POSTS)]
        moves = self.moved_to_other(host)
        self.lose(host, words, switch_mtu)
        for region in regions:
            self.tell(host, f"{post} {region}", "posted")
            # What was executed has completed, if an acknowledgement is all that was lost.
            if self.tell(host, f"completion {SECONDS}", "status") == RETRY_EXCEEDED.split()[1]:
                break
        else:
            self.fail(f"no error\n{self.story()}")
        self.wait_for("the log says so", lambda: "did not get through on any path" in self.hosts.world.told(host, 8))
        self.assertLessEqual(self.moved_to_other(host) - moves, 1, self.story())

    def moved_to_other(self, host):
        return self.hosts.world.told(host, ALL).count(THROUGH)

    def lose(self, host, words, switch_mtu):
        self.addCleanup(self.hosts.heal)
        for port in ALL_PORTS if switch_mtu else ():
            self.switch_mtu(port, switch_mtu)
            self.addCleanup(self.switch_mtu, port, LARGEST_MTU)
        for index in (0, 1):
            self.hosts.fault(f"{host}.{index}", words)

    def switch_mtu(self, port, mtu):
        """Frames that are larger are dropped on their way to that port."""
        name = fabric.port_name(self.hosts.topo, self.hosts.topo.nic(port), None)
        fabric.ip("-n", self.hosts.sim.fabric, "link", "set", name, "mtu", str(mtu))

    def test_requests_fail_everywhere(self):
        """Whichever end leads the move."""
        for host in ENDS:
            with self.subTest(host=host):
                self.fails_everywhere("drop dir=tx class=request", host=host)

    def test_responses_fail_everywhere(self):
        self.fails_everywhere("drop dir=rx class=response", "read")

    def test_acks_fail_everywhere(self):
        self.fails_everywhere("drop dir=rx class=ack")

    def test_large_ones_fail_everywhere(self):
        """A switch whose ports have a smaller MTU than the path was made for."""
        self.fails_everywhere("clear", settings=("mtu=4096", "size=6000"), switch_mtu=1500)

    def test_small_ones_pass(self):
        """Work of another size goes on while none of that one does."""
        self.begin("mtu=4096", "size=1000")
        self.are_movable()
        self.lose(SERVER, "clear", 1500)
        for host in ENDS:
            self.exchange(host)
        self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_0"}] * 2)

    def test_work_is_read(self):
        """Debian's python3 is no PIE: malloc's address is that of its own jump to the C library, which tells sizes of blocks all the same."""
        self.begin()
        self.assertIn("what queue pairs have outstanding is read from their queues", self.hosts.world.told(SERVER, ALL))

    def test_builders(self):
        """What the program builds by mlx5dv_wr_*() is posted past us."""
        self.begin("raw")
        for host in ENDS:
            self.tell(host, "nop", "posted")
            self.tell(host, f"completion {SECONDS}", SUCCESS)
        self.stays("it was made for work requests that are not seen here (mlx5dv_wr_*, ibv_wr_atomic_write, ibv_wr_flush)")
        self.survives()

    def test_unseen_keys(self):
        """Of keys that nobody saw being made no other NIC is asked: each end finds its own before anything is drained, and the connection goes on."""
        for unseen in ("own", "given"):
            with self.subTest(unseen=unseen):
                self.begin(f"unseen={unseen}")
                self.are_movable()
                self.assertNotEqual(self.tool(SERVER, "drain", "mlx5_0", "-t", "2")[0], 0)
                for host in ENDS:
                    self.exchange(host)
                self.tool(SERVER, "undrain", "mlx5_0")
                bound = [qp["why"] for host in ENDS for qp in self.qps(host) if not qp["movable"]]
                self.assertTrue(bound and all(why in UNSEEN for why in bound), self.story())
                self.assertIn(UNSEEN, self.hosts.world.told(SERVER, ALL) + self.hosts.world.told(CLIENT, ALL))
                self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_0"}] * 2)
                # As without us.
                self.hosts.link("a.0", False)
                self.tell(SERVER, f"write {self.region(SERVER)}", RETRY_EXCEEDED)
        self.survives()

    def test_one_nic(self):
        """Neither host has another one for the other; that one comes later does not change what was connected before."""
        self.second(False)
        for host in ENDS:
            self.hosts.agent_restart(host)
        self.know("no other path", ALL_RAILS - OTHER_RAILS)
        self.begin()
        self.second(True)
        self.know("another path", ALL_RAILS)
        self.stays("no other rail reached one of the peer's when it was made")
        self.survives()

    def second(self, there):
        """The other NICs reach each other."""
        for host in ENDS:
            self.hosts.forward(f"{host}.1", there)
            self.hosts.address(f"{host}.1", there)

    def test_no_agent(self):
        """The peer's host had none when it was connected."""
        self.hosts.agent_kill(CLIENT)
        self.wait_for(f"{CLIENT} is forgotten", lambda: {host for host, _ in self.rails(SERVER)} == {SERVER})
        self.begin()
        self.hosts.agent_start(CLIENT)
        self.know("another path", ALL_RAILS)
        self.stays("the peer's host had no agent when it was made")
        self.survives()

    def test_silent_neighbour(self):
        """His host announces him, and he answers no ARP: four queue pairs that are made in advance wait for him at most, and the traffic goes on."""
        before = {host: self.not_connected(host) for host in ENDS}
        new = lambda host: self.not_connected(host) - before[host]  # noqa: E731
        self.arp(False)
        self.addCleanup(self.arp, True)
        self.programs = self.hosts.both(TRAFFIC, ["-t", "2", "-q", "6", "-r", "50", "-s", "1", "-o", "send,write,read"])
        self.wait_for("one was not connected in advance", lambda: any(new(host) for host in ENDS))
        time.sleep(6)
        for host in ENDS:
            self.assertLessEqual(new(host), 4, self.story())
        self.end()

    def arp(self, on):
        nic = self.hosts.topo.nic(f"{CLIENT}.1")
        fabric.ip("-n", self.hosts.sim.netns(CLIENT), "link", "set", nic.netdev, "arp", "on" if on else "off")
        for host in ENDS:
            fabric.ip("-n", self.hosts.sim.netns(host), "neigh", "flush", "dev", nic.netdev)

    def not_connected(self, host):
        return self.hosts.world.told(host, ALL).count("not connected in advance on mlx5_1: Connection timed out")

    def test_probes_alone(self):
        """What agents say is lost on one path, and nothing else: it is left, and returned to."""
        self.begin()
        self.are_movable()
        self.hosts.control_loss(SERVER, 100, self.hosts.topo.nic(f"{SERVER}.0").netdev)
        self.are_on("mlx5_1")
        for host in ENDS:
            self.exchange(host)
        self.hosts.control_loss(SERVER, 0)
        self.are_on("mlx5_0")
        for host in ENDS:
            self.exchange(host)

    def test_own_nic_gone(self):
        """As without us, whether or not the connection had another way."""
        for before in (("env", "MESHVERBS=off"), ()):
            with self.subTest(before=before):
                self.begin(before=before)
                if not before:
                    self.are_movable()
                region = self.region(CLIENT)
                self.hosts.fault(f"{SERVER}.0", "drop dir=tx class=request")
                self.tell(SERVER, f"post {self.region(SERVER)}", "posted")
                self.hosts.fault(f"{SERVER}.0", "reset")
                while self.tell(SERVER, "event", "event") != DEVICE_FATAL:
                    pass  # of the faults before
                self.tell(SERVER, f"completion {SILENT_S}", "no completion")
                self.tell(CLIENT, f"write {region}", RETRY_EXCEEDED)


class Flush(Watched):
    """As NCCL has it: queue pairs that are connected to themselves, beside a connection that is given another NIC when it is made."""

    def setUp(self):
        self.programs = ()
        self.addCleanup(self.kill)

    def begin(self, place):
        """That of CLIENT was asked for on mlx5_1, which does not reach the other one's."""
        self.hosts = place
        self.programs = [Program(place.world.argv(host, SELF, "-d", device, "-c", "-q", "1")) for host, device in zip(ENDS, ("mlx5_0", "mlx5_1"))]
        self.wait_for("they say where they are", lambda: all("\n" in program.said() for program in self.programs))
        said = [program.said() for program in self.programs]
        for program, other in zip(self.programs, reversed(said)):
            program.process.stdin.write(other.encode())
            program.process.stdin.flush()
        self.wait_for("they are connected", lambda: "moved" in [qp["state"] for qp in self.qps(CLIENT)])

    def ends(self):
        for program in self.programs:
            program.stop()
        return [program.wait(SECONDS) for program in self.programs]

    def test_follows(self):
        with hosts.staged(BUILD) as stage, hosts.Hosts.up(BUILD, stage, "follows") as place:
            self.begin(place)
            self.wait_for("all are on mlx5_0", lambda: len(self.qps(CLIENT)) == 2 and self.used(CLIENT) == {"mlx5_0"})
            self.assertEqual(self.ends(), [0, 0], self.story())

    def test_stays(self):
        """survive = off: it lives and dies with the NIC that was asked for."""
        with hosts.staged(BUILD, hosts.SURVIVE.replace("survive = on", "survive = off")) as stage, \
                hosts.Hosts.up(BUILD, stage, "stays") as place:
            self.begin(place)
            self.assertEqual([qp["rail"] for qp in self.qps(CLIENT)], ["mlx5_0"])
            place.link(f"{CLIENT}.0", False)
            time.sleep(5)  # retries are used up after half a second, and a second later it ends
            self.assertIsNone(self.programs[1].poll(), self.story())
            place.link(f"{CLIENT}.1", False)
            self.wait_for("its own NIC's errors", lambda: self.programs[1].poll() is not None)
            self.assertEqual(self.ends(), [0, FAILED], self.story())


if __name__ == "__main__":
    need("ip", "tc", "bridge")
    if not has_pyverbs():
        print("no python3-pyverbs; scripts/deps sim installs it")
        sys.exit(77)
    unittest.main()
