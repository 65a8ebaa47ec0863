# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Attacks on a running agent by local processes."""

import itertools
import json
import os
import pathlib
import random
import resource
import socket
import subprocess
import sys
import time

import attacknet
import wire
from attackcase import ALICE, AttackTest, GROUP, V, main
from attacknet import Process, link_local, wait_for


class ProcessTest(AttackTest):
    """From processes of the same host."""

    def setUp(self):
        super().setUp()
        self.with_alice()

    def test_message_in_the_name_of_anothers_qp(self):
        ours = self.process(self.alice, "mlx5_0", ALICE[1])
        victim = self.process(self.v, "mlx5_0", V[1])
        thief = self.process(self.v, "mlx5_0", V[1] + 1)
        for sender in (V, ("10.0.1.1", 99), ("10.0.1.2", ALICE[1]), ("10.0.2.1", V[1] + 1)):
            thief.send(ALICE[0], wire.message(sender, ALICE))
        wait_for(lambda: self.v.metrics()["messages_forged"] == 4, self.v.metrics)
        self.assertIsNone(ours.receive(timeout=0.5))
        victim.send(ALICE[0], wire.message(V, ALICE))
        self.assertEqual(ours.receive(), wire.message(V, ALICE))

    def test_registration_of_anothers_qp(self):
        victim = self.process(self.v, "mlx5_0", V[1])
        thief = self.process(self.v)
        thief.register("mlx5_0", V[1])
        thief.sock.send(wire.frame(wire.UNREGISTER_QP, device="mlx5_0", qpn=V[1]))
        wait_for(lambda: self.v.metrics()["registrations_refused"] == 1, self.v.metrics)
        hers = self.process(self.alice, "mlx5_0", ALICE[1])
        hers.send(V[0], wire.message(ALICE, V))
        self.assertEqual(victim.receive(), wire.message(ALICE, V))
        self.assertIsNone(thief.receive(timeout=0.3))
        # It is free when its owner is gone.
        victim.close()
        wait_for(lambda: self.v.metrics()["registered_qps"] == 0, "the registration ends with its process")
        thief.register("mlx5_0", V[1])
        wait_for(lambda: self.v.metrics()["registered_qps"] == 1, "the registration")

    def test_registration_that_nobody_confirms(self):
        """Where the kernel cannot say whose a queue pair is, nobody has it, and everybody is told."""
        agent = self.agent("mallory", [("m0", "10.0.2.2/24", 1, 1)], trusts=False)
        process = self.process(agent)
        process.register("mlx5_0", 17)
        self.assertEqual(process.refused(), ("mlx5_0", 17))
        self.assertEqual(agent.metrics()["registered_qps"], 0)
        self.assertRegex(agent.text(), rf"user {os.getuid()}, process {os.getpid()} .attack. may not register QP 17 of mlx5_0: "
                         "the kernel does not say whose")
        process.send("10.0.2.1", wire.message(("10.0.2.2", 17), ("10.0.2.1", 33)))
        wait_for(lambda: agent.metrics()["messages_forged"] == 1, agent.metrics)

    def test_frames_that_cannot_be(self):
        bystander = self.process(self.v, "mlx5_0", V[1])
        good = wire.frame(wire.REGISTER_QP, device="mlx5_0", qpn=5)
        cases = [b"", b"\0", good[:-1], good + b"x", b"\xff" * 26, good[:25], b"A" * 641, b"A" * 65536,
                 wire.frame(wire.SEND, dgid="10.0.1.2", payload=b"A" * 513),
                 wire.frame(wire.REGISTER_QP, device="a" * 200, qpn=5), wire.frame(wire.REGISTER_QP, device="a\nb", qpn=5),
                 wire.frame(wire.DELIVER, device="mlx5_0", qpn=5, payload=b"x"), wire.frame(wire.WELCOME)]
        for case in cases:
            evil = Process(self.v)
            evil.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            evil.sock.send(case)
            self.assertTrue(evil.closed(), case[:40])
            evil.close()
        # Nothing but REGISTER may come first.
        evil = Process(self.v, register=False)
        evil.sock.send(good)
        self.assertTrue(evil.closed())
        evil.close()
        seed = int(os.environ.get("MESHVERBS_SEED", time.time_ns()))
        print(f"MESHVERBS_SEED={seed}")
        dice = random.Random(seed)
        for _ in range(300):
            evil = Process(self.v)
            raw = bytearray(wire.frame(wire.SEND, dgid="10.0.1.2", payload=wire.message(V, ALICE)))
            for _ in range(dice.randrange(1, 20)):
                raw[dice.randrange(len(raw))] = dice.randrange(256)
            evil.sock.send(bytes(raw[:dice.randrange(len(raw) + 1)]))
            evil.close()
        hers = self.process(self.alice, "mlx5_0", ALICE[1])
        hers.send(V[0], wire.message(ALICE, V))
        self.assertEqual(bystander.receive(), wire.message(ALICE, V))

    def test_slow_reader(self):
        """One that never reads loses its own messages, and costs the agent nothing."""
        slow = self.process(self.v, "mlx5_0", 1000)
        stranger = self.stranger()
        before = self.v.rss_kib()
        lost = self.v.metrics()["messages_undelivered"]
        numbers = itertools.count(1)

        def has_lost_some():
            """The most that a socket may hold is the kernel's to say."""
            for number in itertools.islice(numbers, 200):
                message = wire.message(("10.0.2.2", 5), ("10.0.1.1", 1000), attempt=number)
                stranger.say("10.0.2.1", wire.MESSAGE, wire.envelope(message, number))
            return self.v.metrics()["messages_undelivered"] > lost + 1000

        wait_for(has_lost_some, self.v.metrics)
        self.assertLess(self.v.rss_kib() - before, 16 * 1024)
        self.assert_alice_reaches_v()
        self.assertIsNotNone(slow.receive())

    def test_silent_sender(self):
        """Control connections that ask nothing, or half a question, take no place for ever."""
        held = []
        for number in range(60):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(str(self.v.control_dir / "control"))
            held.append(sock)
            if number % 2:
                try:
                    sock.send(b"{\"get\": \"")
                except OSError:
                    pass
        self.addCleanup(lambda: [sock.close() for sock in held])
        wait_for(lambda: self.answers(), "a place becomes free")
        # The agent has hung up, or does when their turn has come.
        for sock in held:
            sock.settimeout(attacknet.WAIT_S)
            try:
                self.assertEqual(sock.recv(1), b"")
            except ConnectionError:
                pass

    def answers(self):
        try:
            return bool(self.v.metrics())
        except OSError:
            return False

    def test_long_answers(self):
        """Registrations with the costliest status texts, and reports of them that nobody reads: bounded in size and number."""
        process, begun = self.process(self.v), self.v.cpu_seconds()
        process.sock.settimeout(60)
        status = b'{"a":[' + b",".join([b"1"] * 230) + b"]}"
        number = 36000
        for qpn in range(100000, 100000 + number):
            process.register("mlx5_0", qpn)
            process.sock.send(wire.frame(wire.STATUS, device="mlx5_0", qpn=qpn, payload=status))
        for qpn, text in enumerate((b"{'a':1}", b'{"a":-01}'), 100001):  # what json-c takes for JSON
            process.sock.send(wire.frame(wire.STATUS, device="mlx5_0", qpn=qpn, payload=text))
        no_objects = (b"{", b"[1]", b'{"a":1} x', b'{"a":1', b"", b'{"a":' * 20 + b"1" + b"}" * 20, b'{"a":NaN}', b'{"a":1.}')
        for text in no_objects:
            process.sock.send(wire.frame(wire.STATUS, device="mlx5_0", qpn=100000, payload=text))
        # The agent counts these last frames after it has taken all frames before them.
        wait_for(lambda: self.v.metrics()["frames_malformed"] == len(no_objects), self.v.metrics)
        before, cpu = self.v.rss_kib(), self.v.cpu_seconds()
        answer = json.loads(self.v.ask("qps"))
        self.assertEqual(len(answer["qps"]) + answer["qps_left_out"], number)
        self.assertGreater(len(answer["qps"]), 10000)
        self.assertEqual(answer["qps"][0]["status"]["a"][229], 1)
        self.assertEqual([qp["status"].get("a") for qp in answer["qps"][1:3]], [1, -1])
        self.assertLess(self.v.cpu_seconds() - cpu, cpu - begun)  # less than what these texts cost when they came
        held = []
        for _ in range(20):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.addCleanup(sock.close)
            sock.connect(str(self.v.control_dir / "control"))
            sock.sendall(b'{"get": "qps"}\n')
            held.append(sock)
        wait_for(lambda: self.v.metrics()["registered_qps"] == number, "short answers are to be had")
        self.assertIn("busy", self.v.ask("qps"))
        self.assertLess(self.v.rss_kib() - before, 256 * 1024)
        self.assert_alice_reaches_v()

    FLOOD = """
import os, resource, socket, sys, time
os.setgid(12345); os.setgroups([]); os.setuid(12345)
held = []
for _ in range(60000):  # most are in vain while the agent's backlog is full
    if len(held) == int(sys.argv[2]):
        break
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    try:
        sock.connect(sys.argv[1])
        held.append(sock)
    except BlockingIOError:
        time.sleep(0.001)
print(len(held), flush=True)
sys.stdin.read()
"""

    def test_connection_flood_of_another_user(self):
        if pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1":
            self.skipTest("needs more than one user")
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        floods = [subprocess.Popen([sys.executable, "-c", self.FLOOD, str(self.v.run_dir / "agent"), "900"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        try:
            for flood in floods:
                self.assertGreater(int(flood.stdout.readline()), 100)
            wait_for(lambda: self.v.metrics()["process_refusals"] > 0, self.v.metrics)
            self.assertLessEqual(self.v.metrics()["processes"], 1024)
            self.assert_alice_reaches_v()
        finally:
            for flood in floods:
                flood.stdin.close()
                flood.wait(attacknet.WAIT_S)
                flood.stdout.close()
        wait_for(lambda: self.v.metrics()["processes"] == 0, "all are forgotten")


    def test_log_flood(self):
        """A user has his connections closed without end, each with a line of the log; those that matter are in it all the same."""
        begun, n = time.monotonic(), 2000
        for _ in range(n):
            process = Process(self.v, register=False)
            process.sock.send(b"\xff" * 30)
            self.assertTrue(process.closed())
            process.close()
        lines = [line for line in self.v.text().splitlines() if "closed: " in line]
        self.assertGreater(len(lines), 10)
        self.assertLessEqual(len(lines), 64 + time.monotonic() - begun + 1)

        def says():
            process = Process(self.v, register=False)
            process.sock.send(b"\xff" * 30)
            process.closed()
            process.close()
            return " more like it)" in self.v.text()

        wait_for(says, "the log tells what it lacks")

    def take_port(self):
        """Of agents, as any user can where no agent has it."""
        for family, any_address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            with attacknet.inside("v"), socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                sock.bind((any_address, wire.PORT))

    def test_port_while_the_agent_starts_again(self):
        """The service manager has it, and what came meanwhile is not taken for a change."""
        self.v.stop()
        self.take_port()  # nobody keeps it
        self.v.manager = attacknet.Manager(os.environ["IN_NETNS"])
        self.addCleanup(self.v.manager.close)
        self.v.start()
        wait_for(lambda: self.v.manager.read() == {"udp4", "udp6"}, "two sockets")
        self.v.process.kill()
        self.v.process.wait()
        with self.assertRaises(OSError):
            self.take_port()
        self.mallory().send(link_local(1, 1), GROUP, self.beacon(wire.rail("mlx5_0", "m0", ["10.0.2.2"]), interval_ms=60000))
        for _ in range(2):  # and once more
            self.v.start()
            wait_for(lambda: self.v.metrics()["directory_writes"] and self.v.directory().holders("10.0.1.2"), "alice is heard")
            self.assertFalse(self.v.directory().holders("10.0.2.2"))
            self.assert_alice_reaches_v()
            self.v.stop()
        with self.assertRaises(OSError):
            self.take_port()

    HOG = """
import os, socket, sys
os.setgid(12345); os.setgroups([]); os.setuid(12345)
held = []
for _ in range(300):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(sys.argv[1])
    sock.send(bytes.fromhex(sys.argv[2]))
    sock.setblocking(False)
    held.append(sock)
print(flush=True)
while True:
    for sock in held:
        try:
            while True:
                sock.send(bytes.fromhex(sys.argv[3]))
        except BlockingIOError:
            pass
"""

    def test_hundreds_of_busy_connections(self):
        """A user who keeps the agent at work by hundreds of connections does so to himself."""
        if pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1":
            self.skipTest("needs more than one user")
        status = wire.frame(wire.STATUS, device="mlx5_0", qpn=1, payload=json.dumps({"reason": "x" * 330}).encode())
        hog = subprocess.Popen([sys.executable, "-c", self.HOG, str(self.v.run_dir / "agent"),
                                wire.frame(wire.REGISTER, payload=b"hog", version=wire.CTL_VERSION).hex(), (20 * status).hex()],
                               stdout=subprocess.PIPE, text=True)
        try:
            hog.stdout.readline()
            wait_for(lambda: self.v.metrics()["frames_received"] > 2000, self.v.metrics)
            frames = lambda: self.v.metrics()["frames_received"]

            def hog_had(before):
                """How many frames of the hog's are taken while another process is welcomed."""
                self.process(self.v).close()
                return frames() - before

            # Without fair turns it is more than a round each time: MD_FRAMES_PER_TURN of each connection. Else a few hundred are, and
            # more only where this test waits for a processor.
            wait_for(lambda: hog_had(frames()) < 300 * 64 / 2, self.v.metrics)
            self.assert_alice_reaches_v()
            self.assertIsNone(hog.poll())
        finally:
            hog.kill()
            hog.wait()
            hog.stdout.close()

    LINGER = """
import array, os, socket, struct, sys, threading
os.setgid(12345); os.setgroups([]); os.setuid(12345)

def connect():
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(sys.argv[1])
    return sock

def lingering():
    listener = socket.create_server(("127.0.0.1", 0))
    sock = socket.create_connection(listener.getsockname())
    peer = listener.accept()[0]
    sock.setblocking(False)
    try:
        while True:
            sock.send(bytes(65536))
    except BlockingIOError:
        pass
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 86400))
    return sock, peer

def send(sock, fd):
    sock.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])

held = []
for number in range(int(sys.argv[2])):
    unread, peer = lingering()
    sock = connect()
    held += [sock, peer]
    try:
        send(sock, unread.fileno())
    except OSError:
        pass
    threading.Thread(target=unread.close).start()  # it may be the last one that has it
print(len(held), flush=True)
sys.stdin.read()
os._exit(0)
"""

    def test_descriptors_that_linger(self):
        """To close what he sends would take a day; who connects after him is heard nevertheless."""
        if pathlib.Path("/proc/self/uid_map").read_text().split()[2] == "1":
            self.skipTest("needs more than one user")
        linger = subprocess.Popen(["ip", "netns", "exec", "v", sys.executable, "-c", self.LINGER, str(self.v.run_dir / "agent"), "100"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertGreater(int(linger.stdout.readline()), 100)
            wait_for(lambda: self.v.metrics()["processes"] == 0, self.v.metrics)
            self.assert_alice_reaches_v()
            self.assertIsNone(linger.poll())
        finally:
            linger.stdin.close()
            linger.wait(attacknet.WAIT_S)
            linger.stdout.close()


if __name__ == "__main__":
    main()
