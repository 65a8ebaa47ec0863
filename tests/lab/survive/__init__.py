# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two guests with two links each, meshverbs in both with live moves, and what can be done to them."""
import pathlib
import sys

LAB = pathlib.Path(__file__).resolve().parent.parent
REPO = LAB.parents[1]
sys.path[:0] = [str(LAB), str(REPO / "tests/topo"), str(REPO / "sim"), str(REPO / "tests/chaos")]
