# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unmodified programs under which a cable is pulled: README.md beside this package."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
REPO = HERE.parents[2]
sys.path[:0] = [str(REPO / path) for path in ("sim", "tests/lab", "tests/topo", "tests/sim/rightnic", "tests/chaos")]
