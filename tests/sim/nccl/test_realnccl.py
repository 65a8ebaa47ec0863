#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is thought of ranks; on made-up output."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from realnccl import cli, paths, pulls, ranks, register, storm  # noqa: E402  (the path comes first)
from pulled import judge  # noqa: E402
from pulled.play import Outcome  # noqa: E402

LINE = ("nccl: rank {} of 2: {} all_reduces of 1048576 bytes, every number right, results {}; median 2.96 ms, longest 6.88 ms{}\n")
NET = ", longest pause {} ms; NET/IB of NCCL 2.28.9, 4 channels"
BOTH = LINE.format(0, 20, "0d366dc4", NET.format("3.14")) + "noise\n" + LINE.format(1, 20, "0d366dc4", NET.format("2.11"))
PROGRAM = ranks.Ranks("/b/sim_nccl_net", {"NCCL_LIBRARY": "/l", "NCCL_IB_TIMEOUT": "14"}, 20, 1 << 20)
BUILD = pathlib.Path(os.environ.get("SIM_BUILD", pathlib.Path(__file__).resolve().parents[3] / "build/release")) / "tests/sim/nccl"
BROKEN = paths.Path("p", "pair", "ab", gids=(3, 2))


class Results(unittest.TestCase):
    def test_results(self):
        self.assertEqual(ranks.results(BOTH, 2, 20), ("0d366dc4", ""))
        for said, words in ((BOTH.replace("rank 1", "rank 0"), "of 2 ranks"), (LINE.format(0, 20, "0d366dc4", ""), "1 of 2"),
                            (BOTH.replace("20 all", "19 all"), "not all rounds"), (BOTH.replace("results 0d", "results 1d", 1), "different")):
            self.assertIn(words, ranks.results(said, 2, 20)[1])

    def test_longest(self):
        self.assertEqual(ranks.longest(BOTH), 3.14)
        self.assertEqual(ranks.longest(LINE.format(0, 20, "0d366dc4", "; NCCL 2.28.9 on a GPU")), 6.88)
        self.assertEqual(ranks.longest("nccl: too late"), 0.0)


class Settings(unittest.TestCase):
    def test_argv(self):
        words = PROGRAM.argv(1, 2, "a", 18, 60, {"NCCL_IB_TIMEOUT": None, "FLUSH": "1"})
        self.assertEqual(words, ["env", "NCCL_LIBRARY=/l", "FLUSH=1", "/b/sim_nccl_net", "1", "2", "a", "18", "-n", "20", "-s", "1048576", "-t", "60"])

    def test_command_of_a_cable_case(self):
        """The port is filled in at its place, and nowhere else: the failover's name has PORT in it."""
        words = pulls.command(PROGRAM, 1, {ranks.FAILOVER: "1"}).format(port=18).split()
        self.assertEqual(words, PROGRAM.argv(1, 2, "a", 18, pulls.LIMIT_S, {ranks.FAILOVER: "1"})[1:])


class Library(unittest.TestCase):
    """Which libnccl is driven, and what is said of others."""

    def test_unknown_interface(self):
        newer = BUILD / "sim_nccl_newer.so"
        done = subprocess.run([BUILD / "sim_nccl_net", "0", "2", "localhost", "1"], env=dict(os.environ, NCCL_LIBRARY=newer),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertEqual(done.stdout, "skipped: NCCL 29901 has version 99 of the network plugin interface; versions 11 to 12 are known here\n")

    def test_no_library(self):
        done = subprocess.run([BUILD / "sim_nccl_net", "0", "2", "localhost", "1"], env=dict(os.environ, NCCL_LIBRARY="/nosuch"),
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 77, done.stderr)
        self.assertIn("skipped: no NCCL: /nosuch", done.stdout)

    def test_failover_of_its_own(self):
        self.assertEqual(ranks.knows(BUILD / "sim_nccl_newer.so", ranks.FAILOVER, ranks.RECOVERY), ())
        for known, n_more in (((ranks.FAILOVER,), 0), ((ranks.FAILOVER, ranks.RECOVERY), 1)):
            names = [case.name for case in pulls.cases(PROGRAM, known)]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(len(names), 2 * len(pulls.cases(PROGRAM)) + n_more)

    def test_storm(self):
        self.assertEqual(len(storm.cases()), 4)
        self.assertEqual(storm.cases((ranks.FAILOVER, ranks.RECOVERY))["NICs merged, failover, recovery"],
                         {"MERGE": "1", ranks.FAILOVER: "1", ranks.RECOVERY: "1", **ranks.BY_ID})

    def test_knows(self):
        """By the whole name: a longer setting begins with it."""
        with tempfile.NamedTemporaryFile() as library:
            library.write(b"\0NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS\0NCCL_IB_RESILIENCY_PORT_RECOVERY\0")
            library.flush()
            self.assertEqual(ranks.knows(library.name, ranks.FAILOVER, ranks.RECOVERY), (ranks.RECOVERY,))


class Gpu(unittest.TestCase):
    """What is read of sim_gpu_register's output, and when no case begins any more."""

    LINE = "gpu: rank {} of 2: {} rounds of 262144 bytes in each of 4 regions, every byte right\n"

    def test_answers(self):
        said = ("gpu: rank 0 uses NVIDIA H200\ngpu: rank 0: dma-buf of device memory: ibv_reg_dmabuf_mr: EOPNOTSUPP\n" + self.LINE.format(0, 5)
                + "gpu: rank 1: device memory: cuMemAlloc: ok\n")
        self.assertEqual(register.ANSWER.findall(said), ["rank 0: dma-buf of device memory: ibv_reg_dmabuf_mr: EOPNOTSUPP",
                                                         "rank 1: device memory: cuMemAlloc: ok"])

    def test_sane(self):
        one = register.case(pathlib.Path("/b"), register.WAYS[1])
        self.assertEqual(one.name, "registrations, refused")
        server, client = (self.LINE.format(rank, register.N_ROUNDS) for rank in (0, 1))
        self.assertEqual(judge.results(one, Outcome(said={"server": server, "client": client})), "")
        for changed in (server, self.LINE.format(1, 3), client + "nccl: wrong: rank 1, round 3", ""):
            self.assertNotEqual(judge.results(one, Outcome(said={"server": server, "client": changed})), "")

    def test_clock(self):
        clock = cli.Clock(0)
        self.assertEqual(list(clock.begin(paths.PATHS[:2])), [])
        self.assertEqual(clock.left, [path.name for path in paths.PATHS[:2]])
        clock = cli.Clock(1e9)
        self.assertEqual(list(clock.begin(paths.PATHS)), list(paths.PATHS))
        self.assertEqual(clock.left, [])


class Connections(unittest.TestCase):
    def verdict(self, stacked, ends, said, path=BROKEN):
        return paths.judge(path, stacked, ends, said, 20)[0]

    def test_bare(self):
        self.assertEqual(self.verdict(False, [1, 1], "WARN Call to ibv_modify_qp failed with 110 Connection timed out"), "fails")
        self.assertEqual(self.verdict(False, [1, 1], "no memory"), "WRONG")
        self.assertEqual(self.verdict(False, [0, 0], BOTH), "WRONG")

    def test_has_to_work(self):
        self.assertEqual(self.verdict(True, [0, 0], BOTH), "works")
        self.assertEqual(self.verdict(True, [0, 1], BOTH), "WRONG")
        self.assertEqual(self.verdict(True, [1, 1], "ibv_modify_qp failed with 110"), "WRONG")
        self.assertEqual(self.verdict(False, [1, 1], "ibv_modify_qp failed with 110", paths.PATHS[0]), "WRONG")


class Cable(unittest.TestCase):
    """That the lines of both ranks are what the judge of tests/sim/survive looks for."""

    def test_sane(self):
        one = pulls.cases(PROGRAM)[0]
        server, client = BOTH.split("noise\n")
        self.assertEqual(judge.results(one, Outcome(said={"server": server, "client": client})), "")
        for changed in (client.replace("0d366dc4", "1d366dc4"), client.replace("20 all", "19 all"), "nccl: wrong: rank 1, number 3", ""):
            self.assertNotEqual(judge.results(one, Outcome(said={"server": server, "client": changed})), "")

    def test_both_nics(self):
        alone, both = (next(one for one in pulls.cases(PROGRAM) if one.both_nics == use) for use in (False, True))
        out = Outcome(before=30.0, elsewhere=30.0)
        self.assertIn("another NIC", judge.was_pulled(alone, out))
        self.assertEqual(judge.was_pulled(both, out), "")


if __name__ == "__main__":
    unittest.main()
