#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is thought of outcomes; on made-up ones."""
import dataclasses
import pathlib
import sys
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pulled import judge  # noqa: E402  (the path comes first)
from pulled.play import N_STUCK, Outcome, Play  # noqa: E402
from pulled.programs import CASES, Case  # noqa: E402
from verbsmatrix.program import Program  # noqa: E402

CASE = Case(Program("p", "", "", r"did (?P<count>\d+)", forbidden="invalid"), 100.0, 3, r"number (\d)")
LINE = "mlx5_0 QP 0x44 to host x: a port on the path is down; moved to {} (10.2.0.1) to 10.2.0.2\n"
LOST = "mlx5_0 QP 0x44 to host a: not moved: the result of an atomic is lost; the program gets its errors\n"
GOOD = Outcome(pulled="l0", nic="mlx5_0", before=30.0, away=40.0, back=30.0, plugged=True, lasted=90.0, client=0, server=0,
               said={"client": "number 0 number 1 number 2 did 3"},
               logs={host: LINE.format("mlx5_1") + LINE.format("mlx5_0") for host in "ab"})


def like(**changes):
    return dataclasses.replace(GOOD, **changes)


class Stacked(unittest.TestCase):
    def wrong(self, words, case=CASE, **changes):
        verdict, why = judge.stacked(case, like(**changes))
        self.assertEqual(verdict, "WRONG")
        self.assertIn(words, why)

    def test_good(self):
        self.assertEqual(judge.stacked(CASE, GOOD), ("survived", ""))

    def test_ends(self):
        self.wrong("ended with 1 and 0", client=1)
        self.wrong("ended with 0 and None", server=None)

    def test_results(self):
        self.wrong("did not say", said={"client": "number 0 number 1 number 2"})
        self.wrong("2 of 3", said={"client": "number 0 number 1 number 2 did 2"})
        self.wrong("missing", said={"client": "number 0 number 2 number 1 did 3"})
        self.wrong("'invalid'", said={"client": GOOD.said["client"], "server": "invalid data"})

    def test_nothing_was_pulled(self):
        self.wrong("carried before", before=0.1)
        self.wrong("another NIC before", elsewhere=20.0)

    def test_nothing_moved(self):
        self.wrong("log of a", logs={**GOOD.logs, "a": ""})
        self.wrong("log of b", logs={**GOOD.logs, "b": LINE.format("mlx5_0")})
        self.wrong("over the other NIC", away=0.1)

    def test_does_not_return(self):
        self.wrong("cable was back", plugged=False)
        self.wrong("did not return", back=0.1)
        self.wrong("did not return", logs=dict.fromkeys("ab", LINE.format("mlx5_1")))
        self.assertEqual(judge.stacked(CASE, like(back=0.1, lasted=1.0)), ("survived", ""))
        self.assertEqual(judge.stacked(dataclasses.replace(CASE, stays_out=True), like(plugged=False, back=0.0)), ("survived", ""))

    def test_none_returns(self):
        self.assertIn("no program returned", judge.none_returned("stacked", [False, False]))
        for half, homes in (("stacked", [False, True]), ("stacked", [False]), ("bare", [False, False])):
            self.assertEqual(judge.none_returned(half, homes), "")

    def test_lost_atomic(self):
        case = dataclasses.replace(CASE, may_surface=True)
        failed = {"client": 1, "server": None, "said": {"client": " Failed status 12: wr_id 0 syndrom 0x81"}, "logs": {"a": "", "b": LOST}}
        self.assertEqual(judge.stacked(case, like(**failed)), ("surfaced", ""))
        self.wrong("ended with 1", **failed)
        self.wrong("ended with 1", case, **{**failed, "logs": GOOD.logs})
        self.wrong("ended with None", case, **{**failed, "client": None})
        self.wrong("not told", dataclasses.replace(case, fault="drop"))


class Bare(unittest.TestCase):
    def test_verdicts(self):
        fails = {"away": 0.0, "plugged": False}
        for ends, verdict in (((1, 0), "failed"), ((None, 1), "failed"), ((-6, None), "failed"), ((None, None), "hung"), ((0, None), "hung"),
                              ((0, 0), "WRONG")):
            with self.subTest(ends=ends):
                self.assertEqual(judge.bare(CASE, like(client=ends[0], server=ends[1], **fails))[0], verdict)
        self.assertEqual(judge.bare(CASE, like(client=1, before=0.0, away=0.0))[0], "WRONG")
        self.assertEqual(judge.bare(CASE, like(client=1, away=40.0))[0], "WRONG")

    def test_may_heal_itself(self):
        """By the other NIC, and to the end or not: how far it comes is the program's affair."""
        case = dataclasses.replace(CASE, heals_itself=True)
        self.assertEqual(judge.bare(case, GOOD), ("heals", ""))
        self.assertEqual(judge.bare(case, like(client=1)), ("failed", ""))
        self.assertEqual(judge.bare(case, like(client=None, server=None)), ("hung", ""))
        self.assertEqual(judge.bare(case, like(said={"client": "did 2"}))[0], "WRONG")


class Pace(unittest.TestCase):
    """How long a program has: as long as it takes, while something is carried."""

    def looks(self, megabytes, n_looks):
        """(whether it came true, how often was looked) where each look sees so much more, and the last of @n_looks is true."""
        seen, play = [], Play.__new__(Play)
        play.ends = [mock.Mock(**{"poll.return_value": None})]
        play.carried = lambda: {0: megabytes * len(seen)}
        with mock.patch("pulled.play.until", lambda condition, _: seen.append(1) or condition()):
            return play.wait(lambda: len(seen) >= n_looks), len(seen)

    def test_slow(self):
        self.assertEqual(self.looks(1.5, 5), (True, 5))

    def test_stuck(self):
        self.assertEqual(self.looks(0.1, 5), (False, 1))

    def test_for_ever(self):
        self.assertEqual(self.looks(1.5, 50), (False, N_STUCK))


class Cases(unittest.TestCase):
    def test_names_differ(self):
        self.assertEqual(len({case.name for case in CASES}), len(CASES))


if __name__ == "__main__":
    unittest.main()
