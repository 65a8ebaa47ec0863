# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts with a real kernel and Soft-RoCE NICs, as QEMU guests.

    from rdmalab import Lab
    with Lab.up("pair") as lab:
        server = lab.start("b", "ibv_rc_pingpong -d rxe0 -g 1")
        print(lab.run("a", "sleep 1; ibv_rc_pingpong -d rxe0 -g 1 b", timeout=60).out)
        lab.link("l0", on=False)
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "topo"))

from .errors import LabError  # noqa: E402
from .lab import Lab  # noqa: E402

__all__ = ["Lab", "LabError"]
