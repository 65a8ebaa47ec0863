#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The lab tested: real boots, real links, and that nothing is left behind.  Needs root; exits 77 without.

Labs made here live under a LAB_DIR of their own, beside any others.
"""
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
LAB = str(HERE / "lab")
BOOT_S = 300  # for a machine with much other work
WAIT_S = 60.0  # for what has to happen in a guest that is up
ODD = """
host a
host b
nic a 0 10.1.0.1/24 fd00::1/64
nic b 0 10.1.0.2/24 fd00::2/64
nic a 3 10.3.0.1/24
nic a 1
vlan a 0 100 10.9.0.1/24
vlan b 0 100 10.9.0.2/24
nic b 1
switch l0 a.0 b.0
cable uplink a.1 b.1
"""
# Ends, as SIGKILL would end it, between the first QEMU's start and anything that comes after it.
DIES_WHEN_QEMU_RUNS = """
import os, subprocess, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from rdmalab import Lab
class Popen(subprocess.Popen):
    def __init__(self, argv, *args, **kw):
        super().__init__(argv, *args, **kw)
        if argv[0].startswith("qemu"):
            os._exit(9)
subprocess.Popen = Popen
Lab.up("pair", name="killed")
"""


def lab(*args, timeout=BOOT_S, **kw):
    """Run the lab command; returns the CompletedProcess."""
    return subprocess.run([LAB, *args], capture_output=True, text=True, timeout=timeout, **kw)


def qemus():
    """Command lines of QEMU processes of this test's labs."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if text.startswith(b"qemu") and os.environ["LAB_DIR"].encode() in text:
            found.append(text)
    return found


def leftovers():
    found = [p.name for p in pathlib.Path(os.environ["LAB_DIR"]).glob("*") if p.name != ".lock"]
    return found + [q[:60] for q in qemus()]


def eventually(condition, timeout=WAIT_S):
    """Whether condition() becomes true in time."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Pair(unittest.TestCase):
    """One pair, up for all these tests."""

    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="lab-selftest."))
        for name in ("overlay/usr/bin", "overlay/etc", "share"):
            (cls.dir / name).mkdir(parents=True)
        tool = cls.dir / "overlay/usr/bin/lab-selftest-tool"
        tool.write_text("#!/bin/sh\necho from the overlay\n")
        tool.chmod(0o755)
        (cls.dir / "overlay/etc/os-release").write_text("NAME=overlaid\n")
        cls.lab = Lab.up("pair", name="first", overlays=[cls.dir / "overlay"], shares=[cls.dir / "share"],
                         timeout=BOOT_S)

    @classmethod
    def tearDownClass(cls):
        cls.lab.down()
        shutil.rmtree(cls.dir)

    def check(self, host, command, **kw):
        """Output of a command that must succeed."""
        done = self.lab.run(host, command, **kw)
        self.assertEqual(done.rc, 0, done.out)
        return done.out

    def test_devices(self):
        for host, number in (("a", 1), ("b", 2)):
            for index in (0, 1):
                out = self.check(host, f"ibv_devinfo -v -d rxe{index}")
                for text in ("PORT_ACTIVE", "active_mtu:\t\t4096", f"::ffff:10.{index + 1}.0.{number}, RoCE v2"):
                    self.assertIn(text, out)

    def test_hostname_and_names(self):
        self.assertEqual(self.check("b", "hostname").strip(), "b")
        out = self.check("a", "getent hosts a b a-l0 b-l1")
        self.assertEqual(dict(reversed(line.split()) for line in out.splitlines()),
                         {"a": "192.0.2.1", "b": "192.0.2.2", "a-l0": "10.1.0.1", "b-l1": "10.2.0.2"})

    def test_pingpong_on_both_links(self):
        for index in (0, 1):
            command = f"ibv_rc_pingpong -d rxe{index} -g 1 -n 50 -c -p 1900{index}"
            server = self.lab.start("b", command)
            done = self.lab.run("a", f"while ! {command} b; do sleep 0.5; done")  # until the server listens
            self.assertEqual(done.rc, 0, done.out)
            self.assertIn("409600 bytes in", done.out)
            self.assertEqual(server.wait(WAIT_S).rc, 0)

    def test_unprivileged_user_has_verbs(self):
        self.assertIn("hca_id:\trxe0", self.check("a", "su nobody -s /bin/sh -c 'ibv_devinfo -d rxe0'"))

    def test_rdma_cm_shm_tmp_clock(self):
        own = [f"{folder}/lab-selftest-{os.getpid()}" for folder in ("/dev/shm", "/tmp")]
        self.check("a", f"test -c /dev/infiniband/rdma_cm && echo x >{own[0]} && echo x >{own[1]} && ls -A /run/lab")
        self.assertFalse(any(pathlib.Path(file).exists() for file in own))
        self.assertLess(abs(int(self.check("a", "date +%s")) - time.time()), 120)
        self.check("a", "cat <(echo process substitution)")

    def test_modules_load_on_demand(self):
        self.check("b", "nft add table inet t && tc qdisc replace dev eth1 root netem delay 1ms && "
                        "tc qdisc del dev eth1 root && ip link add br0 type bridge && ip link del br0")

    def test_no_way_out(self):
        self.assertNotIn("default", self.check("a", "ip route; ip -6 route"))

    def test_overlay(self):
        self.assertEqual(self.check("a", "lab-selftest-tool"), "from the overlay\n")
        self.assertEqual(self.check("b", "cat /etc/os-release"), "NAME=overlaid\n")
        self.check("a", "echo changed >/etc/os-release")  # stays in the guest
        self.assertEqual((self.dir / "overlay/etc/os-release").read_text(), "NAME=overlaid\n")
        self.assertNotIn("overlaid", pathlib.Path("/etc/os-release").read_text())

    def test_share(self):
        (self.dir / "share/from-host").write_text("later than the boot")
        out = self.check("a", f"cat {self.dir}/share/from-host; echo hello >{self.dir}/share/from-a")
        self.assertEqual(out, "later than the boot")
        self.assertEqual((self.dir / "share/from-a").read_text(), "hello\n")
        self.assertEqual(self.check("b", f"cat {self.dir}/share/from-a"), "hello\n")

    def test_link_off_and_on_are_seen(self):
        watch = self.lab.start("a", "ip monitor link dev eth1 & exec ibv_asyncwatch -d rxe1")
        watch.wait_output("async event FD")
        time.sleep(0.5)  # for ip monitor, which says nothing when it is ready
        self.lab.link("a.1", False)
        watch.wait_output("IBV_EVENT_PORT_ERR", 20)
        watch.wait_output("NO-CARRIER", 20)
        self.assertIn("DOWN", self.check("a", "rdma link show rxe1/1"))
        self.assertIn("ACTIVE", self.check("b", "rdma link show rxe1/1"))  # a's port only
        self.assertIn("carrier off", lab("status", "-n", "first").stdout)
        self.lab.link("a.1", True)
        watch.wait_output("IBV_EVENT_PORT_ACTIVE", 20)
        watch.kill()
        self.lab.link("l1", False)
        for host in "ab":
            self.assertTrue(eventually(lambda h=host: "DOWN" in self.check(h, "rdma link show rxe1/1")), host)
        self.lab.link("l1", True)
        for host in "ab":
            self.assertTrue(eventually(lambda h=host: "ACTIVE" in self.check(h, "rdma link show rxe1/1")), host)
        self.assertNotIn("carrier off", lab("status", "-n", "first").stdout)

    def test_pause(self):
        ticks = self.lab.start("b", "while :; do echo tick; sleep 0.05; done")
        ticks.wait_output("tick")
        self.lab.pause("b")
        time.sleep(0.3)  # what was under way
        self.assertIn("paused", lab("status", "-n", "first").stdout)
        before = len(ticks.text())
        time.sleep(1)
        self.assertEqual(len(ticks.text()), before)
        self.lab.resume("b")
        self.assertTrue(eventually(lambda: len(ticks.text()) > before))
        ticks.kill()
        self.assertTrue(eventually(lambda: ticks.poll() is not None))

    def test_run_command(self):
        done = lab("run", "-n", "first", "a", "--", "sh", "-c", "echo one two; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, "one two\n"))
        done = lab("run", "-n", "first", "all", "hostname; [ $(hostname) = a ]")
        self.assertEqual((done.returncode, sorted(done.stdout.splitlines())), (1, ["a| a", "b| b"]))
        done = lab("run", "-n", "first", "--timeout", "5", "a", "echo x; sleep 777")
        self.assertEqual((done.returncode, done.stdout), (124, "x\n"))
        self.assertTrue(eventually(lambda: self.lab.run("a", "pgrep -x -f 'sleep 777'").rc == 1))
        done = lab("run", "-n", "first", "zz", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no host 'zz' in lab 'first'; it has: a b", done.stderr)

    def test_run_output_is_live_and_interrupt_kills(self):
        with subprocess.Popen([LAB, "run", "-n", "first", "a", "echo early; sleep 888"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as run:
            self.assertEqual(run.stdout.readline(), b"early\n")
            run.send_signal(signal.SIGINT)
            self.assertEqual(run.wait(WAIT_S), 130)
        self.assertTrue(eventually(lambda: self.lab.run("a", "pgrep -x -f 'sleep 888'").rc == 1))

    def test_console(self):
        with subprocess.Popen([LAB, "console", "-n", "first", "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as console:
            def read_until(text):
                out = b""
                while text not in out:
                    ready, _, _ = select.select([console.stdout], [], [], 20)
                    self.assertTrue(ready, f"no {text} from the console, only {out}")
                    out += os.read(console.stdout.fileno(), 4096)

            def write(text):
                console.stdin.write(text)
                console.stdin.flush()

            try:
                write(b"\r")
                read_until(b"#")
                write(b"echo $((6 * 7))-$(hostname)\r")
                read_until(b"42-a")
                write(b"exit\r\x1d")
                self.assertEqual(console.wait(WAIT_S), 0)
            finally:
                console.kill()

    def test_name_clash(self):
        done = lab("up", "pair", "--name", "first")
        self.assertEqual(done.returncode, 1)
        self.assertIn("lab 'first' exists already", done.stderr)
        self.check("a", "true")

    def test_side_by_side(self):
        """A second lab with the same addresses: a lone guest facing a namespace, odd NICs, then a dead one."""
        topology = self.dir / "odd.topo"
        topology.write_text(ODD)
        netns = f"lab-selftest-{os.getpid()}"
        subprocess.run(["ip", "netns", "add", netns], check=True)
        try:
            done = lab("up", str(topology), "--only", "a", "--tap", f"a.0={netns}:tap0")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(lab("list").stdout.split()[::len(lab("list").stdout.splitlines()[0].split())][0], "first")
            self.assertIn("several labs are up (first odd)", lab("run", "a", "true").stderr)
            self.odd_nics(netns)
            self.dead_lab(topology)
        finally:
            lab("down", "-n", "odd")
            subprocess.run(["ip", "netns", "del", netns], check=True)
        self.assertEqual(lab("list").stdout.split()[0], "first")
        self.check("b", "true")

    def odd_nics(self, netns):
        second = Lab.attach("odd")
        out = second.run("a", "rdma link; ip -br link; ip -br addr; cat /etc/hosts").out
        self.assertIn("rxe0/1 state ACTIVE", out)
        self.assertIn("rxe3/1 state DOWN", out)  # not cabled
        # A VLAN made after its device's first carrier event keeps operstate UNKNOWN: ask for carrier, not for operstate.
        self.assertRegex(out, r"eth0.100@eth0 .*<[^>]*\bLOWER_UP\b")
        self.assertRegex(out, r"eth0.100@eth0 +\w+ +10.9.0.1/24")
        self.assertIn("fd00::1/64", out)
        self.assertIn("10.9.0.2 b-l0.100", out)
        self.assertIn("a.3 is in no cable or switch", lab("link", "-n", "odd", "a.3", "on").stderr)
        # Nobody is at b.1 here; in lab "first" a host of that name answers with a refusal.
        connect = "timeout {} bash -c '</dev/tcp/10.1.0.2/9'"
        self.assertEqual(self.lab.run("a", connect.format(50)).rc, 1)
        self.assertEqual(second.run("a", connect.format(3)).rc, 124)
        # The namespace takes the place of b on the tap, with the MAC that a's fixed neighbour entry has.
        mac = second.topo.nic("b.0").mac
        for command in (f"link set tap0 address {mac}", "addr add 10.1.0.2/24 dev tap0", "link set lo up"):
            subprocess.run(["ip", "-n", netns, *command.split()], check=True)
        self.assertEqual(second.run("a", connect.format(50)).rc, 1)

    def dead_lab(self, topology):
        second = Lab.attach("odd")
        os.kill(int(second.host("a").ident().split()[0]), signal.SIGKILL)
        self.assertTrue(eventually(lambda: not second.host("a").alive()))
        done = lab("run", "-n", "odd", "a", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("guest a is dead", done.stderr)
        self.assertRegex(lab("list").stdout, r"odd +dead")
        done = lab("up", str(topology), "--name", "odd", "--mem", "32")  # a dead lab's name is free
        self.assertIn("did not come up", done.stderr)
        self.assertNotIn("odd", lab("list").stdout)


class Failures(unittest.TestCase):
    """Each ends with a clear message and leaves nothing."""

    def setUp(self):
        self.before = leftovers()

    def tearDown(self):
        self.assertEqual(leftovers(), self.before)

    def fails(self, words, *args):
        done = lab(*args)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_topology(self):
        with tempfile.NamedTemporaryFile("w", suffix=".topo") as file:
            file.write("host a\nnic a 0 10.1.0.1/24\ncable x a.0 b.0\n")
            file.flush()
            self.fails([f"{file.name}:3: unknown host 'b'"], "up", file.name)

    def test_arguments(self):
        self.fails(["no topology file 'nosuch'", "pair"], "up", "nosuch")
        self.fails(["hosts:NxM"], "up", "hosts:0x2")
        self.fails(["--overlay /nosuch: no such directory"], "up", "pair", "--overlay", "/nosuch")
        self.fails(["bad --tap 'a.0'"], "up", "pair", "--tap", "a.0")
        self.fails(["no network namespace 'nosuch'"], "up", "pair", "--tap", "a.0=nosuch:t")
        self.fails(["bad lab name '../x'"], "up", "pair", "--name", "../x")
        self.fails(["--only c", "a b"], "up", "pair", "--only", "c")
        self.fails(["no lab 'nosuch'"], "status", "-n", "nosuch")
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "lib").mkdir()
            self.fails(["has /lib", "prefix /usr"], "up", "pair", "--overlay", directory)

    def test_too_little_memory(self):
        # Which of the two is seen to be gone first is chance.
        self.fails(["did not come up", "its QEMU is gone", "32 MB of memory"], "up", "pair", "--mem", "32")

    def test_interrupt(self):
        for sig, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with subprocess.Popen([LAB, "up", "pair", "--name", "broken"], stderr=subprocess.DEVNULL) as up:
                self.assertTrue(eventually(lambda: len(qemus()) >= 2))
                up.send_signal(sig)
                self.assertEqual(up.wait(WAIT_S), status)
            self.assertEqual(leftovers(), self.before)

    def test_killed_up(self):
        with subprocess.Popen([LAB, "up", "pair", "--name", "killed"], stderr=subprocess.DEVNULL) as up:
            self.assertTrue(eventually(lambda: qemus()))
            up.kill()
        self.assertIn("killed", lab("list").stdout)
        self.assertEqual(lab("down", "-n", "killed").returncode, 0)

    def test_killed_as_qemu_starts(self):
        done = subprocess.run([sys.executable, "-c", DIES_WHEN_QEMU_RUNS, str(HERE)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 9, done.stderr)
        self.assertEqual(lab("down", "-n", "killed").returncode, 0)


class OneGuest(unittest.TestCase):
    def test_hosts(self):
        with Lab.up("hosts:2x2", name="one", timeout=BOOT_S) as one:
            server = one.start("h2", "ibv_rc_pingpong -d h2rxe1 -g 1 -n 50 -c -e")
            done = one.run("h1", "while ! ibv_rc_pingpong -d h1rxe1 -g 1 -n 50 -c -e h2; do sleep 0.5; done")
            self.assertEqual((done.rc, server.wait(WAIT_S).rc), (0, 0), done.out + server.text())
            sent = one.run("h1", "cat /sys/class/net/h1eth1/statistics/tx_packets").out
            self.assertGreater(int(sent), 100, "the traffic did not use the cable")
            one.link("h1.1", False)
            out = one.run("h1", "rdma link").out
            self.assertRegex(out, "h1rxe1/1 state DOWN")
            self.assertRegex(out, "h2rxe1/1 state ACTIVE")
            one.link("l1", True)
            self.assertNotIn("DOWN", one.run("h1", "rdma link").out)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("lab-selftest: skipped: needs root (guests read the host's root file system)")
        sys.exit(77)
    os.environ["LAB_DIR"] = f"/run/meshverbs-lab-selftest.{os.getpid()}"
    from rdmalab import Lab
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        program = unittest.main(verbosity=2, exit=False)
        left = leftovers()
    finally:
        lab("down", "--all")
        shutil.rmtree(os.environ["LAB_DIR"], ignore_errors=True)
    if left:
        print(f"lab-selftest: left behind: {left}")
    sys.exit(0 if program.result.wasSuccessful() and not left else 1)
