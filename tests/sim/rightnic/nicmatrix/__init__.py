# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that choose a NIC or a GID, whether or not it reaches the peer: README.md beside this package."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
REPO = HERE.parents[2]
sys.path[:0] = [str(REPO / "sim"), str(REPO / "tests/lab"), str(REPO / "tests/topo")]
