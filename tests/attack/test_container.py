#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""User 0 in a container, without any capability, with what docs/containers.md mounts: it can neither give orders to the agent, nor
keep it from starting, nor use up what others need. What it tries works for root of the host, so that no test passes because
nothing works."""

import json
import os
import sys
import unittest

import attacknet
from attacknet import Container, wait_for
from test_attack import AttackTest

# Tries a request on each socket that it finds; prints what there is, and what came back.
ASK = """
import json, os, socket, sys
found, said = [], {}
for place in sys.argv[2:]:
    for name in sorted(os.listdir(place)):
        path = f"{place}/{name}"
        found.append(path)
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.settimeout(5)
                try:
                    sock.connect(path)
                    sock.sendall(sys.argv[1].encode() + b"\\n")
                    said[path] = sock.recv(65536).decode(errors="replace")
                except OSError as error:
                    said.setdefault(path, "")
print(json.dumps([found, said]), flush=True)
sys.stdin.read()
"""

# Locks all that it can open, and holds on.
LOCK = """
import fcntl, json, os, sys
held = []
for place in sys.argv[1:]:
    for path in [place, *(f"{place}/{name}" for name in sorted(os.listdir(place)))]:
        try:
            fd = os.open(path, os.O_RDONLY)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError:
            pass
        held.append(path)
print(json.dumps(held), flush=True)
sys.stdin.read()
"""
DRAIN = json.dumps({"do": "drain", "device": "mlx5_0", "force": True})


class ContainerTest(AttackTest):
    def setUp(self):
        super().setUp()
        self.with_alice()

    def container(self, *args, **kwargs):
        container = Container(self.v, *args, **kwargs)
        self.addCleanup(container.close)
        return container

    def drained(self):
        return [rail["drained"] for rail in json.loads(self.v.ask("status"))["rails"]]

    def test_lock_in_a_container(self):
        """Whatever it locks: the agent starts again."""
        locker = self.container(LOCK, "/run/meshverbs")
        self.assertEqual(locker.read(), ["/run/meshverbs", "/run/meshverbs/agent", "/run/meshverbs/directory"])
        for _ in range(2):
            self.v.stop()
            self.v.start()
        wait_for(lambda: self.v.directory().holders("10.0.1.2"), "alice is known again")
        self.assert_alice_reaches_v()

    def test_lock_by_mistake(self):
        """With the other directory mounted as well it can: then the log names it."""
        self.v.stop()
        locker = self.container(LOCK, "/run/meshverbsd", mounts={"/run/meshverbsd": self.v.control_dir})
        self.assertIn("/run/meshverbsd/lock", locker.read())
        with self.assertRaisesRegex(AssertionError, f"lock is held by process {locker.pid} of user 0"):
            self.v.start()
        locker.close()
        self.v.start()
        self.assert_alice_reaches_v()


del AttackTest

if __name__ == "__main__":
    if not attacknet.AGENT:
        sys.exit("MESHVERBS_AGENT is not set")
    if "IN_NETNS" not in os.environ:
        sys.exit(attacknet.in_namespaces())
    attacknet.make_network()
    unittest.main()
