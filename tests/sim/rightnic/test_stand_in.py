#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs whose device has a port that is down: bare and with stand_in = off they end, with stand_in = on another port
serves them; and whatever else a program sees is the same in all three.

    [STAND_IN_SHORT=1] SIM_BUILD=BUILD test_stand_in.py [TEST...]
"""
import contextlib
import os
import pathlib
import re
import sys
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "nccl"))
from nicmatrix import REPO, drive  # noqa: E402
from nicmatrix.world import World, enter, need, staged  # noqa: E402
from launcher import agents  # noqa: E402
from realnccl import paths, ranks  # noqa: E402
from verbsmatrix.program import UCX_PERFTEST  # noqa: E402
from verbsmatrix.simhosts import act  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release")).resolve()
SHORT = bool(os.environ.get("STAND_IN_SHORT"))
CONF = "[meshverbs]\nstand_in = {}\nhold_down_ms = 300\nsurvive = on\n{}[log]\ntarget = /var/log/meshverbs.log\nlevel = debug\n"
SECONDS = 60
# Lines of ibv_devinfo -v that the serving port has a say in.
OTHERS_SAY = re.compile(r"state:|active_mtu:|active_width:|active_speed:|phys_state:")


def some(things):
    return things[:1] if SHORT else things


def until(condition, seconds=SECONDS):
    limit = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < limit:
        time.sleep(0.02)
    return found


class Worlds(unittest.TestCase):
    """The same hosts three times: bare, stand_in = off, stand_in = on."""
    topology = "pair"

    @classmethod
    def setUpClass(cls):
        cls.bare = enter(cls, World.up(cls.topology, BUILD, None, "stand"))
        cls.off, cls.on = (cls.stacked(setting) for setting in ("off", "on"))

    @classmethod
    def stacked(cls, setting):
        stage = enter(cls, staged(BUILD))
        pathlib.Path(stage, "etc/libibverbs.d/mesh/mesh.conf").write_text(CONF.format(setting, ""), encoding="ascii")
        return enter(cls, World.up(cls.topology, BUILD, stage, f"stand-{setting}"))

    @property
    def worlds(self):
        return {"bare": self.bare, "off": self.off, "on": self.on}

    def carrier(self, world, port, state, *, all_know=True):
        """A port's carrier is as said, and the host's agent knows, or all agents do."""
        host, nic = port.split(".")
        act("link", "-n", world.place.name, port, state)
        self.assertTrue(until(lambda: agents.active(world.sim, host, f"mlx5_{nic}") == (state == "on")))
        for reader in agents.running(world.sim) if all_know else [host] if world.stacked else []:
            self.assertTrue(until(lambda reader=reader: self.knows(world, reader, host, f"mlx5_{nic}", state == "on")),
                            world.agent_log(reader))

    @staticmethod
    def knows(world, reader, host, device, up):
        seen = agents.read(world.sim, reader)
        return seen and any((rail.host, rail.device, rail.up) == (host, device, up) for rail in seen.rails)

    @contextlib.contextmanager
    def down(self, world, *ports):
        for port in ports:  # several cut the hosts off from each other
            self.carrier(world, port, "off", all_know=len(ports) == 1)
        try:
            yield
        finally:
            for port in ports:
                self.carrier(world, port, "on", all_know=False)
            if world.stacked:
                agents.wait(world.sim, world.topo)

    def devinfo(self, world, device="mlx5_0", host="a", *, env=()):
        status, said = world.run(host, "env", *env, "ibv_devinfo", "-v", "-d", device)
        self.assertEqual(status, 0, said)
        return said

    def perftest(self, world, server, client, program, devices):
        port = world.fresh_port()
        command = [program, "-F", "-n", "200", "-p", str(port), "-d"]
        return self.talked(drive.talk(world, server, client, [*command, devices[0]], [*command, devices[1], server], port, SECONDS),
                           r"\n *\d+ +200 ")

    def pingpong(self, world, server, client, devices, *options):
        port = world.fresh_port()
        ends = [["ibv_rc_pingpong", "-p", str(port), "-n", "200", "-c", *options, "-d", device] for device in devices]
        return self.talked(drive.talk(world, server, client, ends[0], [*ends[1], server], port, SECONDS), r"\d+ iters in ")

    @staticmethod
    def talked(got, sane):
        said = f"-- client {got['client']}\n{got['output']['client']}\n-- server {got['server']}\n{got['output']['server']}"
        return (got["client"], got["server"]) == (0, 0) and bool(re.search(sane, got["output"]["client"])), said

    def good(self, result):
        ok, said = result
        self.assertTrue(ok, said + "".join(f"\n-- {host}\n{self.on.told(host)}\n{self.on.agent_log(host)[-1000:]}" for host in self.on.pids))


class Roce(Worlds):
    def test_healthy_host(self):
        """All ports are up: everything that ibv_devinfo shows is the same."""
        for device in ("mlx5_0", "mlx5_1"):
            for host in "ab":
                self.assertEqual(len({self.devinfo(world, device, host) for world in self.worlds.values()}), 1, device)

    def test_what_a_program_sees(self):
        info = {}
        for name, world in self.worlds.items():
            with self.down(world, "a.0"):
                info[name] = self.devinfo(world)
                healthy = self.devinfo(world, "mlx5_1")
        self.assertEqual(info["bare"], info["off"])
        self.assertRegex(info["bare"], r"state:\s+PORT_DOWN")
        lines = [said.splitlines() for said in (info["bare"], info["on"])]
        self.assertEqual(*([line for line in said if not OTHERS_SAY.search(line)] for said in lines))
        self.assertEqual(*([line for line in said if OTHERS_SAY.search(line)] for said in (lines[1], healthy.splitlines())))
        self.assertRegex(self.on.log("a"), "mlx5_0 port 1 is down and is shown as active: mlx5_1 port 1 serves it, for example to host b")

    def test_perftest(self):
        for program in some(["ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_lat", "ib_atomic_bw"]):
            for server, client in some([("a", "b"), ("b", "a")]):
                for name, world in self.worlds.items():
                    with self.subTest(program=program, server=server, world=name), self.down(world, "a.0"):
                        if name == "on":
                            self.good(self.perftest(world, server, client, program, ("mlx5_0", "mlx5_0")))
                            continue
                        ok, said = self.perftest(world, server, client, program, ("mlx5_0", "mlx5_0"))
                        self.assertFalse(ok, said)
                        self.assertIn("state is Down", said)

    def test_pingpong(self):
        with self.down(self.on, "a.0"):
            for server, client in some([("a", "b"), ("b", "a")]):
                for options in (("-g", "3"), ("-g", "3", "-e"), ("-g", "1")):
                    with self.subTest(server=server, options=options):
                        self.good(self.pingpong(self.on, server, client, ("mlx5_0", "mlx5_0"), *options))

    def test_hosts_that_no_cable_joins(self):
        """a has lost NIC 0, and b NIC 1: the ports that are left reach nobody, which shows once the agents have not heard each other for a while."""
        with self.down(self.on, "a.0", "b.1"):
            for host, device in (("a", "mlx5_0"), ("b", "mlx5_1")):
                self.assertTrue(until(lambda host=host, device=device: "PORT_DOWN" in self.devinfo(self.on, device, host)))

    def test_nothing_serves(self):
        """No other port, no agent, a NIC that may not be opened, one that mesh.conf excludes: as bare, byte by byte."""
        with self.down(self.bare, "a.0", "a.1"), self.down(self.on, "a.0", "a.1"):
            self.assertEqual(self.devinfo(self.bare), self.devinfo(self.on))
        with self.down(self.bare, "a.0"), self.down(self.on, "a.0"):
            bare = self.devinfo(self.bare)
            self.assertNotEqual(bare, self.devinfo(self.on))
            for exclude in ("mlx5_0", "mlx5_1"):
                self.on.write("a", "/run/meshverbs-test.conf", CONF.format("on", f"exclude = {exclude}\n"))
                self.assertEqual(bare, self.devinfo(self.on, env=["MESHVERBS_CONF=/run/meshverbs-test.conf"]), exclude)
            self.on.write("a", "/run/meshverbs-test.conf", CONF.format("on", "moves = off\n"))
            self.assertEqual(bare, self.devinfo(self.on, env=["MESHVERBS_CONF=/run/meshverbs-test.conf"]))
            self.on.run("a", "mv", "/dev/infiniband/uverbs1", "/dev/infiniband/away")
            try:
                self.assertEqual(bare, self.devinfo(self.on))
            finally:
                self.on.run("a", "mv", "/dev/infiniband/away", "/dev/infiniband/uverbs1")
            self.assertNotEqual(bare, self.devinfo(self.on))
            agents.stop(self.on.sim, ["a"])
            try:
                self.assertTrue(until(lambda: self.devinfo(self.on) == bare, 20), self.devinfo(self.on))
            finally:
                agents.start(self.on.sim, ["a"])
                agents.wait(self.on.sim, self.on.topo)

    def test_new_connections_use_a_port_that_is_up_again(self):
        with self.down(self.on, "a.0"):
            self.assertRegex(self.devinfo(self.on), "PORT_ACTIVE")
        self.assertEqual(self.devinfo(self.on), self.devinfo(self.bare))
        before = self.on.bytes_of("a")
        self.good(self.perftest(self.on, "a", "b", "ib_write_bw", ("mlx5_0", "mlx5_0")))
        after = self.on.bytes_of("a")
        self.assertGreater(after[0] - before[0], 20 * (after[1] - before[1]))

    def test_connections_return(self):
        world = self.on
        port = str(world.fresh_port())
        command = ["ib_write_bw", "-F", "-D", str(4 * SECONDS), "-s", "4096", "-p", port, "-d", "mlx5_0"]
        self.carrier(world, "a.0", "off")
        serving = world.start("a", *command)
        client = None
        try:
            self.assertTrue(world.wait_listening(serving, "a", int(port)), serving.said())
            client = world.start("b", *command, "a")
            begun = world.bytes_of("a")[1]
            self.assertTrue(until(lambda: world.bytes_of("a")[1] > begun + 10_000_000), client.said())
            self.carrier(world, "a.0", "on")
            begun = world.bytes_of("a")[0]
            self.assertTrue(until(lambda: world.bytes_of("a")[0] > begun + 10_000_000), world.told("a") + world.told("b"))
            # Both ends are at work yet: ib_write_bw ends at the first completion in error.
            self.assertEqual((client.poll(), serving.poll()), (None, None), client.said() + serving.said())
        finally:
            serving.kill()
            if client:
                client.kill()
            self.carrier(world, "a.0", "on")

    def test_nccl(self):
        """An unmodified NCCL's NET/IB: ranks have as many devices as each other only where a port stands in."""
        if not ranks.library("NCCL_LIBRARY", "libnccl.so.2"):
            self.skipTest("no libnccl.so.2; NCCL_LIBRARY says where it is")
        program = ranks.Ranks.find(BUILD, False, 50, 1 << 20)
        for settings in some([{"NCCL_IB_HCA": "mlx5_0"}, {}, paths.SPLIT]):
            for name, world in self.worlds.items():
                with self.subTest(settings=settings, world=name), self.down(world, "a.0"):
                    ends, said = paths.run(world, program, paths.Path("", self.topology, "ab", settings))
                    if "skipped: " in said:
                        self.skipTest(said)
                    self.assertEqual(ends == [0, 0] and bool(ranks.results(said, 2, program.rounds)[0]), name == "on", said)

    def ucx(self, world):
        """UCX chooses at a, and has b's NIC 1; it wires up by datagrams."""
        port = world.fresh_port()
        command = ["env", "UCX_TLS=rc_verbs,ud_verbs,self", *UCX_PERFTEST.split(), "-p", str(port)]
        server = [command[0], "UCX_NET_DEVICES=mlx5_1:1", *command[1:]]
        return self.talked(drive.talk(world, "b", "a", server, [*command, "b", "-t", "tag_bw", "-n", "500", "-s", "4096"], port, SECONDS),
                           r"Final: +500 ")

    def test_why_it_is_off_by_default(self):
        """A program that chooses leaves out a port that is down, and works; shown it as active, it fails where datagrams are to use it."""
        for name, world in self.worlds.items():
            with self.subTest(world=name), self.down(world, "a.0"):
                ok, said = self.ucx(world)
                self.assertEqual(ok, name != "on", said)
                if name == "on":
                    self.assertRegex(said, "ibv_create_ah.* on mlx5_0 failed: Connection timed out")

    def events(self, world, ports):
        """What ibv_asyncwatch says while a port's carrier goes through these states: something of each."""
        watch = world.start("a", "stdbuf", "-oL", "ibv_asyncwatch", "-d", "mlx5_0")
        said = lambda: [int(number) for number in re.findall(r"event_type [^(]*\((\d+)\)", watch.said())]  # noqa: E731
        try:
            self.assertTrue(until(lambda: "mlx5_0" in watch.said()), watch.said())
            for state in ports:
                before = len(said())
                self.carrier(world, "a.0", state)
                self.assertTrue(until(lambda before=before: len(said()) > before), watch.said())
                time.sleep(0.2)  # for more than that
            return said()
        finally:
            watch.kill()

    def test_events(self):
        """PORT_ERR (10) and PORT_ACTIVE (9) of a port for which another one stands in are GID_CHANGE (18)."""
        for name, expected in (("bare", {9, 10}), ("off", {9, 10}), ("on", {18})):
            with self.subTest(world=name):
                got = self.events(self.worlds[name], ["off", "on"])
                self.assertEqual(set(got) & {9, 10, 18}, expected, got)


class Infiniband(Worlds):
    """One card of two is cabled, and not the same one everywhere; programs connect by LIDs."""
    topology = "ibcards"

    def test_every_choice(self):
        for program in some(["ib_write_bw", "ib_send_bw"]):
            for devices in (("mlx5_0", "mlx5_0"), ("mlx5_1", "mlx5_1"), ("mlx5_1", "mlx5_0"), ("mlx5_0", "mlx5_1")):
                with self.subTest(program=program, devices=devices):
                    self.good(self.perftest(self.on, "a", "b", program, devices))
                    if devices != ("mlx5_0", "mlx5_1"):
                        ok, said = self.perftest(self.bare, "a", "b", program, devices)
                        self.assertFalse(ok, said)
                        self.assertIn("state is Down", said)

    def test_what_a_program_sees(self):
        bare, off, shown = (self.devinfo(world, "mlx5_1") for world in self.worlds.values())
        self.assertEqual(bare, off)
        self.assertRegex(bare, "PORT_DOWN")
        self.assertRegex(shown, "PORT_ACTIVE")
        self.assertEqual(*([line for line in said.splitlines() if not OTHERS_SAY.search(line)] for said in (bare, shown)))


if __name__ == "__main__":
    need("ib_write_bw", "ibv_rc_pingpong", "ibv_devinfo", "ibv_asyncwatch", "stdbuf", "ucx_perftest")
    del Worlds  # its tests are those of its subclasses
    unittest.main()
