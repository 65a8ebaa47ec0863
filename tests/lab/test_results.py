#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The matrix: what counts as working and as a difference."""
import contextlib
import copy
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from verbsmatrix import cli, drive, explained, programs, results  # noqa: E402

GOOD = {"client": 0, "server": 0, "sane": True, "facts": [{"bytes": "8", "iters": "60"}], "seconds": 1.0,
        "line": "8 60", "command": "prog b", "output": {"client": "8 60", "server": ""}}
PASSED = {"outcome": "passed", "reason": "", "seconds": 1.0}


def changed(entry, **fields):
    return {**copy.deepcopy(entry), **fields}


class Compare(unittest.TestCase):
    def compare(self, one, other, kind="programs"):
        """Exit status and output of `matrix compare` on two files with these results."""
        with tempfile.TemporaryDirectory() as directory:
            paths = []
            for label, found in (("bare", one), ("stacked", other)):
                paths.append(f"{directory}/{label}.json")
                results.save(paths[-1], label, kind, found, 1.0)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                args = cli.parser().parse_args(["compare", *paths])
                return args.function(args), out.getvalue()

    def test_same(self):
        rc, out = self.compare({"p": GOOD}, {"p": changed(GOOD, seconds=9.9, line="8 60 1.5")})
        self.assertEqual(rc, 0, out)

    def test_differences(self):
        for fields in ({"client": 1}, {"server": 124}, {"sane": False}, {"facts": [{"bytes": "8", "iters": "59"}]}):
            with self.subTest(fields):
                rc, out = self.compare({"p": GOOD}, {"p": changed(GOOD, **fields)})
                self.assertEqual(rc, 1)
                self.assertIn("stacked", out)
                self.assertIn("1 different", out)

    def test_names_are_an_expression_for_only(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = [f"{directory}/{label}.json" for label in ("bare", "stacked")]
            for path, found in zip(paths, ({"a.b": GOOD, "a+b": GOOD}, {"a.b": GOOD, "a+b": changed(GOOD, client=1)})):
                results.save(path, "x", "programs", found, 1.0)
            args = cli.parser().parse_args(["compare", "--names", f"{directory}/names", *paths])
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(args.function(args), 1)
            only = pathlib.Path(f"{directory}/names").read_text()
        self.assertEqual([n for n in ("a.b", "a+b", "a+bc") if re.search(only, n)], ["a+b"])

    def test_missing(self):
        self.assertEqual(self.compare({"p": GOOD, "q": GOOD}, {"p": GOOD})[0], 1)
        self.assertEqual(self.compare({"p": GOOD}, {"p": GOOD, "q": GOOD})[0], 1)

    def test_failing_bare_too_is_shown_with_its_output(self):
        bad = changed(GOOD, client=1, sane=False, output={"client": "Transport retry count exceeded", "server": ""})
        rc, out = self.compare({"p": bad}, {"p": bad})
        self.assertEqual(rc, 0)
        self.assertIn("Transport retry count exceeded", out)
        self.assertEqual(self.compare({"p": bad}, {"p": GOOD})[0], 1)

    def test_pyverbs(self):
        self.assertEqual(self.compare({"t": PASSED}, {"t": changed(PASSED, seconds=2.0)}, "pyverbs")[0], 0)
        for fields in ({"outcome": "failed"}, {"outcome": "skipped", "reason": "no XRC"}, {"outcome": "timeout"}):
            self.assertEqual(self.compare({"t": PASSED}, {"t": changed(PASSED, **fields)}, "pyverbs")[0], 1)

    def test_not_a_result_file(self):
        for text in ("", "[]", "{}", json.dumps({"label": "x"})):
            with tempfile.NamedTemporaryFile("w") as file, self.assertRaisesRegex(ValueError, "no result file"):
                file.write(text)
                file.flush()
                results.load(file.name)


    def test_where_meshverbs_was_not_active(self):
        self.assertTrue(results.worked(changed(GOOD, active=True)))
        self.assertFalse(results.worked(changed(GOOD, active=False)))
        self.assertEqual(self.compare({"p": GOOD}, {"p": changed(GOOD, active=True)})[0], 0)
        self.assertEqual(self.compare({"p": GOOD}, {"p": changed(GOOD, active=False)})[0], 1)


class Explain(unittest.TestCase):
    TEXT = "# comment\nIt has no XRC,\nnot one.\n\tskipped no XRC\n\nThe other reason.\n\tfailed t2: .*device\n"
    FOUND = {"t0": PASSED, "t1": changed(PASSED, outcome="skipped", reason="no XRC here"),
             "t2": changed(PASSED, outcome="failed", reason="no device")}

    def explain(self, found, text=TEXT, *options):
        with tempfile.TemporaryDirectory() as directory:
            results.save(f"{directory}/r.json", "bare", "pyverbs", found, 1.0)
            pathlib.Path(directory, "e").write_text(text)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                args = cli.parser().parse_args(["explain", *options, f"{directory}/r.json", f"{directory}/e"])
                return args.function(args), out.getvalue()

    def test_all_explained(self):
        rc, out = self.explain(self.FOUND)
        self.assertEqual(rc, 0, out)
        self.assertIn("1 It has no XRC, not one.", out)

    def test_new_ones_fail(self):
        for new in ({"outcome": "skipped", "reason": "no tags"}, {"outcome": "failed", "reason": "no XRC"},
                    {"outcome": "crashed", "reason": "no device"}):
            rc, out = self.explain({**self.FOUND, "t3": changed(PASSED, **new)})
            self.assertEqual(rc, 1)
            self.assertIn("NOT EXPLAINED", out)
            self.assertIn("t3", out)

    def test_lines_without_use_fail_unless_it_was_a_part(self):
        found = {n: e for n, e in self.FOUND.items() if n != "t2"}
        self.assertEqual(self.explain(found)[0], 1)
        self.assertEqual(self.explain(found, self.TEXT, "--part")[0], 0)

    def test_bad_files(self):
        for text in ("\tskipped x\n", "Reason\n\tpassed x\n", "Reason\n\tskipped\n", "Reason\n\tskipped (\n"):
            with tempfile.NamedTemporaryFile("w") as file, self.assertRaisesRegex(ValueError, f"{file.name}:"):
                file.write(text)
                file.flush()
                explained.load(file.name)


class Sample(unittest.TestCase):
    def test_core_is_always_in_and_the_seed_decides_the_rest(self):
        found = programs.all_programs("sim")
        names = [[p.name for p in cli.sample(found, 6, seed)] for seed in (1, 1, 2)]
        self.assertEqual(names[0], names[1])
        self.assertNotEqual(names[0], names[2])
        core = {p.name for p in found if p.core}
        self.assertLessEqual(core, set(names[0]))
        self.assertEqual(len(names[0]), len(core) + 6)
        self.assertFalse([p.name for p in found if p.slow and p.name in names[0]])

    def test_what_needs_rdma_cm_is_for_the_lab(self):
        self.assertNotIn("rping", [p.name for p in programs.all_programs("sim")])
        self.assertIn("rping", [p.name for p in programs.all_programs("lab")])
        self.assertNotIn("ibv_devinfo -v", [p.name for p in programs.all_programs("lab")])


class Judge(unittest.TestCase):
    PINGPONG = "819200 bytes in 0.32 seconds = 20 Mbit/sec\n60 iters in 0.32 seconds = 3159 usec/iter\n"

    def judge(self, name, client, server=""):
        program = next(p for p in programs.all_programs() if p.name == name)
        return drive.judge(program, {"client": client, "server": server})

    def test_pingpong(self):
        good = self.judge("ibv_rc_pingpong", self.PINGPONG, self.PINGPONG)
        self.assertTrue(good["sane"])
        self.assertEqual(good["facts"][0], {"bytes": "819200", "iters": "60"})
        self.assertFalse(self.judge("ibv_rc_pingpong", self.PINGPONG, "")["sane"])
        self.assertFalse(self.judge("ibv_rc_pingpong", self.PINGPONG + "invalid data in page 0", self.PINGPONG)["sane"])

    def test_perftest(self):
        self.assertTrue(self.judge("ib_write_lat", "#bytes #iterations\n 8       60          1.2  3.4\n")["sane"])
        self.assertFalse(self.judge("ib_write_lat", "#bytes #iterations\n Failed status 12\n")["sane"])

    def test_every_program_has_a_name_and_port_of_its_own(self):
        found = programs.all_programs()
        self.assertEqual(len({p.name for p in found}), len(found))
        self.assertEqual(len({p.port for p in found}), len(found))


if __name__ == "__main__":
    unittest.main()
