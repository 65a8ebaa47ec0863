#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The topology parser: what it reads, and what it says to a broken file."""
import ipaddress
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import topo  # noqa: E402

BASE = "host a\nhost b\nnic a 0 10.1.0.1/24\nnic b 0 10.1.0.2/24\n"  # 4 lines

BROKEN = [  # text after BASE, line of the error (0: of the whole file), words the error must have
    ("hsot c", 5, ["unknown statement 'hsot'", "host"]),
    ("host", 5, ["0 arguments", "host NAME"]),
    ("host c d", 5, ["2 arguments"]),
    ("host a", 5, ["'a'", "twice"]),
    ("host A", 5, ["'A'", "a-z"]),
    ("host " + "x" * 32, 5, ["at most 31"]),
    ("host all", 5, ["'all'"]),
    ("nic c 0", 5, ["unknown host 'c'", "host c"]),
    ("nic a 0", 5, ["a.0", "twice"]),
    ("nic a 64", 5, ["'64'", "0 to 63"]),
    ("nic a -1", 5, ["'-1'"]),
    ("nic a ²", 5, ["'²'"]),
    ("nic a x", 5, ["NIC index 'x'"]),
    ("nic a 1 10.2.0.1", 5, ["no prefix length", "10.2.0.1/24"]),
    ("nic a 1 10.2.0.256/24", 5, ["10.2.0.256/24"]),
    ("nic a 1 10.2.0.1/33", 5, ["10.2.0.1/33"]),
    ("nic a 1 10.2.0.0/24", 5, ["network or broadcast"]),
    ("nic a 1 10.2.0.255/24", 5, ["network or broadcast"]),
    ("nic a 1 224.0.0.1/24", 5, ["224.0.0.1/24", "cannot be given"]),
    ("nic a 1 ::1/128", 5, ["cannot be given"]),
    ("nic a 1 10.2.0.1/24 10.2.0.1/16", 5, ["10.2.0.1", "twice"]),
    ("vlan a 1 100", 5, ["unknown NIC a.1", "nic a 1"]),
    ("vlan a 0 0", 5, ["VLAN id '0'", "1 to 4094"]),
    ("vlan a 0 4095", 5, ["'4095'"]),
    ("vlan a 0 5\nvlan a 0 5", 6, ["VLAN 5 of a.0", "twice"]),
    ("cable x a.0", 5, ["2 arguments", "cable NAME HOST.INDEX HOST.INDEX"]),
    ("cable x a.0 a.0", 5, ["a.0", "'x' already"]),
    ("cable x a.0 b", 5, ["bad port 'b'", "HOST.INDEX"]),
    ("cable x a.0 b.1", 5, ["unknown NIC b.1"]),
    ("cable x a.0 b.0\nswitch y b.0", 6, ["b.0", "'x' already"]),
    ("switch x a.0\nswitch x b.0", 6, ["'x'", "twice"]),
    ("switch a.0 a.0", 5, ["bad switch name 'a.0'"]),
    ("mtu 1279", 5, ["'1279'", "1280 to 9200"]),
    ("mtu 9201", 5, ["'9201'"]),
    ("mtu 1500\nmtu 1500", 6, ["twice"]),
    ("port a 0 infiniband", 5, ["'infiniband'", "KEY=VALUE"]),
    ("port a 0 x=1 x=2", 5, ["'x' of a.0", "twice"]),
    ("pci a 0 17:00.0", 5, ["'17:00.0'", "0000:17:00.0"]),
    ("pci a 0 0000:17:00.0\npci a 0 0000:18:00.0", 6, ["a.0 has", "0000:17:00.0"]),
    ("nic a 1\npci a 0 0000:17:00.0\npci a 1 0000:17:00.0", 7, ["belongs to a.0"]),
    ("router c", 5, ["unknown host 'c'"]),
    ("route a 1 10.2.0.0/24 10.1.0.9", 5, ["unknown NIC a.1"]),
    ("route a 0 10.2.0.1/24 10.1.0.9", 5, ["10.2.0.1/24", "host bits"]),
    ("route a 0 10.2.0.0/24 10.3.0.9", 5, ["gateway 10.3.0.9", "a.0"]),
    ("route a 0 fd00::/64 10.1.0.9", 5, ["families"]),
    ("nic a 1 10.1.0.2/24\nswitch x a.1 b.0", 0, ["10.1.0.2", "a.1", "b.0"]),
    ("host a-x\nswitch x a.0", 0, ["'a-x'", "link 'x'"]),
]


class Good(unittest.TestCase):
    def test_full(self):
        t = topo.parse(BASE + "\t# a comment\n\nnic b 7 fd00::2/64 10.7.0.2/31 # another\n"
                       "vlan b 7 100 10.9.0.2/24\ncable c1 a.0 b.0\nmtu 9000\n"
                       "port b 7 link_layer=infiniband\npci b 7 0000:17:00.1\n")
        nic = t.nic("b.7")
        self.assertEqual([str(a) for a in nic.addrs], ["fd00::2/64", "10.7.0.2/31"])
        self.assertEqual(nic.vlans, {100: [ipaddress.ip_interface("10.9.0.2/24")]})
        self.assertEqual((nic.netdev, nic.port, nic.link, nic.pci), ("eth7", "b.7", None, "0000:17:00.1"))
        self.assertEqual(nic.options, {"link_layer": "infiniband"})
        self.assertEqual((t.mtu, t.links["c1"].kind), (9000, "cable"))
        self.assertEqual(t.neighbours(t.nic("a.0")), [t.nic("b.0")])
        self.assertEqual(t.neighbours(nic), [])
        self.assertEqual([h.number for h in t.hosts.values()], [1, 2])

    def test_defaults(self):
        t = topo.parse(BASE)
        self.assertEqual((t.mtu, t.links), (4200, {}))

    def test_macs_differ_and_are_local_unicast(self):
        macs = [topo.mac(h, k) for h in range(1, 300) for k in range(64)]
        self.assertEqual(len(set(macs)), len(macs))
        self.assertTrue(all(int(m[:2], 16) & 3 == 2 for m in macs))

    def test_same_address_on_two_segments(self):
        topo.parse(BASE + "nic a 1 10.1.0.2/24\nswitch x a.0 b.0\nvlan a 0 5 10.1.0.2/24\n")

    def test_shipped(self):
        sizes = {"pair": (2, 4, 2), "triangle": (3, 6, 3), "ring4": (4, 8, 4)}
        for name, size in sizes.items():
            with self.subTest(name):
                t = topo.load(name)
                self.assertEqual((len(t.hosts), len(t.nics()), len(t.links)), size)
                for link in t.links.values():
                    networks = {nic.addrs[0].network for nic in link.ports}
                    self.assertEqual(len(networks), 1, f"{link.name} is not one subnet")
        self.assertLessEqual(set(sizes), {p.stem for p in HERE.glob("*.topo")})


class Bad(unittest.TestCase):
    def test_each(self):
        for text, line, words in BROKEN:
            with self.subTest(text), self.assertRaises(topo.TopoError) as caught:
                topo.parse(BASE + text + "\n", "some.topo")
            said = str(caught.exception)
            self.assertTrue(said.startswith(f"some.topo:{line}: " if line else "some.topo: "), said)
            self.assertNotIn("\n", said)
            for word in words:
                self.assertIn(word, said)

    def test_empty(self):
        with self.assertRaisesRegex(topo.TopoError, "no host"):
            topo.parse("# nothing\n")

    def test_unknown_port(self):
        with self.assertRaisesRegex(topo.TopoError, "no NIC 'c.0'.*a.0 b.0"):
            topo.parse(BASE).nic("c.0")

    def test_files(self):
        with self.assertRaisesRegex(topo.TopoError, "'nosuch'.*pair"):
            topo.load("nosuch")
        with tempfile.NamedTemporaryFile(suffix=".topo") as file:
            pathlib.Path(file.name).write_bytes(b"\xff\xfe")
            with self.assertRaisesRegex(topo.TopoError, "cannot be read"):
                topo.load(file.name)


class Command(unittest.TestCase):
    def run_it(self, *args):
        return subprocess.run([sys.executable, HERE / "topo.py", *args], capture_output=True, text=True)

    def test_json(self):
        done = self.run_it("pair")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["hosts"]["b"]["nics"]["1"]["addrs"], ["10.2.0.2/24"])

    def test_error(self):
        with tempfile.NamedTemporaryFile("w", suffix=".topo") as file:
            file.write("host a\nnic a zero\n")
            file.flush()
            done = self.run_it(file.name)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{file.name}:2: bad NIC index 'zero'", done.stderr)


if __name__ == "__main__":
    unittest.main()
