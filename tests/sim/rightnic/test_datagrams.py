#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""UD queue pairs of NICs that do not reach each other: everything a program sees of its datagrams (datagrams.c), and
Debian's programs. Needs root; SIM_BUILD is the build."""
import contextlib
import itertools
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from nicmatrix import REPO, world  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release"))
CHECK = str(BUILD / "tests/sim/rightnic/rightnic-datagrams")
NO_REFRESH = BUILD / "tests/sim/rightnic/no-refresh.so"  # a plugin that never asks again for a path that it has
WAIT_S = 180  # for what takes milliseconds on an idle machine
TRIANGLE, ROUTED, FLAT, FABRICS, PARTITIONS = (REPO / f"tests/topo/{name}.topo" for name in ("triangle", "routed", "flat", "ibplanes", "ibpair"))
SHORT = bool(os.environ.get("RIGHTNIC_SHORT"))
NO_ECHO = 2
SANITIZER = ["env", "ASAN_OPTIONS=verify_asan_link_order=0"]

# The ends of each cable: (server, NIC, client, NIC).
RIGHT = {("a", 0, "b", 0), ("b", 1, "c", 0), ("c", 1, "a", 1)}
RIGHT |= {(c, cn, s, sn) for s, sn, c, cn in RIGHT}
WRONG = sorted((s, sn, c, cn) for s in "abc" for c in "abc" if s != c for sn in (0, 1) for cn in (0, 1)
               if (s, sn, c, cn) not in RIGHT)
MODES = [[], ["-e"], ["-w"], ["-r"], ["-e", "-w", "-r"]]


def talk(w, server, server_nic, client, client_nic, options, seconds=WAIT_S, command=(CHECK,), gid=("-g", "3")):
    """Exit statuses of client and server, what they said."""
    port = w.fresh_port()
    words = [*SANITIZER, *command, *gid, "-p", str(port), *options]
    serving = w.start(server, *words, "-d", f"mlx5_{server_nic}")
    try:
        w.wait_listening(serving, server, port)
        status, said = w.run(client, *words, "-d", f"mlx5_{client_nic}", server, seconds=seconds)
        return status, serving.wait(WAIT_S if status == 0 else 5), said + "\n--- server\n" + serving.said()
    finally:
        serving.kill()


class Stacked(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        stage = cls.stack.enter_context(world.staged(BUILD))
        cls.world = cls.stack.enter_context(world.World.up(TRIANGLE, BUILD, stage, "ud"))

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def good(self, result, what):
        client, server, said = result
        logs = "\n".join(self.world.log(h)[-2000:] for h in "abc")
        self.assertEqual((client, server), (0, 0), f"{what}: {said}\n{logs}")

    def test_every_wrong_choice(self):
        cases = [(case, mode) for case in WRONG for mode in MODES]
        if SHORT:
            cases = random.Random(1).sample(cases, 6)
        for case, mode in cases:
            with self.subTest(case=case, mode=mode):
                self.good(talk(self.world, *case, [*mode, "-n", "3"]), case)

    def test_right_choice_is_left_alone(self):
        before = self.world.log("a").count("datagrams to")
        self.good(talk(self.world, "b", 0, "a", 0, ["-n", "3"]), "right")
        self.assertEqual(self.world.log("a").count("datagrams to"), before)

    def test_tool_shows_it(self):
        port = str(self.world.fresh_port())
        words = [*SANITIZER, CHECK, "-g", "3", "-p", port, "-n", "100000"]
        server = self.world.start("c", *words, "-d", "mlx5_0")
        self.world.wait_listening(server, "c", int(port))
        client = self.world.start("a", *words, "-d", "mlx5_0", "c")
        try:
            found = []
            while not found and client.poll() is None:
                _, said = self.world.run("a", str(BUILD / "tools/meshverbs"), "qps", "--json")
                found = [q for q in json.loads(said)["qps"] if q.get("state") == "moved"] if said.startswith("{") else []
                time.sleep(0.1)
            self.assertTrue(found, said)
            self.assertEqual((found[0]["rail"], found[0]["rail_gid"], found[0]["rail_peer_gid"], found[0]["peer_host"]),
                             ("mlx5_1", "10.3.0.2", "10.3.0.1", "c"), found)
        finally:
            client.kill()
            server.kill()

    def test_server_that_comes_again(self):
        for _ in range(3):
            self.good(talk(self.world, "c", 0, "a", 1, ["-n", "1"]), "again")

    def test_server_that_was_killed(self):
        status, _, _ = talk(self.world, "c", 0, "a", 1, ["-n", "100000"], seconds=3)
        self.assertIsNone(status)
        self.good(talk(self.world, "c", 0, "a", 1, ["-n", "1"]), "after a kill")

    def test_chaos(self):
        """Both hosts at once; b's NIC 0 reaches a's NIC 0, which neither of these is."""
        program = str(BUILD / "tests/sim/rightnic/rightnic-udchaos")
        words = [*SANITIZER, program, "-d", "mlx5_1", "-g", "3", "-t", "3", "-n", "20"]
        one = self.world.start("a", *words, "-s", "1", "::ffff:10.2.0.1", "::ffff:10.2.0.2")
        status, said = self.world.run("b", *words, "-s", "2", "::ffff:10.3.0.2", "::ffff:10.1.0.1", seconds=100)
        other = one.wait(100)
        self.assertEqual((status, other), (0, 0), said + one.said())
        self.assertRegex(said, r"[1-9]\d* sent, \d+ received")

    def test_pingpong(self):
        for case in WRONG if not SHORT else WRONG[:2]:
            result = talk(self.world, *case, ["-n", "50", "-s", "2048"], command=("ibv_ud_pingpong",))
            self.good(result, case)

    def test_perftest(self):
        for options in ([], ["--use_old_post_send"]):
            result = talk(self.world, *WRONG[3], ["-F", "-c", "UD", "-n", "100", *options], command=("ib_send_lat",), gid=())
            self.good(result, options)

    def test_ucx(self):
        for server, client in [("b", "a"), ("c", "b"), ("a", "c")]:
            result = talk(self.world, server, 0, client, 0, ["-t", "tag_bw", "-n", "500", "-s", "4096", "-w", "5"],
                          command=("env", "UCX_TLS=ud_v", "UCX_WARN_UNUSED_ENV_VARS=n", "sh", "-c", 'exec ucx_perftest $(echo "$@" | sed "s/-d mlx5_[01]//")', "ucx"),
                          gid=())
            self.good(result, (server, client))


class Routed(unittest.TestCase):
    """A router between the hosts, and a subnet for each NIC: NIC 0 of one reaches NIC 0 of the other, and 1 reaches 1."""
    WRONG = [(server, nic, client, 1 - nic) for server, client in ("ab", "ba") for nic in (0, 1)]

    def check(self, hosts_file):
        with world.staged(BUILD) as stage, world.World.up(ROUTED, BUILD, stage, "udrouted", hosts_file=hosts_file) as w:
            for case in self.WRONG:
                for mode in ([], ["-e", "-w", "-r"]):
                    client, server, said = talk(w, *case, [*mode, "-n", "3"])
                    self.assertEqual((client, server), (0, 0), f"{case}: {said}\n{w.told('a')}\n{w.told('b')}")
            result = talk(w, *self.WRONG[0], ["-n", "50", "-s", "2048"], command=("ibv_ud_pingpong",))
            self.assertEqual(result[:2], (0, 0), result[2])

    def test_hosts_file(self):
        self.check(True)

    def test_first_contact(self):
        self.check(False)


class Flat(unittest.TestCase):
    """The triangle with one subnet on all cables: the kernel finds nobody, then the links tell which NIC reaches the peer."""

    def check(self, cases, modes):
        with world.staged(BUILD) as stage, world.World.up(FLAT, BUILD, stage, "udflat") as w:
            for case in cases:
                for mode in modes:
                    client, server, said = talk(w, *case, [*mode, "-n", "3"])
                    self.assertEqual((client, server), (0, 0), f"{case}: {said}\n{w.told(case[0])}\n{w.told(case[2])}")
            result = talk(w, *cases[0], ["-n", "50", "-s", "2048"], command=("ibv_ud_pingpong",))
            self.assertEqual(result[:2], (0, 0), result[2])

    def test_every_wrong_choice(self):
        self.check(*((random.Random(1).sample(WRONG, 2), MODES[:1]) if SHORT else (WRONG, MODES)))

    def test_bare(self):
        with world.World.up(FLAT, BUILD, None, "udflatbare") as w:
            status, _, said = talk(w, *WRONG[0], ["-n", "1", "-a", "10"])
            self.assertNotEqual(status, 0, said)


class Infiniband(unittest.TestCase):
    """Two fabrics with one subnet prefix: card 0 of one host reaches card 0 of the other, and 1 reaches 1; all ports are up."""
    WRONG = [(server, nic, client, 1 - nic) for server, client in ("ab", "ba") for nic in (0, 1)]
    PINGPONG = ["-n", "50", "-s", "2048"]

    @contextlib.contextmanager
    def up(self, label, stacked=True, topo=FABRICS):
        with contextlib.ExitStack() as stack:
            stage = stack.enter_context(world.staged(BUILD)) if stacked else None
            yield stack.enter_context(world.World.up(topo, BUILD, stage, label))

    def pingpong(self, w, case, gid, seconds=WAIT_S):
        return talk(w, *case, self.PINGPONG, seconds, ("ibv_ud_pingpong",), gid)

    def right_ones_stay(self, w):
        for gid, nic in [(("-g", "0"), 0), ((), 1)] if SHORT else itertools.product((("-g", "0"), ()), (0, 1)):
            result = self.pingpong(w, ("a", nic, "b", nic), gid)
            self.assertEqual(result[:2], (0, 0), result[2])
        self.assertNotIn("datagrams", w.log("a") + w.log("b"))

    def test_every_wrong_choice(self):
        with self.up("udib") as w:
            self.right_ones_stay(w)
            for case in self.WRONG[::3] if SHORT else self.WRONG:  # from and to each card and host
                for mode in MODES[::4] if SHORT else MODES:
                    client, server, said = talk(w, *case, [*mode, "-n", "3"], gid=("-g", "0"))
                    self.assertEqual((client, server), (0, 0), f"{case}: {said}\n{w.told('a')}\n{w.told('b')}")
                result = self.pingpong(w, case, ("-g", "0"))
                self.assertEqual(result[:2], (0, 0), result[2])
            self.assertRegex(w.log("a"), "datagrams to .* go by mlx5_")

    @unittest.skipIf(SHORT, "long")
    def test_lid_only(self):
        """A host without an agent may have that LID on the program's own fabric."""
        with self.up("udiblid") as w:
            self.assertNotEqual(self.pingpong(w, self.WRONG[0], (), seconds=3)[0], 0)
            self.assertNotIn("datagrams", w.log("a") + w.log("b"))

    @unittest.skipIf(SHORT, "long")
    def test_partitions(self):
        """Where a port has several P_Keys, beacons prove nothing: IPoIB netdevs of two partitions do not hear each other."""
        with self.up("udibparts", topo=PARTITIONS) as w:
            self.right_ones_stay(w)
            self.assertNotEqual(self.pingpong(w, self.WRONG[0], ("-g", "0"), seconds=3)[0], 0)
            self.assertRegex(w.log("a") + w.log("b"), "left as the program asked: beacons of the two ports may go by different partitions")

    @unittest.skipIf(SHORT, "long")
    def test_bare(self):
        with self.up("udibbare", stacked=False) as w:
            for case in self.WRONG:
                status, _, said = talk(w, *case, ["-n", "1", "-a", "5"], gid=("-g", "0"))
                self.assertEqual(status, NO_ECHO, said)


class Changes(unittest.TestCase):
    """What befalls a relay at work. a's NIC 0 to c's NIC 0 goes by NIC 1 of both."""
    SECONDS = 12  # two refreshes and what comes of them

    @contextlib.contextmanager
    def flow(self, label, *options, plugin=None):
        """Datagrams, which have begun when the body does; each is answered, in the end those of ten rounds after it."""
        with tempfile.TemporaryDirectory(prefix="nics-") as folder, world.staged(BUILD) as stage:
            if plugin:
                installed, = pathlib.Path(stage).rglob("meshverbs-provider.so")
                shutil.copyfile(plugin, installed)
            with world.World.up(TRIANGLE, BUILD, stage, label) as w:
                port, over = w.fresh_port(), pathlib.Path(folder, "over")
                words = [*SANITIZER, CHECK, "-g", "3", "-p", str(port), "-d", "mlx5_0"]
                server = w.start("c", *words)
                w.wait_listening(server, "c", port)
                client = w.start("a", *words, "-n", "10", "-u", str(over), *options, "c")
                try:
                    self.assertTrue(w.wait_running(client, lambda: w.log("a").count("go by mlx5_1") == 2, WAIT_S), client.said())
                    yield w, client
                    over.touch()
                    ended = client.wait(WAIT_S), server.wait(WAIT_S)
                    self.said = "\n".join([client.said(), server.said(), w.told("a"), w.told("c")])
                    self.assertEqual(ended, (0, 0), self.said)
                finally:
                    client.kill()
                    server.kill()

    def test_agents_are_stopped(self):
        """Nobody can be asked for another way, so the one there is stays."""
        with self.flow("ud-stopped", "-t", str(self.SECONDS)) as (w, _):
            world.agents.stop(w.sim, list(w.pids))

    def test_other_nic_is_reset(self):
        """Its queue pairs are of no use any more, nor is what the peer knows of them. Both ends make others without being asked."""
        with self.flow("ud-reset", plugin=NO_REFRESH) as (w, client):
            for host in "ac":
                w.sim.control(host, "mlx5_1 reset")
            for host in "ac":
                self.assertTrue(w.wait_running(client, lambda host=host: "mlx5_1 was reset" in w.log(host), WAIT_S), w.told(host))

    def test_program_closes_ours(self):
        """And so its relays, while its own queue pairs work on."""
        with self.flow("ud-closed", "-c", plugin=NO_REFRESH):
            pass
        self.assertRegex(self.said, r"[2-9] closed", self.said)
        self.assertRegex(self.said, "closed descriptors of mlx5_0", self.said)


class WithoutAgents(unittest.TestCase):
    def test_as_bare(self):
        with world.staged(BUILD) as stage, world.World.up(TRIANGLE, BUILD, stage, "ud-alone") as w:
            world.agents.stop(w.sim, list(w.pids))
            status, _, said = talk(w, "c", 0, "a", 0, ["-n", "1", "-a", "10"])
            self.assertEqual(status, NO_ECHO, said)


class Bare(unittest.TestCase):
    def test_wrong_choice_fails(self):
        with world.World.up(TRIANGLE, BUILD, None, "ud") as w:
            for case in WRONG[:3]:
                status, _, said = talk(w, *case, ["-n", "1", "-a", "10"])
                self.assertEqual(status, NO_ECHO, said)


if __name__ == "__main__":
    world.need("ibv_ud_pingpong", "ib_send_lat", "ucx_perftest")
    unittest.main(verbosity=2)
