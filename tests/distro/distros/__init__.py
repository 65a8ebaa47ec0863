# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs on Debian's suites: README.md beside this package."""
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
REPO = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get("MESHVERBS_DISTRO_CACHE", "/var/cache/meshverbs-distro"))
SUITES = ("bullseye", "bookworm", "trixie", "sid")
sys.path[:0] = [str(REPO / "tests/pkg")]
