# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Faults under traffic whose every work request is checked: README.md beside this package."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
REPO = HERE.parents[1]
sys.path[:0] = [str(REPO / "sim"), str(REPO / "tests/lab"), str(REPO / "tests/topo"), str(REPO / "tests/sim/rightnic")]
