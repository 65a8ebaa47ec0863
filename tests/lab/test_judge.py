#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What survive_storm counts as survived, as void and as wrong; on made-up runs."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from survive import storm  # noqa: E402
from schedule import drive  # noqa: E402

FAILED = ("120.500 thread 0, queue pair 1.0 (0x11): failed: {}, transport retry counter exceeded, 0 atomics outstanding; vendor 0x81, "
          "work request 5, 600.000 ms after the last success\n")
LOST = "VIOLATION: 120.500 thread 0, queue pair 1.0 (0x11): receive 7 is missing\n"


def verdict(status, said="", done=("port",), unexplained=(), too_long=False):
    return storm.judge(drive.Outcome([status, drive.CLEAN], said, [(kind, "a.0") for kind in done]), unexplained, too_long)


class Judge(unittest.TestCase):
    def test_clean(self):
        self.assertEqual(verdict(drive.CLEAN), storm.GOOD)
        self.assertEqual(verdict(drive.CLEAN, too_long=True), storm.GOOD)

    def test_only_atomics_may_fail(self):
        self.assertEqual(verdict(drive.SURFACED, FAILED.format("add")), storm.GOOD)
        self.assertEqual(verdict(drive.SURFACED, FAILED.format("send")), storm.WRONG)

    def test_what_nobody_explains(self):
        for what, done in (("add", ("port",)), ("send", ("second",))):
            self.assertEqual(verdict(drive.SURFACED, FAILED.format(what), done, {"pair"}), storm.WRONG)

    def test_others_while_there_is_no_path(self):
        self.assertEqual(verdict(drive.SURFACED, FAILED.format("send"), ("port", "second")), storm.GOOD)

    def test_no_processor(self):
        self.assertEqual(verdict(drive.SURFACED, FAILED.format("send"), too_long=True), storm.VOID)
        self.assertEqual(verdict(drive.SURFACED, FAILED.format("add"), unexplained={"pair"}, too_long=True), storm.VOID)

    def test_soft_roce(self):
        lost = "VIOLATION: 120.500 thread 0, queue pair 1.0 (0x11): {}, operation 9, was completed without its result\n"
        for what in ("read", "add", "swap"):
            self.assertEqual(verdict(drive.VIOLATION, lost.format(what)), storm.SOFT)
        for said in (lost.format("add") + LOST, lost.format("send")):
            self.assertEqual(verdict(drive.VIOLATION, said), storm.WRONG)

    def test_own_address(self):
        """Of a queue pair that could not be moved."""
        gone = FAILED.replace("transport retry counter exceeded", storm.NO_ADDRESS).format("swap")
        self.assertEqual(verdict(drive.SURFACED, gone, ("port", "address")), storm.SOFT)
        self.assertEqual(verdict(drive.SURFACED, gone, ("port",)), storm.WRONG)
        self.assertEqual(verdict(drive.SURFACED, gone, ("address",), {"pair"}), storm.WRONG)
        self.assertEqual(verdict(drive.SURFACED, gone + FAILED.format("send").replace("1.0", "2.0"), ("address",)), storm.WRONG)

    def test_never_excused(self):
        for status, said in ((drive.VIOLATION, LOST), (drive.STUCK, "")):
            self.assertEqual(verdict(status, said, ("second",), too_long=True), storm.WRONG)


if __name__ == "__main__":
    unittest.main()
