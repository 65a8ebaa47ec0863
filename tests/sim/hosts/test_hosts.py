#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts as the launcher makes them: what programs see, what events change, and that nothing is left.

Needs root; exits 77 without.  Uses simulations of its own names only.
"""
import atexit
import contextlib
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REPO = pathlib.Path(__file__).resolve().parents[3]
SIM = str(REPO / "sim/sim")
sys.path += [str(REPO / "sim"), str(REPO / "tests/topo")]
from launcher import cli, lifecycle, runtime  # noqa: E402
PREFIX = f"t{os.getpid()}"
INSIDE = ("addr", "cm", "fault", "link", "plug", "script", "status")  # commands that start no process of their own
WAIT_S, UP_S = 60.0, 300.0  # for what has to happen; for hosts that come up
TOPOLOGY = """host a
host b
nic a 0 10.1.0.1/24 fd01::1/64
nic a 1
vlan a 0 7 10.7.0.1/24
nic b 0 10.1.0.2/24
vlan b 0 7 10.7.0.2/24
nic b 1 10.2.0.2/24
port b 1 link_layer=infiniband rate=200
pci b 1 0000:17:00.0
switch lan a.0 b.0
"""


def inside(*args):
    """What the command does, in this process: most take less time than an interpreter to start."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = cli.main(list(args))
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(args, status, out.getvalue(), err.getvalue())


def sim(*args, check=True, **kwargs):
    if args[0] in INSIDE and not kwargs:
        done = inside(*args)
    else:
        done = subprocess.run([SIM, *args], text=True, capture_output=True, check=False, timeout=UP_S, **kwargs)
    if check and done.returncode:
        raise AssertionError(f"sim {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def act(*words):
    """The same of a command that works and says nothing, in this process: most take less time than an interpreter to start."""
    cli.run(list(words))


def enter(name, host, *argv):
    """What `sim exec` executes."""
    return lifecycle.command(runtime.Sim(name), host, argv)


def traces(name):
    """Everything a simulation of that name can leave on the machine."""
    netns = [p.name for p in pathlib.Path("/run/netns").glob(f"msim-{name}*")]
    run = [p.name for p in pathlib.Path("/run/meshsim").glob(f"*{name}*")]
    daemons = [p.parent.name for p in pathlib.Path("/proc").glob("[0-9]*/cmdline")
               if f"/run/meshsim/{name}/" in read(p)]
    mounts = [line for line in read("/proc/mounts").splitlines() if f"meshsim/{name}/" in line]
    return netns + run + daemons + mounts


def tidy(everything=False):
    """Take away what tests left that were killed; with everything, what this one has up, too."""
    for path in pathlib.Path("/run/meshsim").glob("t*-*"):
        owner = re.match(r"t(\d+)-", path.name)
        if owner and (not pathlib.Path("/proc", owner[1]).exists() or everything and int(owner[1]) == os.getpid()):
            sim("down", path.name, check=False)


def prepare():
    """To be called first by a program that runs these tests."""
    if os.geteuid() != 0:
        print("skipped: namespaces need root")
        sys.exit(77)
    tidy()
    atexit.register(tidy, everything=True)
    signal.signal(signal.SIGTERM, lambda number, frame: (tidy(everything=True), os._exit(128 + number)))


def read(path):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def until(condition, seconds=WAIT_S):
    """Seconds until condition() was true, None if it never was."""
    start, nap = time.monotonic(), 0.001
    while time.monotonic() - start < seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(nap)
        nap = min(1.2 * nap, 0.02)
    return None


class WithHosts(unittest.TestCase):
    """One simulation for all tests of a class."""
    text = TOPOLOGY

    @classmethod
    def setUpClass(cls):
        cls.name = f"{PREFIX}-{cls.__name__.lower()}"
        cls.tmp = tempfile.mkdtemp()
        cls.topology = f"{cls.tmp}/two.topo"
        pathlib.Path(cls.topology).write_text(cls.text)
        sim("up", "-n", cls.name, cls.topology)

    @classmethod
    def tearDownClass(cls):
        sim("down", cls.name)
        shutil.rmtree(cls.tmp)
        left = traces(cls.name)
        assert not left, left

    def run_in(self, host, *argv, check=True):
        done = subprocess.run(enter(self.name, host, *argv), text=True, capture_output=True, check=False, timeout=UP_S)
        if check and done.returncode:
            raise AssertionError(f"{argv} in {host}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def listening(self, host, port, seconds=WAIT_S):
        return until(lambda: runtime.Sim(self.name).listening(host, port), seconds)

    def cat(self, host, *paths):
        return self.run_in(host, "cat", *paths)

    def gids(self, host, dev):
        """{index: (GID, type, netdev)} of the entries that are not empty."""
        port = runtime.Sim(self.name).root(host) / f"sys/class/infiniband/{dev}/ports/1"
        found = {}
        for file in (port / "gids").iterdir():
            gid = read(file).strip()
            if gid.strip("0:"):
                netdev = read(port / "gid_attrs/ndevs" / file.name).strip() or "-"
                found[int(file.name)] = (gid, read(port / "gid_attrs/types" / file.name).strip(), netdev)
        return found

    def index_of(self, host, dev, tail, kind="RoCE v2", netdev="eth0"):
        """None: no entry. A table that changes while its files are read shows an entry twice, or not at all; the first is read again."""
        hits = []

        def single():
            hits[:] = [i for i, (g, k, n) in self.gids(host, dev).items() if g.endswith(tail) and (k, n) == (kind, netdev)]
            return len(hits) <= 1
        self.assertIsNotNone(until(single), f"{tail} stays at {hits}")
        return hits[0] if hits else None


class Sysfs(WithHosts):
    def test_device_by_its_absolute_path(self):
        base = "/sys/class/infiniband/mlx5_0"
        self.assertEqual(
            self.cat("a", f"{base}/node_type", f"{base}/node_guid", f"{base}/ports/1/state", f"{base}/ports/1/phys_state",
                     f"{base}/ports/1/rate", f"{base}/ports/1/link_layer", f"{base}/ports/1/pkeys/0",
                     f"{base}/device/vendor", f"{base}/device/class").splitlines(),
            ["1: CA", "026d:7603:0000:0100", "4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)", "Ethernet", "0xffff",
             "0x15b3", "0x020000"])

    def test_netdev_and_device_are_on_one_pci_function(self):
        places = self.run_in("b", "readlink", "-f", "/sys/class/net/eth1/device", "/sys/class/infiniband/mlx5_1/device",
                             "/sys/class/infiniband_verbs/uverbs1/device", "/sys/bus/pci/devices/0000:17:00.0").split()
        self.assertEqual(len(set(places)), 1)
        self.assertTrue(places[0].endswith("/0000:17:00.0"))
        self.assertEqual(self.cat("b", "/sys/class/net/eth0/address"), "02:6d:76:00:02:00")
        self.assertEqual(self.run_in("b", "ls", "/sys/class/net/eth1/device/infiniband"), "mlx5_1")
        self.assertEqual(self.run_in("b", "ls", "/sys/class/net/eth1/device/net"), "eth1")
        self.assertEqual(self.cat("b", "/sys/class/net/eth1/speed"), "200000")

    def test_uverbs(self):
        self.assertEqual(self.cat("b", "/sys/class/infiniband_verbs/uverbs1/ibdev", "/sys/class/infiniband_verbs/uverbs1/dev",
                                  "/sys/class/infiniband_verbs/abi_version").split(), ["mlx5_1", "231:193", "6"])
        self.assertEqual(self.run_in("b", "stat", "-c", "%F %t:%T %a", "/dev/infiniband/uverbs1"),
                         "character special file e7:c1 666")

    def test_devices_are_listed_in_order(self):
        for name, devices in (("infiniband", ["mlx5_0", "mlx5_1"]), ("infiniband_verbs", ["uverbs0", "uverbs1"])):
            listed = self.run_in("a", "ls", "-U", f"/sys/class/{name}").split()
            self.assertEqual([entry for entry in listed if entry in devices], devices)

    def test_the_rest_of_sys_and_dev_is_there(self):
        self.run_in("a", "test", "-d", "/sys/devices/system/cpu/cpu0")
        self.run_in("a", "test", "-e", "/sys/class/net/lo/mtu")
        self.assertEqual(self.run_in("a", "ls", "/sys/class/net").split(), ["eth0", "eth0.7", "eth1", "lo", "mgmt0"])
        self.run_in("a", "sh", "-c", "echo x >/dev/null && head -c1 /dev/urandom >/dev/null && test -w /dev/shm")

    def test_hosts_do_not_see_each_other(self):
        self.assertEqual(self.run_in("a", "hostname"), "a")
        self.run_in("a", "touch", "/dev/shm/mine")
        self.assertEqual(self.run_in("b", "ls", "/dev/shm"), "")
        boot = "/proc/sys/kernel/random/boot_id"
        self.assertEqual(len({self.cat("a", boot), self.cat("b", boot), read(boot).strip()}), 3)

    def test_the_machine_sees_nothing_of_it(self):
        self.assertFalse(os.path.exists("/sys/class/infiniband/mlx5_0/ports/1/gids/255.sim"))
        self.assertFalse(pathlib.Path("/sys/.simhostd").exists())
        self.assertNotIn("a-lan", read("/etc/hosts"))

    def test_names(self):
        self.assertEqual(self.run_in("b", "getent", "ahostsv4", "a-lan").split()[0], "10.1.0.1")
        self.assertEqual(self.run_in("b", "getent", "ahostsv4", "a").split()[0], "192.0.2.1")

    def test_an_empty_entry_reads_as_on_a_kernel(self):
        base = "/sys/class/infiniband/mlx5_0/ports/1"
        self.assertEqual(self.cat("a", f"{base}/gids/200"), "0000:0000:0000:0000:0000:0000:0000:0000")
        for name in ("types", "ndevs"):
            done = sim("exec", "-n", self.name, "a", "--", "cat", f"{base}/gid_attrs/{name}/200", check=False)
            self.assertIn("Invalid argument", done.stderr)

    def test_infiniband_port(self):
        base = "/sys/class/infiniband/mlx5_1/ports/1"
        self.assertEqual(self.cat("b", f"{base}/link_layer", f"{base}/lid", f"{base}/phys_state", f"{base}/rate").splitlines(),
                         ["InfiniBand", "0x1", "2: Polling", "200 Gb/sec (4X HDR)"])
        self.assertEqual(self.gids("b", "mlx5_1"),
                         {0: ("fe80:0000:0000:0000:026d:7603:0000:0201", "IB/RoCE v1", "-")})
        netdev = "/sys/class/net/eth1"
        self.assertEqual(self.cat("b", f"{netdev}/type", f"{netdev}/address", f"{netdev}/pkey", f"{base}/pkeys/0").splitlines(),
                         ["32", "80:00:00:48:fe:80:00:00:00:00:00:00:02:6d:76:03:00:00:02:01", "0xffff", "0xffff"])
        self.assertEqual(self.run_in("b", "ls", "/sys/class/infiniband/mlx5_1/device/net"), "eth1")
        self.assertEqual(self.cat("b", "/sys/class/net/eth0/type"), "1")

    def test_not_cabled_is_down(self):
        base = "/sys/class/infiniband/mlx5_1/ports/1"
        self.assertEqual(self.cat("a", f"{base}/state", f"{base}/phys_state").splitlines(), ["1: DOWN", "3: Disabled"])
        self.assertIn("UP", self.run_in("a", "ip", "-br", "link", "show", "eth1"))


class Gids(WithHosts):
    def test_mlx5_order(self):
        gids = self.gids("a", "mlx5_0")
        fe80 = "fe80:0000:0000:0000:006d:76ff:fe00:0100"
        self.assertEqual([gids[i] for i in range(6)], [
            (fe80, "IB/RoCE v1", "eth0"), (fe80, "RoCE v2", "eth0"),
            ("0000:0000:0000:0000:0000:ffff:0a01:0001", "IB/RoCE v1", "eth0"),
            ("0000:0000:0000:0000:0000:ffff:0a01:0001", "RoCE v2", "eth0"),
            ("fd01:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "eth0"),
            ("fd01:0000:0000:0000:0000:0000:0000:0001", "RoCE v2", "eth0")])
        self.assertEqual(self.index_of("a", "mlx5_0", "0a07:0001", netdev="eth0.7"), 7)

    def test_a_flap_moves_the_index(self):
        self.assertEqual(self.index_of("b", "mlx5_0", "0a01:0002"), 3)
        sim("addr", "-n", self.name, "del", "b.0", "10.1.0.2/24")
        self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") is None))
        sim("addr", "-n", self.name, "add", "b.0", "10.3.0.2/24")
        sim("addr", "-n", self.name, "add", "b.0", "10.1.0.2/24")
        self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a03:0002") == 3))
        self.assertIsNotNone(until(lambda: self.index_of("b", "mlx5_0", "0a01:0002") is not None))
        moved = self.index_of("b", "mlx5_0", "0a01:0002")
        self.assertGreater(moved, 3)
        self.assertEqual(moved % 2, 1)
        sim("addr", "-n", self.name, "del", "b.0", "10.3.0.2/24")

    def test_link_down_keeps_ipv4_and_default_and_drops_ipv6(self):
        self.run_in("a", "ip", "link", "set", "eth0", "down")
        self.assertIsNotNone(until(lambda: self.index_of("a", "mlx5_0", "0001", netdev="eth0") is not None))
        self.assertIsNotNone(until(lambda: not [g for g, _, n in self.gids("a", "mlx5_0").values()
                                                if g.startswith("fd01") and n == "eth0"]))
        for tail, index in (("0a01:0001", 3), ("fe00:0100", 1)):
            self.assertIsNotNone(until(lambda t=tail, i=index: self.index_of("a", "mlx5_0", t) == i), tail)
        self.run_in("a", "ip", "link", "set", "eth0", "up")
        sim("addr", "-n", self.name, "add", "a.0", "fd01::1/64")
        self.assertIsNotNone(until(lambda: self.index_of("a", "mlx5_0", "fd01:0000:0000:0000:0000:0000:0000:0001")))

    def test_a_netdev_that_comes_and_goes(self):
        self.run_in("b", "ip", "link", "add", "extra0", "type", "veth", "peer", "name", "extra1")
        self.assertIsNotNone(until(lambda: "extra0" in self.run_in("b", "ls", "/sys/class/net")))
        self.run_in("b", "ip", "link", "del", "extra0")
        self.assertIsNotNone(until(lambda: "extra0" not in self.run_in("b", "ls", "/sys/class/net")))


class Links(WithHosts):
    def state(self, host):
        return self.cat(host, "/sys/class/infiniband/mlx5_0/ports/1/state")

    def test_pull_and_plug_all_ends(self):
        sim("link", "-n", self.name, "lan", "off")
        for host in "ab":
            self.assertIsNotNone(until(lambda h=host: self.state(h) == "1: DOWN"))
            self.assertIn("NO-CARRIER,BROADCAST,MULTICAST,UP", self.run_in(host, "ip", "link", "show", "eth0"))
        sim("link", "-n", self.name, "lan", "on")
        for host in "ab":
            self.assertIsNotNone(until(lambda h=host: self.state(h) == "4: ACTIVE"))

    def test_one_port(self):
        sim("link", "-n", self.name, "b.0", "off")
        self.assertIsNotNone(until(lambda: self.state("b") == "1: DOWN"))
        self.assertEqual(self.state("a"), "4: ACTIVE")
        sim("link", "-n", self.name, "b.0", "on")
        self.assertIsNotNone(until(lambda: self.state("b") == "4: ACTIVE"))

    def test_bytes_travel_and_stop(self):
        serve = ("import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.bind(('10.1.0.2',4000)); "
                 "print(s.recvfrom(9000)[1][0],flush=True)")
        send = ("import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); "
                "s.setsockopt(socket.IPPROTO_IP,10,2); s.sendto(b'x'*4100,('b-lan',4000))")  # IP_MTU_DISCOVER: whole
        with subprocess.Popen([SIM, "exec", "-n", self.name, "b", "--", "/usr/bin/python3", "-c", serve],
                              stdout=subprocess.PIPE, text=True) as server:
            self.assertIsNotNone(until(lambda: ":4000" in self.run_in("b", "ss", "-uln")))
            self.run_in("a", "/usr/bin/python3", "-c", send)
            self.assertEqual(server.stdout.readline().strip(), "10.1.0.1")

    def test_bad_names_are_named(self):
        done = sim("link", "-n", self.name, "wan", "off", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no link 'wan'; there are: lan", done.stderr)
        done = sim("link", "-n", self.name, "a.1", "off", check=False)
        self.assertIn("a.1 is not cabled", done.stderr)

    def test_carrier_reaches_the_port(self):
        """Seen from inside, so that starting programs is not counted. How long it takes is printed."""
        watch = ("import time,os\np='/sys/class/infiniband/mlx5_0/ports/1/state'\nc='/sys/class/net/eth0/carrier'\n"
                 "r=lambda f: open(f).read().strip()\nprint('watching',flush=True)\n"
                 "while r(c)=='1': pass\nt=time.monotonic()\nwhile r(p)!='1: DOWN': pass\n"
                 "print(time.monotonic()-t,flush=True)")
        taken = []
        for _ in range(5):
            with subprocess.Popen([SIM, "exec", "-n", self.name, "a", "--", "timeout", str(WAIT_S), "/usr/bin/python3", "-c", watch],
                                  stdout=subprocess.PIPE, text=True) as watcher:
                watcher.stdout.readline()
                sim("link", "-n", self.name, "a.0", "off")
                taken.append(float(watcher.stdout.readline() or "inf"))
            sim("link", "-n", self.name, "a.0", "on")
            self.assertIsNotNone(until(lambda: self.state("a") == "4: ACTIVE"))
        print(f"port state follows the carrier by {sorted(taken)[2] * 1e3:.2f} ms (median of 5)", file=sys.stderr)
        self.assertLess(max(taken), float("inf"))


class Faults(WithHosts):
    def fault(self, port, *words, **kwargs):
        return sim("fault", "-n", self.name, port, *words, **kwargs)

    def test_rules_come_and_go(self):
        self.assertEqual(self.fault("a.0", "drop", "class=ack", "dir=rx").stdout.strip(), "rule 0")
        self.assertEqual(self.fault("a.1", "delay", "us=50").stdout.strip(), "rule 1")
        self.assertIn("rule 0: drop dir=rx class=ack skip=0", self.fault("a.0", "list").stdout)
        self.assertNotIn("delay", self.fault("a.0", "list").stdout)
        self.assertIn("a mlx5_0 eth0 ethernet active gids=", sim("status", "-n", self.name).stdout)
        self.assertIn("rules=1", sim("status", "-n", self.name).stdout)
        self.fault("a.0", "clear")
        self.assertEqual(self.fault("a.0", "list").stdout, "")
        self.assertEqual(self.fault("a.1", "clear", "0", check=False).returncode, 2)
        self.fault("a.1", "clear", "1")

    def commands(self, command):
        """Seconds that a host's program takes to open a device and ask it."""
        begun = time.monotonic()
        self.assertEqual(sim("exec", "-n", self.name, "a", "--", *command).returncode, 0)
        return time.monotonic() - begun

    def test_firmware(self):
        devinfo = ("ibv_devinfo", "-d", "mlx5_0")
        self.fault("a.0", "firmware", "us=700000", "command=open")
        self.assertIn("firmware, us: open=700000", self.fault("a.0", "list").stdout)
        self.assertGreaterEqual(self.commands(devinfo), 0.7)
        self.fault("a.0", "firmware", "us=0", "command=open")
        self.fault("a.1", "firmware", "us=100000000")  # another device's
        self.fault("a.0", "firmware", "us=100000000", "command=modify,reg_mr,dereg")
        self.commands(devinfo)
        self.fault("a.0", "firmware", "us=0")
        self.fault("a.1", "firmware", "us=0")
        self.assertEqual(self.fault("a.0", "list").stdout, "")
        for words in (("us=x",), ("us=-1",), ("us=5", "command=fly"), ("command=query",), ("us=5", "often"), ("us=5", "at-once=33"),
                      ("us=5", "at-once="), ("at-once=1", "us=5", "often"), ("often", "us=5", "at-once=1"), ("at-once=33", "us=5", "at-once=1")):
            self.assertEqual(self.fault("a.0", "firmware", *words, check=False).returncode, 2, words)

    def test_firmware_is_answered_again(self):
        """What waits behind a command that takes for ever is through as soon as commands take no time."""
        self.fault("a.0", "firmware", "us=100000000", "at-once=1", "command=open")
        self.assertIn("open=100000000 at-once=1", self.fault("a.0", "list").stdout)
        waiting = [subprocess.Popen([SIM, "exec", "-n", self.name, "a", "--", "ibv_devinfo", "-d", "mlx5_0"], stdout=subprocess.DEVNULL) for _ in range(2)]
        time.sleep(0.3)
        self.fault("a.0", "firmware", "us=0")
        self.assertEqual([one.wait(60) for one in waiting], [0, 0])

    def test_dead_and_alive(self):
        self.fault("b.1", "dead")
        self.assertIn("mlx5_1 eth1 infiniband down gids=1 rules=0 dead", sim("status", "-n", self.name).stdout)
        self.fault("b.1", "alive")
        self.assertNotIn("dead", sim("status", "-n", self.name).stdout)

    def test_bad_faults_are_named(self):
        for words, said in ((["lose"], "'lose'"), (["drop", "dir=up"], "'dir'"), (["qp-fatal"], "qpn=N"),
                            (["event", "flood"], "'flood'")):
            done = self.fault("a.0", *words, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        self.assertIn("no NIC 'a.7'", self.fault("a.7", "list", check=False).stderr)

    def test_script(self):
        path = pathlib.Path(self.tmp, "script")
        path.write_text("# pull, wait, plug\n0 link b.0 off\n300 link b.0 on\n300 fault b.0 list\n")
        start = time.monotonic()
        sim("script", "-n", self.name, str(path))
        self.assertGreaterEqual(time.monotonic() - start, 0.3)
        path.write_text("0 link lan off\n5 reboot\n")
        done = sim("script", "-n", self.name, str(path), check=False)
        self.assertIn("script:2", done.stderr)
        sim("link", "-n", self.name, "lan", "on")


class Life(unittest.TestCase):
    """Coming up, going down, and every way in between."""

    def setUp(self):
        self.name = f"{PREFIX}-life"
        self.addCleanup(lambda: (sim("down", self.name, check=False), self.assertEqual(traces(self.name), [])))

    def test_side_by_side(self):
        other = f"{self.name}2"
        sim("up", "-n", self.name, "pair")
        try:
            sim("up", "-n", other, "ring4")
            self.assertEqual(sim("exec", "-n", other, "d", "--", "hostname").stdout.strip(), "d")
            self.assertEqual(sim("exec", "-n", self.name, "a", "--", "hostname").stdout.strip(), "a")
            self.assertIn("several simulations", sim("exec", "a", "--", "true", check=False).stderr)
        finally:
            sim("down", other)
        self.assertEqual(traces(other), [])

    def test_up_twice(self):
        sim("up", "-n", self.name, "pair")
        self.assertIn("is up already", sim("up", "-n", self.name, "pair", check=False).stderr)
        self.assertEqual(sim("exec", "-n", self.name, "b", "--", "hostname").stdout.strip(), "b")

    def test_some_hosts_only_and_a_netdev_for_another(self):
        sim("up", "-n", self.name, "--only", "b", "pair")
        self.assertIn("no host 'a'", sim("exec", "-n", self.name, "a", "--", "true", check=False).stderr)
        cables = ["ip", "-n", f"msim-{self.name}"]
        subprocess.run([*cables, "link", "add", "far", "type", "veth", "peer", "name", "end"], check=True)
        subprocess.run([*cables, "addr", "add", "10.1.0.1/24", "dev", "far"], check=True)
        subprocess.run([*cables, "link", "set", "far", "up"], check=True)
        sim("plug", "-n", self.name, "a.0", "end")
        ping = ("import socket; s=socket.socket(); s.settimeout(60); "
                "print(s.connect_ex(('10.1.0.1', 9)))")  # 111: somebody is there and refuses
        self.assertEqual(sim("exec", "-n", self.name, "b", "--", "/usr/bin/python3", "-c", ping).stdout.strip(), "111")
        self.assertIn("belongs to a host", sim("plug", "-n", self.name, "b.0", "end", check=False).stderr)
        self.assertIn("no end at a simulated host", sim("link", "-n", self.name, "a.0", "off", check=False).stderr)
        sim("link", "-n", self.name, "l0", "off")
        self.assertIn("no host 'z'", sim("up", "-n", f"{self.name}z", "--only", "z", "pair", check=False).stderr)

    def test_many_want_the_same_name(self):
        ups = [subprocess.Popen([SIM, "up", "-n", self.name, "pair"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                text=True) for _ in range(5)]
        said = [up.communicate(timeout=UP_S)[1] for up in ups]
        self.assertEqual(sorted(up.returncode for up in ups), [0, 2, 2, 2, 2], said)
        self.assertTrue(all("is up already" in text for text in said if text), said)
        self.assertEqual(sim("exec", "-n", self.name, "b", "--", "hostname").stdout.strip(), "b")

    def test_exit_status_arguments_and_directory(self):
        done = sim("run", "-n", self.name, "pair", "a", "--", "sh", "-c", "echo \"$1\" && pwd && exit 7", "-", "two words",
                   check=False, cwd="/usr")
        self.assertEqual((done.returncode, done.stdout.splitlines()), (7, ["two words", "/usr"]))
        self.assertEqual(traces(self.name), [])

    def test_run_with_some_hosts_only(self):
        done = sim("run", "-n", self.name, "--only", "a", "pair", "a", "--", "ip", "-br", "link", "show", "eth0")
        self.assertRegex(done.stdout, "eth0.*LOWER_UP")  # cables are there all the same
        done = sim("run", "-n", self.name, "--only", "b", "pair", "a", "--", "true", check=False)
        self.assertEqual((done.returncode, done.stderr), (2, f"sim: no host 'a' in '{self.name}'; it has: b\n"))

    def test_run_in_one_that_is_up(self):
        sim("up", "-n", self.name, "pair")
        sim("run", "-n", self.name, "pair", "a", "--", "touch", "/dev/shm/here")
        self.assertEqual(sim("exec", "-n", self.name, "a", "--", "ls", "/dev/shm").stdout.strip(), "here")

    def test_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([SIM, "run", "-n", self.name, "pair", "a", "--", "sh", "-c", "echo up; sleep 60"],
                                  stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
                self.assertEqual(run.stdout.readline(), "up\n")
                os.killpg(run.pid, number) if number == signal.SIGINT else run.send_signal(number)
                self.assertNotEqual(run.wait(WAIT_S), 0)
            self.assertEqual(traces(self.name), [], number)

    def test_commands_end_with_the_simulation(self):
        sim("up", "-n", self.name, "pair")
        with subprocess.Popen([SIM, "exec", "-n", self.name, "a", "--", "sleep", "60"]) as sleeper:
            self.assertIsNotNone(until(lambda: b"sleep" in pathlib.Path(f"/proc/{sleeper.pid}/cmdline").read_bytes()[:5]))
            sim("down", self.name)
            self.assertEqual(sleeper.wait(WAIT_S), -signal.SIGTERM)

    def test_stale(self):
        sim("up", "-n", self.name, "pair")
        daemon = next(p.parent.name for p in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                      if f"/run/meshsim/{self.name}/a.conf" in read(p))
        os.kill(int(daemon), signal.SIGKILL)
        # One that is asked while it dies resets the connection, and status says so.
        self.assertIsNotNone(until(lambda: "stale" in sim("status", "-n", self.name, check=False).stdout))
        self.assertIn("is stale", sim("exec", "-n", self.name, "b", "--", "true", check=False).stderr)
        sim("up", "-n", self.name, "pair")
        self.assertEqual(sim("exec", "-n", self.name, "a", "--", "hostname").stdout.strip(), "a")

    def test_failed_start_leaves_nothing(self):
        with tempfile.NamedTemporaryFile("w", suffix=".topo") as file:
            file.write("host a\nnic a 0\npci a 0 0000:00:00.0\n")
            file.flush()
            if not os.path.exists("/sys/bus/pci/devices/0000:00:00.0"):
                self.skipTest("this machine has no PCI device 0000:00:00.0 to collide with")
            done = sim("up", "-n", self.name, file.name, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("0000:00:00.0 belongs to a real device", done.stderr)
        self.assertEqual(traces(self.name), [])

    def test_daemon_that_cannot_start(self):
        with tempfile.TemporaryDirectory() as build:
            daemon = pathlib.Path(build, "sim/simhostd")
            daemon.parent.mkdir()
            daemon.touch(0o600)
            done = sim("up", "-n", self.name, "--build", build, "pair", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "a: sim: .*Permission denied")
        self.assertIn("sim: host a did not start", done.stderr)
        self.assertEqual(traces(self.name), [])

    def test_unknown_names(self):
        for args, said in ((["up", "-n", self.name, "nothing"], "no topology file 'nothing'"), (["down", self.name], "is not up"),
                           (["exec", "-n", self.name, "a", "--", "true"], "is not up"), (["exec", "a"], "put the command after '--'"),
                           (["up", "-n", "A/b", "pair"], "bad name")):
            done = sim(*args, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    prepare()
    unittest.main()
