#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is thought of results, and the table; on made-up ones."""
import contextlib
import dataclasses
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from distros import cli, judge, suite, table  # noqa: E402  (the path comes first)
from distros.plays import PLAYS, Play  # noqa: E402
from pkglab import Failed  # noqa: E402

GOOD = {"client": 0, "server": 0, "sane": True, "command": "p b", "output": {"client": "done", "server": ""}}
BAD = {**GOOD, "client": 1, "sane": False, "output": {"client": "first\nCouldn't connect\n", "server": ""}}
PULLED = """programs: seed 1
program                            half     verdict   pulled     after     moves
ib_write_bw                        stacked  survived  l0         300.0 MB
ib_atomic_bw -A FETCH_AND_ADD      stacked  {}     l0         300.0 MB
ib_write_bw                        bare     failed    l0         300.0 MB
"""


def verdicts(rows):
    return {one["what"]: (one["verdict"], one["good"]) for one in rows}


class Compared(unittest.TestCase):
    def test_works_both_ways(self):
        self.assertEqual(verdicts(judge.compared({"ib_x": GOOD}, {"ib_x": GOOD})), {"ib_x": (judge.WORKS, True)})

    def test_worse_than_bare(self):
        rows = judge.compared({"ib_x": GOOD}, {"ib_x": BAD})
        self.assertEqual(verdicts(rows), {"ib_x": (judge.WRONG, False)})
        self.assertIn("Couldn't connect", " ".join(rows[0]["proof"]))

    def test_not_active(self):
        rows = judge.compared({"ib_x": GOOD}, {"ib_x": {**GOOD, "active": False}})
        self.assertEqual(verdicts(rows), {"ib_x": (judge.WRONG, False)})

    def test_does_not_work_bare(self):
        """Listed with what the bare run said; with meshverbs it may work or not."""
        for other in (GOOD, BAD):
            rows = judge.compared({"ib_x": BAD}, {"ib_x": other})
            self.assertEqual(verdicts(rows), {"ib_x": (judge.BARE_FAILS, True)})
            self.assertIn("Couldn't connect", " ".join(rows[0]["proof"]))

    def test_run_once(self):
        self.assertEqual(verdicts(judge.compared({"ib_x": GOOD}, {})), {"ib_x": (judge.WRONG, False)})

    def test_suite(self):
        passed, skipped = {"outcome": "passed", "reason": ""}, {"outcome": "skipped", "reason": "no ODP"}
        failed = {"outcome": "failed", "reason": "no"}
        got = judge.compared({"a": passed, "b": skipped, "c": passed, "d": passed, "e": failed},
                             {"a": passed, "b": skipped, "c": skipped, "d": failed, "e": failed})
        self.assertEqual([one["verdict"] for one in got], [judge.WORKS, "skipped", judge.WRONG, judge.WRONG, judge.BARE_FAILS])


class Others(unittest.TestCase):
    def test_pulled(self):
        good = judge.pulled(PULLED.format("surfaced"))
        self.assertEqual([one["verdict"] for one in good], ["survived", "surfaced", "failed"])
        self.assertEqual(judge.wrong(good), [])
        self.assertEqual([one["what"] for one in judge.wrong(judge.pulled(PULLED.format("WRONG")))], ["ib_atomic_bw -A FETCH_AND_ADD, with meshverbs"])

    def test_installed(self):
        self.assertTrue(judge.installed("Unpacking meshverbs (0.1.0) ...\nSetting up meshverbs (0.1.0) ...\n")["good"])
        wrong = judge.installed("Setting up meshverbs-provider\nInconsistency detected by ld.so\nmeshverbs-front: could not\n")
        self.assertEqual((wrong["good"], wrong["proof"]), (False, ["Inconsistency detected by ld.so", "meshverbs-front: could not"]))
        self.assertFalse(judge.installed("")["good"])

    def test_installed_without_a_front(self):
        said = "meshverbs-front: a program could not load the front: Inconsistency detected by ld.so; none was made"
        instead = "; with this C library programs that use mlx5 directly get the plugin by LD_PRELOAD=/lib/libibverbs/meshverbs-provider.so"
        self.assertEqual(judge.installed(f"Setting up x\n{said}{instead}\n")["verdict"], "installed, no front")
        self.assertFalse(judge.installed(f"Setting up x\n{said}\n")["good"])
        self.assertFalse(judge.installed(f"{said}{instead}\nE: x\n")["good"])

    def test_left_out(self):
        rows = judge.left_out("left out: ucx_perftest, MPI: UCX has the transports self tcp \nprograms: seed 1\n" * 2)
        self.assertEqual([(one["what"], one["verdict"], one["good"], one["group"]) for one in rows], [("ucx_perftest, MPI", judge.BARE_FAILS, True, "UCX")])
        self.assertIn("self tcp", rows[0]["proof"][0])
        self.assertEqual(judge.left_out("programs: seed 1\n"), [])

    def test_nics(self):
        one = {"program": "ib_write_bw", "server": "a", "server_nic": 0, "client": "b", "client_nic": 1, "stacked": True, "right": False, "ok": True,
               "wrong": "", "output": {"client": "", "server": ""}}
        self.assertEqual(judge.nics([one])[0]["verdict"], judge.WORKS)
        self.assertEqual(judge.nics([{**one, "ok": False}])[0]["verdict"], "fails")
        self.assertFalse(judge.nics([{**one, "wrong": "works bare"}])[0]["good"])

    def test_unittests(self):
        self.assertTrue(judge.unittests("gid", 0, "...\nRan 3 tests in 1.0s\n\nOK\n")["good"])
        for status, text in ((0, ""), (1, "Ran 3 tests in 1s\nFAILED"), (0, "FAIL: test_x (a.b)\nRan 3 tests in 1s\n"), (124, "Ran 3 tests in 1s\nOK")):
            self.assertFalse(judge.unittests("gid", status, text)["good"], text)

    def test_ctests(self):
        self.assertTrue(judge.ctests("unit", 0, "x\n100% tests passed, 0 tests failed out of 130\n")["good"])
        self.assertFalse(judge.ctests("unit", 8, "99% tests passed, 1 tests failed out of 130\n")["good"])

    def test_command_that_ends_early(self):
        self.assertEqual(len(judge.wrong([judge.broken("programs", {"programs-bare": (2, "no such host")})])), 1)

    def test_groups(self):
        for what, group in (("ib_send_bw -e", "perftest"), ("ibv_rc_pingpong", "libibverbs' examples"), ("ucx_perftest rc_verbs", "UCX"),
                            ("mpich 4 ranks rc_v", "MPICH"), ("MPI collectives", "MPICH"), ("rping", "librdmacm")):
            self.assertEqual(judge.row(what, "", True)["group"], group)


class Table(unittest.TestCase):
    ROWS = judge.compared({"ib_x": GOOD, "ib_y": BAD}, {"ib_x": GOOD, "ib_y": BAD})

    def test_cells(self):
        self.assertEqual(table.cell([]), table.NOT_RUN)
        self.assertEqual(table.cell(self.ROWS), "1, 1 not bare")
        skipped = [judge.row("test", judge.SKIPPED, True)] * 3
        self.assertEqual(table.cell([*self.ROWS, *skipped]), "1, 3 skipped, 1 not bare")
        self.assertEqual(table.cell(judge.compared({"ib_x": GOOD}, {"ib_x": BAD})), "**1 of 1 wrong**")

    def test_markdown(self):
        text = table.markdown({"trixie": {"programs": self.ROWS}}, {"trixie": {"UCX": "1.18"}, "sid": {"UCX": ""}}, [("programs", "right NIC")])
        self.assertEqual(text, "|  |  | trixie | sid |\n| --- | --- | --- | --- |\n| version | UCX | 1.18 | none |\n"
                               "| right NIC | perftest | 1, 1 not bare | not run |\n")

    def test_proofs(self):
        text = table.proofs({"trixie": {"programs": self.ROWS}})
        self.assertIn("trixie, programs: ib_y\n    $ p b\n    client ended with 1: first / Couldn't connect\n", text)
        self.assertNotIn("ib_x", text)


class Kept(unittest.TestCase):
    """What runs leave behind."""
    PLAY = Play("gid", "wrong GID", (), lambda folder, done: [judge.row("gid", "1 tests", True)])

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        (self.out / "sid").mkdir()
        (self.out / "sid/versions.json").write_text('{"UCX": "1"}')
        self.suite = types.SimpleNamespace(out=self.out / "sid")
        self.args = types.SimpleNamespace(again=False, short=False)

    def run_play(self, play, commit):
        source = suite.Source(None, f"tree of {commit}", "", commit)
        with contextlib.redirect_stdout(io.StringIO()):
            return cli.run_play(self.suite, play, source, self.args)

    def test_a_play_that_ends_early_leaves_nothing_of_an_earlier_source(self):
        self.assertTrue(self.run_play(self.PLAY, "aaa"))
        self.assertIn("| wrong GID | other | 1 tests |", cli.report(self.out))

        def ends(folder, done):
            raise judge_failed
        judge_failed = RuntimeError("ended")
        with self.assertRaises(RuntimeError):
            self.run_play(dataclasses.replace(self.PLAY, read=ends), "bbb")
        self.assertNotIn("wrong GID", cli.report(self.out))

    def test_source(self):
        """The table names each commit that something was run of."""
        self.run_play(self.PLAY, "bbb")
        self.run_play(dataclasses.replace(self.PLAY, name="nic"), "aaa")
        self.assertIn("| version | meshverbs | aaa bbb |", cli.report(self.out))


class Command(unittest.TestCase):
    """Which suites are run, and what is said at the end."""

    def main(self, *words, ends=None):
        """(exit status, suites that were run, what was printed); ends: {suite: how many plays were wrong, or what is raised}"""
        ran = []

        def run_suite(name, args, source):
            ran.append(name)
            how = (ends or {}).get(name, 0)
            if isinstance(how, Exception):
                raise how
            return how

        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said), mock.patch.object(cli, "run_suite", run_suite), \
                mock.patch.object(cli.Source, "of_tree", lambda: None), mock.patch.object(cli.os, "geteuid", lambda: 0):
            return cli.main([*words, "-o", folder]), ran, said.getvalue()

    def test_all_suites(self):
        status, ran, said = self.main()
        self.assertEqual((status, ran), (0, ["bullseye", "bookworm", "trixie", "sid"]))
        self.assertEqual(said.count("|  |  |"), 1)
        self.assertIn("distro: all as it has to be\n", said)

    def test_named_ones(self):
        self.assertEqual(self.main("sid", "trixie")[:2], (0, ["sid", "trixie"]))

    def test_one_is_wrong(self):
        """Whatever becomes of a suite, the others are run, the table is printed, and the exit status says so."""
        for how in (1, Failed("no root"), OSError("no space"), subprocess.CalledProcessError(2, "tar")):
            with self.subTest(how=how):
                status, ran, said = self.main(ends={"bookworm": how})
                self.assertEqual((status, ran), (1, ["bullseye", "bookworm", "trixie", "sid"]))
                self.assertEqual(said.count("|  |  |"), 1)
                self.assertIn("distro: not as it has to be: bookworm\n", said)


class Source(unittest.TestCase):
    def test_what_makes_packages_old(self):
        for path, built in (("providers/mesh/post/post.c", True), ("debian/control", True), ("sim/hca/transport/qp.c", True), ("tests/sim/verbs/CMakeLists.txt", True),
                            ("docs/guarantees.md", False), ("sim/launcher/plan.py", False), ("tests/unit/gid/test_gid.c", False), ("tests/distro/run", False), ("tests/lab/rdmalab/lab.py", False)):
            self.assertEqual(suite.is_built(f"100644 blob 0123\t{path}"), built, path)

    def test_versions(self):
        for version, short in (("56.1-1", "56.1"), ("4.3.0+really4.2.1-1", "4.2.1"), ("1:1.23.0~rc1-1", "1.23.0rc1"), ("25.01.0+0.80-1", "25.01.0"),
                               ("252.39-1~deb12u2", "252.39"), ("1.10.1~rc1+really.1.10.0-1", "1.10.0"), ("", "")):
            self.assertEqual(suite.short(version), short)

    def test_plays(self):
        """Files of a play are not another's, and a play takes away its own old ones by their names."""
        steps = [(play.name, name) for play in PLAYS for name, _, _ in play.steps]
        self.assertEqual(len(steps), len(set(steps)))
        for play, name in steps:
            self.assertRegex(name, rf"^{play}(-\w+)?$")
        for play in PLAYS:
            for _, _, script in play.steps:
                for file in re.findall(r"/out/(\S+)", script):
                    self.assertRegex(file, rf"^{play.name}-\w+\.json$")


if __name__ == "__main__":
    unittest.main()
