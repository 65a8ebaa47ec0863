#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The manual of meshverbs-front and the command's own help name the same options and commands.

    test_man.py TOOL
"""
import pathlib
import re
import subprocess
import sys
import unittest

PAGE = (pathlib.Path(__file__).resolve().parents[3] / "man/meshverbs-front.8.rst").read_text()
HELP = subprocess.run([sys.argv.pop(1), "--help"], text=True, capture_output=True, check=True).stdout


class Manual(unittest.TestCase):
    def test_options(self):
        shown = re.findall(r"^  (-\w), (--[a-z-]+)(?: ([A-Z]+))?", HELP, re.M) + [("-h", "--help", "")]
        self.assertGreater(len(shown), 5)
        described = re.findall(r"^\*\*(-\w)\*\*, \*\*(--[a-z-]+)\*\*(?: \*([A-Z]+)\*)?$", PAGE, re.M)
        self.assertEqual(sorted(described), sorted(shown))

    def test_commands(self):
        shown = re.findall(r"^  ([a-z]+)  ", HELP, re.M)
        self.assertEqual(shown, re.search(r"\.\.\. ([a-z|]+)$", HELP, re.M)[1].split("|"))
        described = re.search(r"\nCOMMANDS\n=+\n(.*?)\n\w+\n==", PAGE, re.S)[1]
        self.assertEqual(re.findall(r"^([a-z]+)\n  ", described, re.M), shown)

    def test_default_paths(self):
        """Those that depend on the architecture are named by their ends."""
        paths = re.findall(r"\((/\S+)\)", HELP)
        self.assertEqual(len(paths), 3)
        for path in paths:
            self.assertTrue(any(f"*{path[i:].lstrip('/')}*" in PAGE or f"*{path[i:]}*" in PAGE
                                for i in (m.start() for m in re.finditer("/", path))), path)


if __name__ == "__main__":
    unittest.main()
