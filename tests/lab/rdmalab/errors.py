# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
class LabError(Exception):
    """Something the caller can act on; str() names the thing and the fix."""
