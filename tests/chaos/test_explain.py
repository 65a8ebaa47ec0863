#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The rule by which storm tells an error that had to come from one that nobody can explain; on made-up logs."""
import sys
import unittest

sys.dont_write_bytecode = True
from schedule import drive, explain  # noqa: E402

STAMP = "2026-01-01T00:00:00Z meshverbs[7]: chaos-traffic: "
SAID = {
    "client": "120.500 thread 0, queue pair 1.0 (0x11): failed: send, transport retry counter exceeded, 0 atomics outstanding; vendor 0x81, "
              "work request 5, 600.000 ms after the last success\n"
              "120.900 thread 0, queue pair 1.0 (0x11): failed consistently: 9 posted, 5 completed, 5 seen by the other end\n",
    "server": "120.900 thread 0, queue pair 1.0 (0x21): failed consistently: 9 posted, 5 completed, 5 seen by the other end\n",
}


def failed(host, qpn, why):
    return f"{STAMP}mlx5_0 QP {qpn:#x} to host {host}: not moved: {why}; the program gets its errors\n"


class Explain(unittest.TestCase):
    def rest(self, client="", server=""):
        failures = drive.Outcome([], SAID["client"] + SAID["server"], []).failures()
        self.assertEqual(list(failures), [("0", "1.0")])
        explained = explain.Explained([(SAID["client"], client), (SAID["server"], server)])
        return explained.unexplained(failures, [*explain.LATE, *explain.LOST_ATOMIC])

    def test_nobody_says_anything(self):
        self.assertTrue(self.rest())

    def test_its_own_log(self):
        for why in explain.LATE:
            self.assertFalse(self.rest(client=failed("a", 0x11, why)))

    def test_the_other_end_failed_first(self):
        self.assertFalse(self.rest(server=failed("b", 0x21, explain.LATE[0])))

    def test_another_queue_pair(self):
        self.assertTrue(self.rest(client=failed("a", 0x12, explain.LATE[0])))
        self.assertTrue(self.rest(client=failed("a", 0x21, explain.LATE[0])))  # that number is the server's
        self.assertTrue(self.rest(server=failed("b", 0x11, explain.LATE[0])))

    def test_a_reason_that_is_none(self):
        left = self.rest(client=failed("a", 0x11, "Protocol error"))
        self.assertEqual(left["0", "1.0"][1], ["Protocol error"])

    def test_unlogged(self):
        line = f"{STAMP}mlx5_0 QP 0x11 to host a: {explain.UNLOGGED[0]}; the program gets its errors\n"
        self.assertEqual(explain.reasons_of(line), {0x11: [explain.UNLOGGED[0]]})

    def test_without_agent(self):
        for why in explain.AGENTLESS:
            line = f"{STAMP}mlx5_0 QP 0x11: {why}; the program gets its errors\n"
            self.assertEqual(explain.reasons_of(line), {0x11: [why]})
            self.assertIn(why, explain.allowed({"port", "agent"}))
            self.assertNotIn(why, explain.allowed({"port", "control"}))

    def test_unheard(self):
        for why in explain.UNHEARD:
            self.assertIn(why, explain.allowed({"port"}, infiniband=True))
            self.assertNotIn(why, explain.allowed({"port"}))
        for why in explain.GREETING_LOST:
            self.assertIn(why, explain.allowed({"port", "control"}, infiniband=True))
            self.assertNotIn(why, explain.allowed({"port", "control"}))
            self.assertNotIn(why, explain.allowed({"port", "agent"}, infiniband=True))

    def test_stale_directory(self):
        """The failure is of 120.5 ms: only then it may be for want of a new directory."""
        failures = drive.Outcome([], SAID["client"], []).failures()
        for why in explain.NO_NEWS:
            explained = explain.Explained([(SAID["client"], failed("a", 0x11, why))])
            for stale, wrong in (((), True), ([(0.1, 0.12)], True), ([(0.121, 0.2)], True), ([(0.01, 0.02), (0.12, 0.13)], False)):
                self.assertEqual(bool(explained.unexplained(failures, explain.allowed({"agent"}), stale)), wrong)
            other = explain.Explained([(SAID["client"], failed("a", 0x11, "Protocol error"))])
            self.assertTrue(other.unexplained(failures, explain.allowed({"agent"}), [(0.12, 0.13)]))

    def test_lost_atomic(self):
        line = f"{STAMP}mlx5_0 QP 0x11 to host a: {explain.LOST_ATOMIC[0]}; the program gets its error\n"
        self.assertFalse(self.rest(client=line))


if __name__ == "__main__":
    unittest.main()
