#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs as installed (plugin, driver file, front) over the distribution's libmlx5 on the simulated HCA.

The plugin's own report says what it did in each program; programs still do what they did.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from test_hosts import WithHosts, act, enter, prepare, until
from test_verbs import HOLD_QP

REPO = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("SIM_BUILD", REPO / "build/release"))
STACKED = [str(REPO / "bench/stacked"), str(BUILD), "--"]
OPEN_IN_PYTHON = "import pyverbs.device as d; print(d.Context(name='mlx5_0').query_device().phys_port_cnt)"


class Stacked(WithHosts):
    def setUp(self):
        self.report = tempfile.NamedTemporaryFile(suffix=".report")  # the plugin writes only to what is there
        self.addCleanup(self.report.close)

    def argv(self, host, stacked, *command):
        where = ["env", f"MESHVERBS_REPORT={self.report.name}", *STACKED] if stacked else []
        return enter(self.name, host, *where, "timeout", "30", *command)

    def stages(self):
        """{stage: state} of what the plugin reported."""
        lines = pathlib.Path(self.report.name).read_text().splitlines()
        return {line.split()[1]: line.split()[2] for line in lines}

    def assert_overlaid(self):
        self.assertEqual(self.stages().get("context:mlx5_0"), "ok", pathlib.Path(self.report.name).read_text())

    def between(self, port, stacked, *command):
        """The client's output, both ends stacked or both bare."""
        with subprocess.Popen(self.argv("b", stacked, *command), stdout=subprocess.DEVNULL) as server:
            self.assertIsNotNone(self.listening("b", port), "no server")
            done = subprocess.run(self.argv("a", stacked, *command, "b"), text=True, capture_output=True, check=False)
            self.assertEqual((done.returncode, server.wait(60)), (0, 0), done.stdout + done.stderr)
        return done.stdout

    def test_only_libibverbs(self):
        for stacked in (False, True):
            self.assertIn("300 iters", self.between(18515, stacked, "ibv_rc_pingpong", "-d", "mlx5_0", "-g", "3", "-n", "300"))
            self.assertEqual("context:mlx5_0" in self.stages(), stacked)
        self.assert_overlaid()

    def test_linked_with_libmlx5(self):
        for extra in ([], ["--use_old_post_send"], ["-q", "4"]):
            out = self.between(18515, True, "ib_write_bw", "-d", "mlx5_0", "-x", "3", "-n", "100", "-F", *extra)
            self.assertIn(" 65536 ", out)
            self.assert_overlaid()

    def test_opened_first(self):
        done = subprocess.run(self.argv("a", True, str(BUILD / "providers/front/front_dlopen_first")), text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stdout, "devices 2 supported 2\n")
        self.assertEqual(self.stages().get("base:mlx5"), "ok")

    def test_python(self):
        done = subprocess.run(self.argv("a", True, "/usr/bin/python3", "-c", OPEN_IN_PYTHON), text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stdout, "1\n")
        self.assert_overlaid()

    def test_devinfo_says_the_same(self):
        bare, stacked = (subprocess.run(self.argv("a", s, "ibv_devinfo", "-v"), text=True, capture_output=True, check=True)
                         for s in (False, True))
        self.assertEqual((stacked.stdout, stacked.stderr), (bare.stdout, bare.stderr))
        self.assert_overlaid()

    def flapped_server(self, stacked):
        """The client's output and both ends' exit status, when the server's address moved to another index
        after the server had read its GID table and before the client came."""
        program = ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "3", "-n", "200"]
        # A queue pair that holds entry 3 while the address goes and comes back: else it gets its old index again.
        with subprocess.Popen(self.argv("b", False, "/usr/bin/python3", "-c", HOLD_QP, "3"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as holder:
            self.assertTrue(holder.stdout.readline().strip().isdigit(), "no QP")
            with subprocess.Popen(self.argv("b", stacked, *program), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) as server:
                self.assertIsNotNone(self.listening("b", 18515), "no server")
                act("addr", "-n", self.name, "del", "b.0", "10.1.0.2/24")
                self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") is None))
                act("addr", "-n", self.name, "add", "b.0", "10.1.0.2/24")
                self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") is not None))
                self.assertNotEqual(self.index_of("b", "mlx5_0", "0a01:0002"), 3)
                client = subprocess.run(self.argv("a", stacked, *program, "b"), text=True, capture_output=True, check=False)
                said, _ = server.communicate(timeout=60)
            holder.stdin.write("\n")
            holder.stdin.close()
            holder.wait(60)
        act("addr", "-n", self.name, "del", "b.0", "10.1.0.2/24")  # back to index 3
        act("addr", "-n", self.name, "add", "b.0", "10.1.0.2/24")
        self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") == 3))
        return client.stdout + client.stderr, said, client.returncode, server.returncode

    def test_a_moved_index_fails_bare(self):
        _, said, client, server = self.flapped_server(False)
        self.assertNotEqual((client, server), (0, 0), said)
        self.assertIn("Failed to modify QP to RTR", said)

    def test_a_moved_index_is_repaired(self):
        out, said, client, server = self.flapped_server(True)
        self.assertEqual((client, server), (0, 0), out + said)
        self.assertIn("200 iters", out)

    def test_srqs_of_many_threads(self):
        """libmlx5 alone breaks down on this, in one to three of ten runs, so only the other half can be asserted."""
        for _ in range(15):
            done = subprocess.run(self.argv("a", True, str(BUILD / "tests/sim/verbs/sim_srqthreads")), text=True, capture_output=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_overlaid()

    def test_switched_off(self):
        with_off = self.argv("a", True, "env", "MESHVERBS=off", "ibv_devinfo")
        bare = self.argv("a", False, "ibv_devinfo")
        self.assertEqual(subprocess.run(with_off, text=True, capture_output=True, check=True).stdout,
                         subprocess.run(bare, text=True, capture_output=True, check=True).stdout)
        self.assertNotIn("context:mlx5_0", self.stages())

    def test_the_machine_is_as_it_was(self):
        before = sorted(os.listdir("/etc/ld.so.conf.d") + os.listdir("/etc/libibverbs.d"))
        self.run_in("a", *STACKED, "ibv_devices")
        self.assertEqual(sorted(os.listdir("/etc/ld.so.conf.d") + os.listdir("/etc/libibverbs.d")), before)
        self.assertNotIn("/mnt/front", subprocess.run(["/sbin/ldconfig", "-p"], text=True, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    prepare()
    missing = [p for p in ("providers/mesh/meshverbs-provider.so", "providers/front/meshverbs-front",
                           "sim/libsimhca.so") if not (BUILD / p).exists()]
    if missing:
        sys.exit(f"not built: {' '.join(missing)}")
    del WithHosts  # its tests are those of its subclasses
    unittest.main()
