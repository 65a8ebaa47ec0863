#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a verbs program sees of links, addresses and faults: daemon and HCA together, unmodified programs.

Needs root, ibverbs-utils and python3-pyverbs; exits 77 without.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from test_hosts import WithHosts, act, enter, prepare, sim, until

SECONDS = 60  # until a program is ended; what it is run for takes milliseconds
HOLD_QP = """
import sys
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.qp import QP, QPCap, QPInitAttr, QPAttr
from pyverbs.addr import AHAttr, GlobalRoute, GID
from pyverbs import enums as e
ctx = Context(name="mlx5_0")
pd, cq = PD(ctx), CQ(ctx, 4)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(1, 1, 1, 1)))
attr = QPAttr(qp_state=e.IBV_QPS_INIT, cur_qp_state=e.IBV_QPS_RESET)
attr.port_num = 1
qp.to_init(attr)
gr = GlobalRoute(dgid=GID("0000:0000:0000:0000:0000:ffff:0a01:0001"), sgid_index=int(sys.argv[1]))
attr.ah_attr = AHAttr(gr=gr, is_global=1, port_num=1)
attr.dest_qp_num, attr.path_mtu, attr.max_dest_rd_atomic, attr.min_rnr_timer = 0x40, e.IBV_MTU_1024, 1, 12
qp.to_rtr(attr)
print(qp.qp_num, flush=True)
sys.stdin.readline()
"""


# Five messages of 8 MiB over UC: says its QPN, is told the peer's and to begin, by lines.
FLOOD = """
import os, sys
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.cq import CQ
from pyverbs.mr import MR
from pyverbs.qp import QP, QPCap, QPInitAttr, QPAttr
from pyverbs.wr import SGE, SendWR, RecvWR
from pyverbs.addr import AHAttr, GlobalRoute, GID
from pyverbs import enums as e
role, peer = sys.argv[1:]
ctx = Context(name="mlx5_0")
pd, cq = PD(ctx), CQ(ctx, 16)
mr = MR(pd, 8 << 20, e.IBV_ACCESS_LOCAL_WRITE)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UC, scq=cq, rcq=cq, cap=QPCap(8, 8, 1, 1)))
attr = QPAttr(port_num=1)
qp.to_init(attr)
print(qp.qp_num, os.getpid(), flush=True)
gr = GlobalRoute(dgid=GID("0000:0000:0000:0000:0000:ffff:" + peer), sgid_index=3)
attr.ah_attr = AHAttr(gr=gr, is_global=1, port_num=1)
attr.dest_qp_num, attr.path_mtu, attr.rq_psn, attr.sq_psn = int(sys.stdin.readline()), e.IBV_MTU_4096, 7, 7
qp.to_rts(attr)
sge = [SGE(mr.buf, 8 << 20, mr.lkey)]
if role == "server":
    for n in range(5):
        qp.post_recv(RecvWR(wr_id=n, num_sge=1, sg=sge))
print("ready", flush=True)
sys.stdin.readline()
if role == "client":
    for n in range(5):
        qp.post_send(SendWR(wr_id=n, num_sge=1, sg=sge, opcode=e.IBV_WR_SEND, send_flags=e.IBV_SEND_SIGNALED))
done = []
while len(done) < 5:
    done += [w.status for w in cq.poll(5)[1]]
print(done, flush=True)
"""


# Milliseconds from a request that comes in to its acknowledgement, by the kernel's stamps: when programs run does not matter.
ANSWERS = """
import socket, struct
SO_TIMESTAMPNS, ACK = 35, 0x11
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sock.bind(("eth0", 0))
sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
print("listening", flush=True)
came = {}
while True:
    frame, extra, _, address = sock.recvmsg(256, 256)
    if frame[12:14] != bytes([8, 0]) or frame[36:38] != struct.pack("!H", 4791):
        continue
    seconds, ns = struct.unpack("qq", extra[0][2][:16])
    now, opcode, psn = seconds * 1000 + ns / 1e6, frame[42], frame[51:54]
    if address[2] != socket.PACKET_OUTGOING and opcode != ACK:
        came.setdefault(psn, now)
    elif address[2] == socket.PACKET_OUTGOING and opcode == ACK and psn in came:
        print(now - came.pop(psn), flush=True)
"""


INFINIBAND = """host a
host b
nic a 0 10.1.0.1/24
nic b 0 10.1.0.2/24
port a 0 link_layer=infiniband lid=7
port b 0 link_layer=infiniband
cable ab a.0 b.0
"""


class WithPrograms(WithHosts):
    def start(self, host, *argv, **kwargs):
        return subprocess.Popen(enter(self.name, host, *argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                **kwargs)

    def fault(self, port, *words):
        return sim("fault", "-n", self.name, port, *words).stdout.strip()

    def pingpong(self, *options, tool="ibv_rc_pingpong", check=True):
        """(server's output, client's output) of one run from a to b."""
        argv = ["timeout", str(SECONDS), tool, "-d", "mlx5_0", *options]
        with self.start("b", *argv) as server:
            self.assertIsNotNone(self.listening("b", 18515), "server does not listen")
            done = sim("exec", "-n", self.name, "a", "--", *argv, "b", check=check)
            if not check:
                server.terminate()
            return server.stdout.read(), done.stdout + done.stderr


class Verbs(WithPrograms):
    def test_pingpong_over_each_kind_of_gid(self):
        for index in ("1", "3"):  # link-local and IPv4, both RoCE v2
            server, client = self.pingpong("-g", index, "-n", "200")
            self.assertIn("200 iters", client)
            self.assertIn("200 iters", server)

    def test_pingpong_with_events_and_datagrams(self):
        self.assertIn("100 iters", self.pingpong("-g", "3", "-n", "100", "-e")[1])
        self.assertIn("100 iters", self.pingpong("-g", "3", "-n", "100", tool="ibv_ud_pingpong")[1])

    def test_asynchronous_events(self):
        with self.start("a", "timeout", "--preserve-status", str(SECONDS), "stdbuf", "-oL", "ibv_asyncwatch", "-d", "mlx5_0") as watch:
            self.assertIn("async event FD", watch.stdout.readline())
            for action, events in (
                    (["link", "-n", self.name, "a.0", "off"], ["PORT_ERR"]),
                    (["link", "-n", self.name, "a.0", "on"], ["PORT_ACTIVE"]),
                    (["addr", "-n", self.name, "add", "a.0", "10.8.0.1/24"], ["GID_CHANGE"] * 2),
                    (["addr", "-n", self.name, "del", "a.0", "10.8.0.1/24"], ["GID_CHANGE"] * 2),
                    (["fault", "-n", self.name, "a.0", "event", "sm-change"], ["SM_CHANGE"])):
                sim(*action)
                seen = [re.search(r"IBV_EVENT_(\w+)", watch.stdout.readline())[1] for _ in events]
                self.assertEqual(seen, events)
            watch.terminate()

    def test_port_attributes_follow_the_link(self):
        self.assertIn("PORT_ACTIVE", self.run_in("a", "ibv_devinfo", "-d", "mlx5_0"))
        act("link", "-n", self.name, "a.0", "off")
        self.assertIsNotNone(until(lambda: "PORT_DOWN" in self.run_in("a", "ibv_devinfo", "-d", "mlx5_0")))
        act("link", "-n", self.name, "a.0", "on")
        self.assertIsNotNone(until(lambda: "PORT_ACTIVE" in self.run_in("a", "ibv_devinfo", "-d", "mlx5_0")))

    def test_a_flap_under_a_queue_pair_moves_the_index_for_good(self):
        with self.start("b", "/usr/bin/python3", "-c", HOLD_QP, "3", stdin=subprocess.PIPE) as holder:
            self.assertTrue(holder.stdout.readline().strip().isdigit(), "no QP")
            act("addr", "-n", self.name, "del", "b.0", "10.1.0.2/24")
            self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") is None))
            act("addr", "-n", self.name, "add", "b.0", "10.1.0.2/24")
            self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") is not None))
            self.assertNotEqual(self.index_of("b", "mlx5_0", "0a01:0002"), 3)
            self.assertEqual(self.index_of("b", "mlx5_0", "0a01:0002", "IB/RoCE v1"), 2)
            holder.stdin.write("\n")
            holder.stdin.close()
            holder.wait(SECONDS)
        # With the queue pair gone, the slot is free again: the next newcomer gets it.
        act("addr", "-n", self.name, "del", "b.0", "10.1.0.2/24")
        act("addr", "-n", self.name, "add", "b.0", "10.1.0.2/24")
        self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") == 3))

    def test_a_killed_program_leaves_no_reference(self):
        with self.start("b", "/usr/bin/python3", "-c", HOLD_QP, "3", stdin=subprocess.PIPE) as holder:
            self.assertTrue(holder.stdout.readline().strip().isdigit(), "no QP")
            holder.kill()
            holder.wait(SECONDS)
        act("addr", "-n", self.name, "del", "b.0", "10.1.0.2/24")
        act("addr", "-n", self.name, "add", "b.0", "10.1.0.2/24")
        self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") == 3))

    def test_one_packet_lost_is_repeated(self):
        for words in (("drop", "nth=20", "class=request"), ("drop", "nth=20", "class=ack"),
                      ("corrupt", "nth=20", "class=request"), ("duplicate", "class=request", "limit=50")):
            rule = self.fault("a.0", *words)
            self.assertIn("300 iters", self.pingpong("-g", "3", "-n", "300")[1])
            self.assertRegex(self.fault("a.0", "list"), r"hits=[1-9]", f"{words}: {rule} never hit")
            self.fault("a.0", "clear")

    def test_a_late_receiver_loses_no_datagrams(self):
        """A wire has flow control; here is a deep buffer: 40 MiB, while the receiving process stands still."""
        def ask(end, text):
            end.stdin.write(f"{text}\n")
            end.stdin.flush()
            return end.stdout.readline().split()

        with self.start("b", "/usr/bin/python3", "-c", FLOOD, "server", "0a01:0001", stdin=subprocess.PIPE) as server, \
                self.start("a", "/usr/bin/python3", "-c", FLOOD, "client", "0a01:0002", stdin=subprocess.PIPE) as client:
            try:
                (server_qpn, server_pid), (client_qpn, _) = server.stdout.readline().split(), client.stdout.readline().split()
                self.assertEqual((ask(server, client_qpn), ask(client, server_qpn)), (["ready"], ["ready"]))
                os.kill(int(server_pid), signal.SIGSTOP)
                self.assertEqual(ask(client, ""), ["[0,", "0,", "0,", "0,", "0]"])
                os.kill(int(server_pid), signal.SIGCONT)
                watchdog = threading.Timer(SECONDS, server.kill)
                watchdog.start()
                self.assertEqual(ask(server, ""), ["[0,", "0,", "0,", "0,", "0]"])
                watchdog.cancel()
            finally:
                for end in (server, client):
                    end.kill()

    def test_one_direction_lost_fails_the_queue_pair(self):
        self.fault("a.0", "drop", "dir=tx")
        try:
            _, client = self.pingpong("-g", "3", "-n", "50", check=False)
        finally:
            self.fault("a.0", "clear")
        self.assertRegex(client, "transport retry counter exceeded|Failed status")
        self.assertIn("50 iters", self.pingpong("-g", "3", "-n", "50")[1])

    def test_delay_is_felt(self):
        def usec():
            return float(re.search(r"([\d.]+) usec/iter", self.pingpong("-g", "3", "-n", "50", "-s", "64")[1])[1])
        self.fault("a.0", "delay", "us=5000", "class=request")
        try:
            slow = usec()
        finally:
            self.fault("a.0", "clear")
        self.assertGreaterEqual(slow, 5000)

    def test_what_was_delayed_is_answered_at_once(self):
        """
        Not at the next look at the doorbells, which is up to 2 ms away where nothing else has happened for that long. The least time
        says so. On a busy machine that may take more than one try.
        """
        self.fault("b.0", "delay", "us=100000", "dir=rx", "class=request")
        try:
            for _ in range(10):
                with self.start("b", sys.executable, "-c", ANSWERS) as watch:
                    watch.stdout.readline()
                    self.pingpong("-g", "3", "-n", "10")
                    watch.terminate()
                    times = [float(line) for line in watch.stdout]
                self.assertGreater(len(times), 5)
                self.assertGreater(min(times), 100)
                if min(times) < 101:
                    return
        finally:
            self.fault("b.0", "clear")
        self.fail(f"the last ten took {times} ms")

    def test_counters_reach_sysfs(self):
        path = "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_packets"
        before = int(self.cat("a", path))
        self.pingpong("-g", "3", "-n", "100")
        self.assertIsNotNone(until(lambda: int(self.cat("a", path)) >= before + 100))

    def test_dead_hca(self):
        with self.start("b", "timeout", "--preserve-status", str(SECONDS), "stdbuf", "-oL", "ibv_asyncwatch", "-d", "mlx5_0") as watch:
            watch.stdout.readline()
            self.fault("b.0", "dead")
            self.assertIn("DEVICE_FATAL", watch.stdout.readline())
            watch.terminate()
        self.fault("b.0", "alive")
        self.assertIn("50 iters", self.pingpong("-g", "3", "-n", "50")[1])

    def test_reset_hca(self):
        """Who had it open hears of it, and gets nothing more of it; who opens it then finds it well."""
        with self.start("b", "timeout", "--preserve-status", str(SECONDS), "stdbuf", "-oL", "ibv_asyncwatch", "-d", "mlx5_0") as watch:
            watch.stdout.readline()
            self.fault("b.0", "reset")
            self.assertIn("DEVICE_FATAL", watch.stdout.readline())
            watch.terminate()
        self.assertIn("50 iters", self.pingpong("-g", "3", "-n", "50")[1])

    def test_many_flaps_in_traffic(self):
        """The daemon keeps up: whatever happened, state and table end as they began."""
        before = {g for g in self.gids("a", "mlx5_0").values() if not g[0].startswith("fd01")}
        stop = threading.Event()

        def traffic():
            while not stop.is_set():
                self.pingpong("-g", "3", "-n", "50", check=False)
        thread = threading.Thread(target=traffic)
        thread.start()
        for _ in range(15):
            act("link", "-n", self.name, "lan", "off")
            act("link", "-n", self.name, "lan", "on")
            time.sleep(0.02)
        stop.set()
        thread.join()
        self.assertIsNotNone(until(lambda: {g for g in self.gids("a", "mlx5_0").values() if not g[0].startswith("fd01")} == before))
        self.assertIn("50 iters", self.pingpong("-g", "3", "-n", "50")[1])


class InfiniBand(WithPrograms):
    text = INFINIBAND

    def test_pingpong_by_lid(self):
        for tool in ("ibv_rc_pingpong", "ibv_ud_pingpong"):
            said, client = self.pingpong("-n", "100", tool=tool)
            self.assertIn("100 iters", client)
            self.assertRegex(client, r"local address: +LID 0x0007, .*GID ::\s")
            self.assertRegex(said, r"local address: +LID 0x0001, .*GID ::\s")

    def test_link_state(self):
        self.assertIn("PORT_ACTIVE", self.run_in("a", "ibv_devinfo"))
        act("link", "-n", self.name, "ab", "off")
        self.assertIsNotNone(until(lambda: self.cat("a", "/sys/class/infiniband/mlx5_0/ports/1/phys_state") == "2: Polling"))
        self.assertIn("PORT_DOWN", self.run_in("a", "ibv_devinfo"))
        act("link", "-n", self.name, "ab", "on")
        self.assertIsNotNone(until(lambda: "PORT_ACTIVE" in self.run_in("a", "ibv_devinfo")))


if __name__ == "__main__":
    needed = [tool for tool in ("ibv_rc_pingpong", "ibv_asyncwatch", "stdbuf", "ss") if not shutil.which(tool)]
    prepare()
    if needed or subprocess.run(["/usr/bin/python3", "-c", "import pyverbs.qp"], capture_output=True, check=False).returncode:
        print(f"skipped: missing {' '.join(needed) or 'python3-pyverbs'}")
        sys.exit(77)
    del WithHosts, WithPrograms  # their tests are those of their subclasses
    unittest.main()
