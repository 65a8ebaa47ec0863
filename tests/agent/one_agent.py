# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One agent: start, stop, arguments, files, its control socket."""
import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import unittest.mock

import agentcase
import hosts
from agentcase import AgentTest
from hosts import WAIT_S, wait_for


class Alone(AgentTest):
    def run_agent(self, host, *args):
        return subprocess.run(["ip", "netns", "exec", host.netns, *hosts.AS_NOBODY, f"{agentcase.BUILD}/meshverbsd/meshverbsd", *map(str, args)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT_S, check=False)

    def test_two_agents(self):
        a, _ = self.pair()
        a.start()
        again = self.run_agent(a, "--run-dir", a.run_dir, "--config", a.conf, "--sysfs", a.sysfs)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"another agent runs in {a.run_dir}: {a.control_dir}/lock is held by process {a.agent.pid} of user {hosts.NOBODY}",
                      again.stdout)
        other = self.run_agent(a, "--run-dir", a.dir / "other", "--config", a.conf, "--sysfs", a.sysfs)
        self.assertEqual(other.returncode, 1)
        self.assertIn("UDP port 28791: Address already in use", other.stdout)
        self.assertTrue(a.get("status"))

    def test_upgrade(self):
        """What agents of before kept beside the directory of peers comes along, and goes; one that runs is not disturbed."""
        a, _ = self.pair()
        for name, text in (("drained", "mlx5_0\n"), ("start", "1893456000000000000\n"), ("lock", "")):
            (a.run_dir / name).write_text(text)
            os.chown(a.run_dir / name, hosts.NOBODY, hosts.NOBODY)
        with socket.socket(socket.AF_UNIX) as old:
            old.bind(str(a.run_dir / "control"))
            os.chown(a.run_dir / "control", hosts.NOBODY, hosts.NOBODY)
            old.listen()
            again = self.run_agent(a, "--run-dir", a.run_dir, "--config", "/dev/null", "--sysfs", a.sysfs)
            self.assertEqual(again.returncode, 1)
            self.assertIn("of an older version: end it first", again.stdout)
            self.assertTrue((a.run_dir / "drained").exists())
        with open(a.run_dir / "lock", "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            a.start()
        self.assertIn(f"is held by process {os.getpid()} of user {os.getuid()}, which is none: ignored", a.log.read_text())
        self.assertEqual(sorted(path.name for path in a.run_dir.iterdir()), ["agent", "directory"])
        self.assertEqual([rail["drained"] for rail in a.get("status")["rails"]], [True])
        self.assertEqual((a.control_dir / "start").read_text(), "1893456000000000001\n")

    def test_directories(self):
        a = self.world.host("a")
        common = ("--config", "/dev/null", "--sysfs", a.sysfs)
        for control in (a.run_dir, a.run_dir / "control", a.run_dir / "x/.."):
            (a.run_dir / "x").mkdir(exist_ok=True)
            done = self.run_agent(a, "--run-dir", a.run_dir, "--control-dir", control, *common)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{control} must not be {a.run_dir} or in it", done.stdout)
        self.assertEqual(self.run_agent(a, "--run-dir", "/", *common).returncode, 1)

    def test_watchdog(self):
        """Once it is ready the event loop says that it comes round; one that is stopped does not."""
        a = self.world.host("a")
        path = a.dir / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(path))
            path.chmod(0o666)
            notify.settimeout(WAIT_S)
            with unittest.mock.patch.dict(os.environ, {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "400000"}):
                a.start()
            self.assertEqual([notify.recv(100) for _ in range(6)],
                         [b"FDSTORE=1\nFDNAME=udp%d\nFDPOLL=0" % family for family in (6, 4)] + [b"READY=1"] + 3 * [b"WATCHDOG=1"])
            a.halt()
            notify.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    notify.recv(100)
            time.sleep(1)
            self.assertRaises(BlockingIOError, notify.recv, 100)
            a.agent.send_signal(signal.SIGCONT)
            notify.settimeout(WAIT_S)
            self.assertEqual(notify.recv(100), b"WATCHDOG=1")

    def test_arguments(self):
        a = self.world.host("a")
        for args, status, text in ((["--help"], 0, "usage:"), (["--version"], 0, "meshverbsd "), (["--port", "0"], 2, "port"),
                                   (["--port", "65536"], 2, "port"), (["--nonsense"], 2, "usage:"), (["x"], 2, "'x'")):
            done = self.run_agent(a, *args)
            self.assertEqual(done.returncode, status, args)
            self.assertIn(text, done.stdout)

    def test_config_that_is_named_has_to_be_there(self):
        a = self.world.host("a")
        done = self.run_agent(a, "--config", a.dir / "no.conf", "--run-dir", a.run_dir, "--sysfs", a.sysfs)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{a.dir}/no.conf: No such file or directory", done.stdout)
        self.assertFalse((a.run_dir / "agent").exists())
        # The one of the installation may be missing: somebody may have removed it.
        missing = "/etc/libibverbs.d/mesh/mesh.conf"
        if not os.path.exists(missing):
            a.start(config=False)
            self.assertTrue(a.get("status"))

    def test_config_errors_are_named(self):
        a, _ = self.pair()
        a.settings["beacon_interval_ms"] = "often"
        a.start()
        self.assertIn(f"{a.conf}:2: bad value 'often'", a.log.read_text())
        a.stop()
        (a.dir / "hosts").write_text("\nb ten\n")
        a.start()
        self.assertIn(f"{a.dir}/hosts:2: ", a.log.read_text())

    def test_no_devices(self):
        a = self.world.host("a")
        a.start()
        self.assertEqual(a.get("status")["rails"], [])
        self.assertEqual(a.stop(), 0)
        self.assertEqual([path.name for path in a.run_dir.iterdir()], ["directory"])
        self.assertEqual(sorted(path.name for path in a.control_dir.iterdir()), ["lock", "start"])

    def test_run_dir_of_others(self):
        a = self.world.host("a")
        a.run_dir.chmod(0o777)
        a.start(wait=False)
        self.assertEqual(a.agent.wait(timeout=WAIT_S), 1)
        a.agent = None
        self.assertIn("Operation not permitted", a.log.read_text())

    def test_control(self):
        a, _ = self.pair()
        a.start()
        self.assertIn("error", a.ask("nonsense"))
        self.assertIn("error", a.ask('{"get": "secrets"}'))
        with contextlib.suppress(ConnectionError):
            self.assertEqual(a.ask("x" * 8000), "")
        text = a.get("openmetrics")
        self.assertTrue(text.endswith("# EOF\n"))
        self.assertRegex(text, r"(?m)^meshverbs_beacons_sent_total \d+$")
        self.assertRegex(text, r'(?m)^meshverbs_datagrams_rejected_total\{reason="replay"\} 0$')
        self.assertEqual(text.count("# TYPE meshverbs_datagrams_rejected counter"), 1)
        # Counters that have another name by now.
        for name, former in (("connections_negotiated", "connections_held"), ("flushed_errors", "surfaced_errors"),
                             ('armed{what="qp"}', 'made_ahead{what="qp"}'), ("arm_failed", "made_ahead_failed")):
            for line in (name, former):
                with self.subTest(line):
                    metric, brace, label = line.partition("{")
                    self.assertEqual(text.count(f"\nmeshverbs_{metric}_total{brace}{label} 0\n"), 1)
                    self.assertEqual(text.count(f"# TYPE meshverbs_{metric} counter\n"), 1)

    def test_one_user_leaves_control_connections_to_others(self):
        a, _ = self.pair()
        a.start()
        code = ("import socket, sys\nheld = []\nfor _ in range(40):\n s = socket.socket(socket.AF_UNIX)\n s.connect(sys.argv[1])\n"
                " held.append(s)\nprint(len(held), flush=True)\nsys.stdin.read()")
        hold = lambda user: subprocess.Popen([*hosts.as_user(user), sys.executable, "-c", code, str(a.control_dir / "control")],
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with hold(12345) as greedy:
            self.assertEqual(greedy.stdout.readline(), "40\n")
            wait_for("32 are refused", lambda: a.metric("control_refusals") == 32)
            # Another one gets as many.
            with hold(12346) as other:
                self.assertEqual(other.stdout.readline(), "40\n")
                wait_for("64 are refused", lambda: a.metric("control_refusals") == 64)
                other.stdin.close()
            greedy.stdin.close()
        self.assertEqual(a.log.read_text().count("control connections and is refused"), 1)
        self.assertRegex(a.log.read_text(), r"user 12345, process \d+ has 8 control connections and is refused a further one")
