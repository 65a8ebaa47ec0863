#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What docs/containers.md says, with namespaces as a container runtime makes them: the plugin alone in an image repairs
GIDs, without the agent's directory, its command or a mesh.conf; and with the host's /run/meshverbs mounted read-only,
connections move.

    SIM_BUILD=BUILD test_container.py [TEST...]
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[2]
sys.path[:0] = [str(HERE.parent / place) for place in ("hosts", "accept", "rightnic")] + [str(REPO / "tests/lab")]
import test_gid  # noqa: E402
from test_hosts import PREFIX, prepare, until  # noqa: E402
from nicmatrix import cases as plans, drive  # noqa: E402
from nicmatrix.world import World  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release"))
LIMIT_S = test_gid.SECONDS = 120  # for programs that hang
LOG = "/var/log/pod.log"
UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--ipc", "sh", "-c")
# A /run of its own, in which the host's agent is not, or is, read-only. The simulated NIC keeps its state there, too.
OWN_RUN = "mount --bind /run/meshsim /srv && mount -t tmpfs none /run && mkdir /run/meshsim && mount --bind /srv /run/meshsim && "
ALONE = OWN_RUN + 'exec "$@"'
MOUNTED = "mount --bind /run/meshverbs /media && " + OWN_RUN + (
    'mkdir /run/meshverbs && mount --bind /media /run/meshverbs && mount -o remount,bind,ro /run/meshverbs && exec "$@"')


def image(stage):
    """Of an installed meshverbs, what meshverbs-provider puts into an image; the command goes when the front is made."""
    subprocess.run([REPO / "scripts/stage", BUILD, stage], check=True)
    for name in ("usr/bin/meshverbs", "usr/sbin/meshverbsd", "usr/libexec/meshverbs", "etc/libibverbs.d/mesh"):
        path = pathlib.Path(stage, name)
        shutil.rmtree(path) if path.is_dir() else path.unlink()


class Pods(test_gid.Pair):
    """The hosts' containers: programs run in them."""

    def __init__(self, place, start, env=()):
        super().__init__(place)
        self.start_script, self.env = start, env

    def argv(self, host, *command):
        return self.place.argv(host, "timeout", str(test_gid.SECONDS), *UNSHARE, self.start_script, "sh", "env",
                               f"MESHVERBS_LOG={LOG}", *self.env, *command)

    def log(self, host):
        return self.run(host, "sh", "-c", f"cat {LOG} 2>/dev/null").stdout


class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tmp = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, tmp)
        image(tmp)
        up = contextlib.ExitStack()
        cls.addClassCleanup(up.close)
        cls.switched = up.enter_context(World.up(str(HERE.parent / "accept/gid.topo"), BUILD, tmp, f"pods-{PREFIX}"))
        cls.ring = up.enter_context(World.up("triangle", BUILD, tmp, f"rings-{PREFIX}"))

    def flapped(self, pods):
        """A server whose index moves while it waits: exit status of its client, and what both said."""
        do = test_gid.Cases()

        def flap():  # the address moves, and nobody has the old index
            do.move(pods, "b", 2)
            pods.addr("del", "b.0", "fd66::2/64")
            self.assertIsNotNone(until(lambda: 3 not in pods.table("b")))
        try:
            rcs, said = do.pingpong(pods, 3, flap)
        finally:
            do.move_back(pods, "b", 2)
        return rcs[0], said

    def test_plugin_alone_repairs_gids(self):
        pods = Pods(self.switched.place, ALONE)
        self.assertNotEqual(self.switched.file("b", "/run/meshverbs/directory"), "", "the host has an agent")
        self.assertNotIn("meshverbs", pods.run("b", "ls", "/run").stdout)
        for name in ("/usr/bin/meshverbs", "/usr/sbin/meshverbsd", "/etc/libibverbs.d/mesh"):
            self.assertNotEqual(pods.run("b", "ls", name).returncode, 0, name)
        status, said = self.flapped(Pods(self.switched.place, ALONE, ["MESHVERBS=off"]))
        self.assertNotEqual(status, 0, said)
        status, said = self.flapped(pods)
        self.assertEqual(status, 0, said + pods.log("b")[-1500:])
        self.assertRegex(pods.log("b"), r"index 3 is empty, using \d+ \(10\.1\.0\.2\)")

    def wrong_nic(self, start):
        """A client and a server on NICs that do not reach each other, each in a container."""
        case = plans.Case("ibv_rc_pingpong", "a", "b", 1, 1, ((0, 0),))
        world, argv = self.ring, self.ring.argv
        world.argv = Pods(world.place, start).argv
        try:
            return drive.run(world, case, LIMIT_S)
        finally:
            world.argv = argv

    def test_agent_mounted_read_only_moves(self):
        without = self.wrong_nic(ALONE)
        self.assertEqual((without["ok"], without["reached"]), (False, True), without["output"])
        result = self.wrong_nic(MOUNTED)
        self.assertTrue(result["ok"], result["output"])
        self.assertRegex(Pods(self.ring.place, ALONE).log("a"), "goes from mlx5_0 .* instead")


if __name__ == "__main__":
    prepare()
    unittest.main()
