#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Agents of several hosts, each in a network namespace, without privileges:  test_agents.py BUILD [TEST...]

    test_agents.py BUILD --but CLASS...     all other classes, so that tests run in parts leave none out
"""
import sys
import unittest

import agentcase
import hosts
# Names of tests on the command line are looked up here.
from behind_router import Routed
from keys_and_cookies import Cookies, Keys
from lost_address import AddressGone
from one_agent import Alone
from probed_paths import Probes, SealedProbes
from two_hosts import Pair

CLASSES = {cls.__name__: cls for cls in (Pair, Keys, AddressGone, Probes, SealedProbes, Cookies, Routed, Alone)}


def others(classes):
    """Names of the classes that are not among these."""
    unknown = set(classes) - set(CLASSES)
    if unknown:
        sys.exit(f"test_agents.py: no class {' '.join(sorted(unknown))}")
    return sorted(set(CLASSES) - set(classes))


if __name__ == "__main__":
    agentcase.BUILD = sys.argv.pop(1)
    if sys.argv[1:2] == ["--but"]:
        sys.argv[1:] = others(sys.argv[2:])
    reason = hosts.cannot_run()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(hosts.SKIP)
    unittest.main(verbosity=2)
