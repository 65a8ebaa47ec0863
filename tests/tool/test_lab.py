# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The installed command on a host with a real kernel, Soft-RoCE, and the plugin as a package would leave it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
SOURCE = pathlib.Path(__file__).resolve().parents[2]
LAB = str(SOURCE / "tests/lab/lab")
NAME = f"tool-{os.getpid()}"


class LabTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="meshverbs-tool.")
        cls.addClassCleanup(shutil.rmtree, cls.root)
        os.chmod(cls.root, 0o755)
        subprocess.run(["cmake", "--install", os.environ["MESHVERBS_BUILD"]], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DESTDIR": cls.root})
        conf = pathlib.Path(cls.root, "etc/libibverbs.d/mesh/mesh.conf")
        conf.parent.mkdir(exist_ok=True)
        conf.write_text("[meshverbs]\nbase = mlx5 rxe\n")
        cls.addClassCleanup(subprocess.run, [LAB, "down", "-n", NAME], check=True)
        subprocess.run([LAB, "up", "pair", "--name", NAME, "--only", "a", "--overlay", cls.root], check=True)

    def on_host(self, command, status=0):
        done = subprocess.run([LAB, "run", "-n", NAME, "--timeout", "60", "a", command], text=True, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def json(self, command, status=0):
        return json.loads(self.on_host(command, status))

    def test_active(self):
        got = self.json("meshverbs -j status")
        self.assertEqual((got["active"], got["attention"]), (True, []))
        self.assertEqual([(d["device"], d["provider"], d["active"]) for d in got["devices"]],
                         [("rxe0", "rxe", True), ("rxe1", "rxe", True)])
        way = got["ways"]["libibverbs"]
        self.assertEqual([device["error"] for device in way["devices"]], [None, None])
        self.assertEqual({stage["state"] for stage in way["stages"]}, {"ok"})

    def test_off(self):
        got = self.json("MESHVERBS=off meshverbs -j status", status=1)
        self.assertEqual(got["attention"], ["MESHVERBS=off is in the environment, so the plugin does nothing"])
        self.assertIs(got["active"], False)

    def test_excluded(self):
        got = self.json("printf '[meshverbs]\\nbase = rxe\\nexclude = rxe1\\n' >/tmp/mesh.conf; "
                        "MESHVERBS_CONF=/tmp/mesh.conf meshverbs -j status")
        self.assertEqual([device["active"] for device in got["devices"]], [True, False])

    def test_not_installed(self):
        """In a mount namespace without the file that names the plugin."""
        got = self.json("unshare -m sh -c 'mount -t tmpfs none /etc/libibverbs.d; echo driver rxe "
                        ">/etc/libibverbs.d/rxe.driver; meshverbs -j status'", status=1)
        self.assertIs(got["ways"]["libibverbs"]["loaded"], False)
        self.assertIn("/etc/libibverbs.d/mesh.driver: missing", "".join(got["attention"]))

    def test_container(self):
        """The devices of the host, the network namespace of a container, and a netdev of the same name there."""
        got = self.json("unshare -n sh -c 'ip link add eth0 type dummy; ip link set eth0 up; meshverbs -j gids'")
        self.assertEqual({row["verdict"] for row in got["gids"]}, {"no-netdev"})
        self.assertEqual({row["verdict"] for row in self.json("meshverbs -j gids -d rxe0")["gids"]},
                         {"usable", "link-local"})

    def test_moved_and_vlan(self):
        """Addresses come back at another index, as after a flap."""
        self.on_host("ip addr del 10.1.0.1/24 dev eth0; ip addr add 10.8.0.1/24 dev eth0; "
                     "ip addr add 10.1.0.1/24 dev eth0; sleep 1; ip addr del 10.8.0.1/24 dev eth0; sleep 1")
        got = self.json("meshverbs -j explain --from rxe0 --to 10.1.0.2 --index 1 --seen 10.1.0.1")
        self.assertEqual((got["result"]["action"], got["result"]["index"]), ("repair", 2))
        self.on_host("ip link add link eth0 name eth0.5 type vlan id 5; ip addr add 10.5.0.1/24 dev eth0.5; "
                     "ip link set eth0.5 up; sleep 1")
        got = self.json("meshverbs -j explain --from rxe0 --to 10.5.0.2")
        best = [row for row in got["candidates"] if row["index"] == got["result"]["index"]]
        self.assertEqual([(row["ipv4"], row["netdev"], row["vlan"]) for row in best], [("10.5.0.1", "eth0.5", 5)])


if __name__ == "__main__":
    if os.geteuid():
        print("skipped: the lab needs root")
        sys.exit(SKIPPED)
    unittest.main()
