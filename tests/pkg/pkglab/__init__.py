# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Packages built, installed and removed in Debian root file systems made for it."""
import pathlib

REPO = pathlib.Path(__file__).resolve().parents[3]


class Failed(Exception):
    """A check that did not hold, or a command that should have worked."""


def check(holds, text):
    if not holds:
        raise Failed(text)
    print(f"  ok: {text}", flush=True)
