#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs drain and undrain with checked traffic on two simulated hosts with two NICs each. Needs root; SIM_BUILD is the
build."""
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import CLIENT, SERVER  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from nicmatrix.world import need  # noqa: E402

STACK = contextlib.ExitStack()
PLACES = {}  # hosts by survive: bringing them up takes most of the time


def tearDownModule():
    STACK.close()


class Drained(Watched):
    survive = True
    ops = "send,send_imm,write,write_imm,private,read"
    movable = (True,)  # what is said of them before

    @classmethod
    def setUpClass(cls):
        if cls.survive not in PLACES:
            PLACES[cls.survive] = cls.up()
        cls.hosts = PLACES[cls.survive]

    @classmethod
    def up(cls):
        stage = STACK.enter_context(hosts.staged(BUILD))
        conf = pathlib.Path(stage, "etc/libibverbs.d/mesh/mesh.conf")
        words = "survive = on\nhold_down_ms = 500\n" if cls.survive else "survive = off\n"
        conf.write_text(conf.read_text().replace("survive = on\n", words))
        return STACK.enter_context(hosts.Hosts.up(BUILD, stage, "drain-on" if cls.survive else "drain-off"))

    def setUp(self):
        # chaos-traffic takes mlx5_0; few operations, so that a busy machine keeps up.
        self.programs = self.hosts.both(TRAFFIC, ["-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-s", "1", "-o", self.ops])
        self.addCleanup(self.kill)
        self.wait_for("the agents know all queue pairs", lambda: self.known(self.movable))

    def states(self, host, about):
        status, said = self.tool(host, "peers", "--json")
        self.assertIn(status, (0, 1), said)
        return {rail["device"]: rail["state"] for rail in json.loads(said)["rails"] if rail["host"] == about}


class Moves(Drained):
    def test_drain_and_undrain(self):
        status, said = self.tool(SERVER, "drain", "mlx5_0", "--json")
        self.assertEqual(status, 0, f"{said}\n{self.story()}")
        self.assertEqual(json.loads(said), {"device": "mlx5_0", "drained": True, "safe": True, "timed_out": False, "qps": []})
        self.assertEqual(self.used(SERVER), {"mlx5_1"})
        self.wait_for("the other host's are off it", lambda: self.used(CLIENT) == {"mlx5_1"})
        self.assertEqual(self.states(CLIENT, SERVER), {"mlx5_0": "drained", "mlx5_1": "up"})
        self.assertEqual(self.states(SERVER, SERVER), {"mlx5_0": "drained", "mlx5_1": "up"})

        status, said = self.tool(SERVER, "drain", "mlx5_1")
        self.assertEqual(status, 2, said)
        self.assertIn("mlx5_1 has the last port that is up", said)

        status, said = self.tool(SERVER, "undrain", "mlx5_0")
        self.assertEqual(status, 0, said)
        self.wait_for("they return", lambda: self.used(SERVER) == self.used(CLIENT) == {"mlx5_0"})
        self.assertEqual(self.states(SERVER, SERVER), {"mlx5_0": "up", "mlx5_1": "up"})
        self.end()


# User 0 in a container, without a capability: the agent's directory, and by mistake the other one, mounted read-only. It asks every
# socket to drain mlx5_0, locks every file that it can open, and holds on.
CONTAINER = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec",
             "for name in $PLACES; do mount --bind /run/$name /run/$name && mount -o remount,bind,ro /run/$name; done; "
             'exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "$@"', "sh", "/usr/bin/python3", "-c", """
import fcntl, json, os, socket, sys
held = []
for place in os.environ["PLACES"].split():
    for name in sorted(os.listdir(f"/run/{place}")):
        path = f"/run/{place}/{name}"
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as sock:
                try:
                    sock.settimeout(60)
                    sock.connect(path)
                    sock.sendall(b'{"do": "drain", "device": "mlx5_0", "force": true}\\n')
                    print(path, sock.recv(4096), flush=True)
                except OSError:
                    pass
        if place == "meshverbs":
            try:
                held.append(os.open(path, os.O_RDONLY))
                fcntl.flock(held[-1], fcntl.LOCK_EX)
            except OSError:
                pass
print("held", flush=True)
sys.stdin.read()
""")


class Containers(Drained):
    """What user 0 of a container tries is nothing to the traffic of others, nor does the agent have to fear it."""

    def test_nothing_is_drained(self):
        with subprocess.Popen(self.hosts.world.argv(SERVER, "env", "-u", "LD_PRELOAD", "PLACES=meshverbs meshverbsd", *CONTAINER),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attacker:
            said = list(iter(attacker.stdout.readline, "held\n"))
            self.assertTrue(any("only root and the user of the agent may drain" in line for line in said), said)
            self.hosts.agent_restart(SERVER)
            self.wait_for("the agents know all queue pairs", lambda: self.known(self.movable))
            self.assertEqual(self.states(CLIENT, SERVER), {"mlx5_0": "up", "mlx5_1": "up"})
            self.assertEqual([self.used(host) for host in ENDS], [{"mlx5_0"}, {"mlx5_0"}])
            attacker.stdin.close()
        self.assertRegex(self.hosts.world.agent_log(SERVER), r"user 0, process \d+ in a container may not drain mlx5_0")
        self.end()


class Standby(Drained):
    """Those that wait for the next move are connected to each other, at both ends, before there is a reason for one, and after it again."""

    def setUp(self):
        self.before = {host: self.connected(host) for host in ENDS}
        super().setUp()

    def connected(self, host):
        return int(re.search(r'^meshverbs_armed_total{what="connection"} (\d+)$', self.metrics(host), re.MULTILINE).group(1))

    def since(self):
        return {self.connected(host) - self.before[host] for host in ENDS}

    def test_connected(self):
        self.wait_for("they are connected", lambda: min(self.since()) >= N_QPS)
        self.assertEqual(self.tool(SERVER, "drain", "mlx5_0")[0], 0)
        self.assertEqual(self.tool(SERVER, "undrain", "mlx5_0")[0], 0)
        self.wait_for("they return", lambda: self.used(SERVER) == self.used(CLIENT) == {"mlx5_0"})
        self.wait_for("others are connected", lambda: min(self.since()) >= 2 * N_QPS)
        self.end()


class Atomics(Moves):
    """Those that are outstanding are let finish: no result of one is lost, though each is on its way for a while."""
    ops = "send,add,swap"

    def setUp(self):
        for port in ("a.0", "b.0", "a.1", "b.1"):
            self.hosts.fault(port, "delay us=5000 dir=rx class=response")
            self.addCleanup(self.hosts.fault, port, "clear")
        super().setUp()


class Stays(Drained):
    """What would lose something is named, and left alone."""
    survive = False
    movable = (False,)
    why = "survive = off when it was made"

    def test_names_what_stays(self):
        status, said = self.tool(SERVER, "drain", "mlx5_0", "--json")
        self.assertEqual(status, 1, said)
        left = json.loads(said)
        self.assertEqual((left["safe"], left["timed_out"], len(left["qps"])), (False, False, N_QPS))
        pid = {qp["pid"] for qp in self.qps(SERVER)}
        for qp in left["qps"]:
            self.assertEqual((qp["comm"], qp["device"], qp["movable"], qp["why"]),
                             ("chaos-traffic", "mlx5_0", False, self.why))
        self.assertEqual({qp["pid"] for qp in left["qps"]}, pid)
        self.assertEqual(self.used(SERVER) | self.used(CLIENT), {"mlx5_0"})
        self.assertEqual(self.tool(SERVER, "undrain", "mlx5_0")[0], 0)
        self.end()


del Drained  # is none by itself

if __name__ == "__main__":
    need("ip", "tc", "bridge")
    unittest.main()
