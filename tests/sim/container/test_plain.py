#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A peer without the plugin, on a host with an agent: in a container, a static program. Nobody answers for it. A receiver that
connects while the peer's port is down gets its message all the same when that is back, with meshverbs as bare; one whose peer is in another
subnet of its link, to which there is no route, does as well; and so do datagrams.

    SIM_BUILD=BUILD test_plain.py
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / place) for place in ("hosts", "rightnic")] + [str(REPO / "tests/lab")]
from test_hosts import PREFIX, act, prepare, until  # noqa: E402
from nicmatrix.world import World, staged  # noqa: E402
from launcher import directory  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release"))
PLAIN = ["/usr/bin/python3", str(HERE / "plain.py")]
INDEX = 3  # of the IPv4 address, RoCE v2: on an Ethernet port it comes behind the default GIDs and its own v1
SECONDS = 60.0
HELD = "left as the program asked: that may work"
CROSSED = f"different subnets of one link, without a route; {HELD}"


@contextlib.contextmanager
def stage_with(setting):
    with staged(BUILD) as stage:
        conf = pathlib.Path(stage, "etc/libibverbs.d/mesh/mesh.conf")
        conf.write_text(conf.read_text().replace("[meshverbs]\n", f"[meshverbs]\n{setting}\n"))
        yield stage


class End:
    """A program; its plugin, if it has one, does as @env says."""

    def __init__(self, world, host, *arguments, env=()):
        self.process = subprocess.Popen(world.argv(host, "timeout", str(2 * SECONDS), "env", *env, *PLAIN, *arguments), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.qpn = self.hear("end").split()[-1]

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, word):
        line = self.process.stdout.readline()
        if not line.startswith(word):
            raise AssertionError(line + self.process.communicate()[0])
        return line.strip()


class Plain(unittest.TestCase):
    def is_up(self, world, host, device):
        """As host a has it."""
        image = pathlib.Path(f"/proc/{world.pids['a']}/root/run/meshverbs/directory").read_bytes()
        return any((rail.host, rail.device, rail.up) == (host, device, True) for rail in directory.parse(image).rails)

    def message(self, world, env, agent=True):
        """A receiver on a is connected while b.0 is down, a sender on b when that is back. @agent: a's own is still there then."""
        world.run("a", "bash", "-c", "echo >/dev/tcp/10.1.0.2/9")  # is refused, but the neighbour is known
        act("link", "-n", world.place.name, "b.0", "off")
        if world.stacked:
            self.assertIsNotNone(until(lambda: not self.is_up(world, "b", "mlx5_0")))
        receiver = End(world, "a", "receive", "mlx5_0", str(INDEX), str(SECONDS), env=env)
        sender = End(world, "b", "send", "mlx5_0", str(INDEX), env=["MESHVERBS=off"])
        receiver.tell(f"::ffff:10.1.0.2 {sender.qpn}")
        receiver.hear("connected")
        if not agent:
            act("agents", "-n", world.place.name, "kill", "a")
        act("link", "-n", world.place.name, "b.0", "on")
        # The kernel notices a carrier up to a second later, and RTR waits no longer than that for the neighbour.
        self.assertIsNotNone(until(lambda: "refused" in world.run("b", "bash", "-c", "echo >/dev/tcp/10.1.0.1/9")[1], SECONDS))
        sender.tell(f"::ffff:10.1.0.1 {receiver.qpn}")
        sender.hear("connected")
        if world.stacked:
            self.assertIsNotNone(until(lambda: HELD in world.log("a"), SECONDS / 2), world.told("a"))
        sender.tell("go")
        self.assertEqual(sender.hear(""), "sent")
        self.assertEqual(receiver.hear(""), "got a message")

    def across(self, world, env, peer_env=("MESHVERBS=off",), receives_from=()):
        """A receiver on a.0 and a sender on b.1, which a switch connects."""
        receiver = End(world, "a", "receive", "mlx5_0", str(INDEX), str(SECONDS), *receives_from, env=env)
        sender = End(world, "b", "send", "mlx5_1", str(INDEX), env=peer_env)
        receiver.tell(f"::ffff:10.2.0.2 {sender.qpn}")
        receiver.hear("connected")
        sender.tell(f"::ffff:10.1.0.1 {receiver.qpn}")
        sender.hear("connected")
        sender.tell("go")
        self.assertEqual(sender.hear(""), "sent", world.stacked and world.told("a"))
        self.assertEqual(receiver.hear(""), "got a message")

    def datagrams(self, world, env):
        pingpong = ["ibv_ud_pingpong", "-g", str(INDEX), "-n", "20", "-p", str(world.fresh_port()), "-d"]
        server = world.start("a", "timeout", "20", "env", *env, *pingpong, "mlx5_0")
        self.assertTrue(world.wait_listening(server.process, "a", int(pingpong[6])))
        status, said = world.run("b", "timeout", "20", "env", "MESHVERBS=off", *pingpong, "mlx5_1", "a")
        self.assertEqual((status, server.wait(SECONDS)), (0, 0), f"{said}{server.said()}{world.stacked and world.told('a')}")

    def test_other_subnet(self):
        with World.up(HERE / "crossed.topo", BUILD, None, f"plain-{PREFIX}") as world:
            self.across(world, ["MESHVERBS=off"])
            self.datagrams(world, ["MESHVERBS=off"])
        # It has worked all the time, so nothing waits for that.
        with stage_with("hold_down_ms = 60000") as stage, World.up(HERE / "crossed.topo", BUILD, stage, f"plain-{PREFIX}") as world:
            for receives_from in ((), ("srq",)):
                length = len(world.log("a"))
                self.across(world, ["MESHVERBS=on"], receives_from=receives_from)
                self.assertIn(CROSSED, world.log("a")[length:])
            self.datagrams(world, ["MESHVERBS=on"])
            self.assertNotIn("are lost", world.log("a"))
            # With a plugin at both ends, by the NICs that are in one subnet.
            length = len(world.log("a"))
            self.across(world, ["MESHVERBS=on"], ["MESHVERBS=on"])
            self.assertNotIn(CROSSED, world.log("a")[length:])
            self.assertRegex(world.log("a")[length:], r"of different subnets of one link.*; goes from mlx5_")

    def test_receiver(self):
        with World.up("pair", BUILD, None, f"plain-{PREFIX}") as world:
            self.message(world, ["MESHVERBS=off"])
        with stage_with("hold_down_ms = 500") as stage:
            for agent in (True, False):
                with World.up("pair", BUILD, stage, f"plain-{PREFIX}") as world:
                    self.message(world, ["MESHVERBS=on"], agent)


if __name__ == "__main__":
    prepare()
    unittest.main()
