#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The matrix: what counts as working and as a difference."""
import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from verbsmatrix import cli, drive, programs, results  # noqa: E402

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
