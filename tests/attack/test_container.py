#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""User 0 in a container, without any capability, with what docs/containers.md mounts: it can neither give orders to the agent, nor
keep it from starting, nor use up what others need. What it tries works for root of the host, so that no test passes because
nothing works."""

import json
import os
import resource
import subprocess
import sys
import unittest

import attacknet
import wire
from attackcase import AttackTest
from attacknet import Container, wait_for

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
                sock.settimeout(60)
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
# Connects again and again, and holds on.
FLOOD = """
import json, socket, sys, time
held = []
for _ in range(int(sys.argv[2])):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(sys.argv[1])
    held.append(sock)
print(json.dumps(len(held)), flush=True)
sys.stdin.read()
"""
# Opens the directory again and again, and holds on to each that is another one: for that time, and until it holds six.
HOLD = """
import json, os, sys, time
held, begun = {}, time.monotonic()
while len(held) < 6 or time.monotonic() < begun + float(sys.argv[2]):
    fd = os.open(sys.argv[1], os.O_RDONLY)
    stat = os.fstat(fd)
    if held.setdefault(stat.st_ino, (fd, stat.st_size))[0] != fd:
        os.close(fd)
    time.sleep(0.005)
print(json.dumps([len(held), sum(size for _, size in held.values()), time.monotonic() - begun]), flush=True)
sys.stdin.read()
"""
# Has the agent answer on many sockets, reads nothing, and says that it will send no more. Then reads all, and counts: from one line on stdin
# to the next, as the agent has more to say when there is room.
FILL = """
import json, select, socket, sys
frame, held = bytes.fromhex(sys.argv[2]), []
for number in range(int(sys.argv[3])):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(sys.argv[1])
    for _ in range(300):
        sock.send(frame)
    if number % 8:
        sock.shutdown(socket.SHUT_WR)
    held.append(sock)
print(json.dumps(len(held) * 300), flush=True)
sys.stdin.readline()
number, poll = 0, select.poll()
poll.register(sys.stdin, select.POLLIN)
for sock in held:
    sock.setblocking(False)
    poll.register(sock, select.POLLIN)
by_fd = {sock.fileno(): sock for sock in held}
while sys.stdin.fileno() not in (ready := [fd for fd, _ in poll.poll()]):
    for fd in ready:
        try:
            while by_fd[fd].recv(65536):
                number += 1
            poll.unregister(fd)
        except BlockingIOError:
            pass
        except OSError:
            poll.unregister(fd)
print(json.dumps(number), flush=True)
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

    def test_order_in_a_container(self):
        """What is mounted has nothing that takes an order."""
        found, said = self.container(ASK, DRAIN, "/run/meshverbs").read()
        self.assertEqual(found, ["/run/meshverbs/agent", "/run/meshverbs/directory"])
        self.assertEqual(said, {path: "" for path in found})
        self.assertEqual(self.drained(), [False, False, False])
        self.assert_alice_reaches_v()
        self.assertEqual(json.loads(self.v.request(json.loads(DRAIN)))["drained"], True)
        self.assertEqual(self.drained(), [True, False, False])

    def test_order_by_mistake(self):
        """With the other directory mounted as well it is nobody all the same, and the log names it."""
        self.process(self.v, "mlx5_0", 4711)
        both = {"/run/meshverbs": self.v.run_dir, "/run/meshverbsd": self.v.control_dir}
        for number, kwargs in enumerate(({}, {"host_pid": True})):
            self.v.stop()
            self.v.start()  # it names somebody once a minute
            self.process(self.v, "mlx5_0", 4711)
            with self.subTest(**kwargs):
                asker = self.container(ASK, DRAIN, "/run/meshverbsd", mounts=both, **kwargs)
                _, said = asker.read()
                self.assertIn("only root and the user of the agent may drain", said["/run/meshverbsd/control"])
                self.assertEqual(self.drained(), [False, False, False])
                self.assertIn(f"user 0, process {asker.pid} in a container may not drain mlx5_0", self.v.text())
                self.assertEqual(self.v.text().count("may not drain"), number + 1)
                _, said = self.container(ASK, '{"do": "key-forget", "host": "alice"}', "/run/meshverbsd", mounts=both, **kwargs).read()
                self.assertIn("only root and the user of the agent may change keys", said["/run/meshverbsd/control"])
                _, said = self.container(ASK, '{"get": "qps"}', "/run/meshverbsd", mounts=both, **kwargs).read()
                self.assertEqual(json.loads(said["/run/meshverbsd/control"])["qps"], [])
        self.assertEqual([qp["qpn"] for qp in json.loads(self.v.ask("qps"))["qps"]], [4711])

    def test_order_in_a_user_namespace(self):
        """Root of a user namespace, even with the files of the host."""
        with subprocess.Popen(["unshare", "--user", "--map-root-user", "/usr/bin/python3", "-c", ASK, DRAIN, self.v.control_dir],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asker:
            _, said = json.loads(asker.stdout.readline())
            self.assertIn("only root and the user of the agent may drain", said[f"{self.v.control_dir}/control"])
            self.assertIn(f"user 0, process {asker.pid} in a container may not drain mlx5_0", self.v.text())
            asker.stdin.close()
        self.assertEqual(self.drained(), [False, False, False])

    def test_connections_of_a_container(self):
        """User 0 of a container has a share like anybody."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        flood = self.container(FLOOD, "/run/meshverbs/agent", "1500")
        flood.read()
        wait_for(lambda: self.v.metrics()["process_refusals"] > 300, self.v.metrics)
        self.assertLessEqual(self.v.metrics()["processes"], 1024)
        self.assertIn(f"user 0, process {flood.pid} in a container has 1024 connections and is refused a further one", self.v.text())
        self.assert_alice_reaches_v()
        flood.close()
        wait_for(lambda: self.v.metrics()["processes"] == 0, "all are forgotten")
        # Root of the host may have more.
        with subprocess.Popen(["/usr/bin/python3", "-c", FLOOD, str(self.v.run_dir / "agent"), "1100"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as root:
            root.stdout.readline()
            wait_for(lambda: self.v.metrics()["processes"] == 1100, self.v.metrics)
            root.stdin.close()

    def test_unread_frames(self):
        """Nor does it use up memory by what it does not read: 400 sockets, each filled to the brim, hold 64 MiB together at most; those
        that it has ended, but not closed, count."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        filler = self.container(FILL, "/run/meshverbs/agent", wire.frame(wire.REGISTER, payload=b"x", version=wire.CTL_VERSION).hex(), 400)
        sent = filler.read()
        self.assertGreater(sent, 10000)
        self.assert_alice_reaches_v()
        wait_for(lambda: self.v.metrics()["frames_received"] >= sent, self.v.metrics)
        self.assertGreater(self.v.metrics()["processes_unread_bytes"], 32 << 20)
        self.assertLess(self.v.metrics()["processes_unread_bytes"], 80 << 20)
        for line in ("read\n", "count\n"):
            filler.parent.stdin.write(line)
            filler.parent.stdin.flush()
            wait_for(lambda: self.v.metrics()["processes_unread_bytes"] == 0, self.v.metrics)
        # Of a small frame the kernel keeps some 768 bytes.
        self.assertLess(filler.read(), (80 << 20) // 512)
        self.assert_alice_reaches_v()

    def test_old_directories(self):
        """Whoever has one open keeps it in memory: they do not become many by what a neighbour says."""
        mallory, holder = self.mallory(), self.container(HOLD, "/run/meshverbs/directory", 4)
        number, size, seconds = self.under_fire(lambda number: self.invent(mallory, number), holder.read)
        self.assertLessEqual(number, 32 + 2 * seconds + 2)
        self.assertLess(size, 16 << 20)
        self.assert_alice_reaches_v()

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
