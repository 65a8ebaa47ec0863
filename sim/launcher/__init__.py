# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts made of namespaces for the simulated mlx5 HCA; see sim/README.md."""


class SimError(Exception):
    """What went wrong and what to do about it, in one line for the user."""
