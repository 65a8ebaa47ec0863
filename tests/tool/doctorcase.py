# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A host on which every check of meshverbs doctor looks and finds nothing. Tests change one thing of the host, and expect the
finding."""

import json
import subprocess

from fixture import CTL_VERSION, TOOL, V1, V2, Directory, Netlink, Sysfs, ToolTest

GOOD = """\
stage config ok read
stage libibverbs ok libibverbs.so.1, private version 34
stage driver-list ok 18 drivers
stage calibration ok measured
stage base:mlx5 ok hooked
stage context:mlx5_0 ok overlaid
stage context:mlx5_1 ok overlaid
"""
VERSION = subprocess.run([TOOL, "--version"], text=True, capture_output=True, check=True).stdout.split()[1]
OPENED = "device mlx5_0 opened\ndevice mlx5_1 opened\nend\n"
LIMITS = "Limit                     Soft Limit           Hard Limit           Units     \n" \
         "Max processes             1000                 1000                 processes \n" \
         "Max locked memory         {0:<20} {0:<20} bytes     \n"


class DoctorTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write_sysfs()
        self.write_netlink()
        self.probe()
        self.file("etc/libibverbs.d/mesh.driver", "driver mesh\n")
        for name in ("uverbs0", "uverbs1", "rdma_cm"):
            self.file(f"dev/infiniband/{name}", "")
        for place in ("all", "eth0", "eth1"):
            for name in ("arp_announce", "arp_ignore"):
                self.file(f"proc/sys/net/ipv4/conf/{place}/{name}", "0\n")
        self.process("self", "meshverbs", "unlimited")
        self.file("proc/self/status", "Name:\tmeshverbs\nCapEff:\t0000000000000000\n")
        self.file("run/systemd/system/x", "")
        self.file("etc/systemd/system.conf.d/50-memlock.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity\n")
        self.status = {
            "agent": "meshverbsd", "version": VERSION, "has_key": True, "identity": None, "keys_unsaved": False, "port": 28791, "hosts": 1,
            "nets": [{"netdev": "eth0", "running": True, "rails_heard": 1}, {"netdev": "eth1", "running": True, "rails_heard": 1}]}
        self.metrics = {"uptime_seconds": 5, "datagrams_rejected": {"plain": 0, "other_key": 0, "sealed": 0, "same_id": 0}}
        self.keys = {"hosts": []}
        self.qualified = {"on": True, "waits": None, "devices": [{"device": "mlx5_0", "state": "qualified"}]}
        self.peers = self.make_peers()

    # What the host is made of

    def answers(self):
        return {name: json.dumps(answer).encode() for name, answer in (("status", self.status), ("metrics", self.metrics), ("keys", self.keys), ("qualified", self.qualified))}

    def file(self, path, text):
        path = self.dir / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def process(self, pid, comm, memlock, uids="0\t0\t0\t0", pids=None):
        self.file(f"proc/{pid}/comm", comm + "\n")
        self.file(f"proc/{pid}/status", f"Name:\t{comm}\nUmask:\t0022\nUid:\t{uids}\nNSpid:\t{pids or pid}\nNSpgid:\t1\t2\n")
        self.file(f"proc/{pid}/limits", LIMITS.format(memlock))

    def probe(self, stages=GOOD, output=OPENED, mlx5_stages=None, more=""):
        """What programs with libibverbs alone see of the plugin, and those with libmlx5."""
        script = self.file("probe", f"""#!/bin/bash
if [ "$1" ]; then cat >>"$MESHVERBS_REPORT" <<'EOF'
{stages if mlx5_stages is None else mlx5_stages}EOF
else cat >>"$MESHVERBS_REPORT" <<'EOF'
{stages}EOF
fi
cat <<'EOF'
{output}EOF
{more}
""")
        script.chmod(0o755)

    def write_sysfs(self):
        self.sysfs = Sysfs(self.dir / "sys")
        for i in (0, 1):
            self.sysfs.device(f"mlx5_{i}", pci=f"0000:03:00.{i}")
            self.sysfs.port(f"mlx5_{i}", size=8, gids=[
                (0, f"fe80::ff:fe00:1{i}", V1, f"eth{i}"), (1, f"fe80::ff:fe00:1{i}", V2, f"eth{i}"),
                (2, f"10.{i + 1}.0.1", V1, f"eth{i}"), (3, f"10.{i + 1}.0.1", V2, f"eth{i}")])
            self.sysfs.write(f"devices/pci0000:00/0000:03:00.{i}/class", "0x020000\n")
            self.sysfs.write(f"class/infiniband_verbs/uverbs{i}/ibdev", f"mlx5_{i}\n")
            link = self.sysfs.root / f"bus/pci/devices/0000:03:00.{i}"
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(f"../../../devices/pci0000:00/0000:03:00.{i}")

    def write_netlink(self, addresses=("10.1.0.1/24", "10.2.0.1/24"), eth1=None):
        net = Netlink()
        net.link("lo", mac="00:00:00:00:00:00")
        for i in (0, 1):
            net.link(f"eth{i}", mac=f"02:00:00:00:00:1{i}", **(eth1 if i and eth1 else {}))
        net.done()
        for i in (0, 1):
            net.addr(f"eth{i}", f"fe80::ff:fe00:1{i}/64")
            if addresses[i]:
                net.addr(f"eth{i}", addresses[i])
        net.done()
        self.netlink(net)

    def make_peers(self, version=CTL_VERSION, mtu=4096, more=lambda directory: None):
        directory = Directory()
        for n, name in enumerate("ab", 1):
            directory.host(name, agent_version=version if n > 1 else CTL_VERSION)
            for i in (0, 1):
                directory.rail(f"mlx5_{i}", [(3, f"10.{i + 1}.0.{n}/24", 2)], netdev=f"eth{i}", mtu=mtu if n > 1 else 4096)
        directory.link(0, 2)
        directory.link(1, 3)
        more(directory)
        return directory

    # What doctor says of it

    def doctor(self, env=None):
        if self.status:
            self.agent(self.answers())
        if self.peers:
            self.directory(self.peers)
        code, out, err = self.run_tool("doctor", "-j", before=["--root", str(self.dir)], env=env)
        self.assertEqual(err, "")
        got = json.loads(out)
        self.assertEqual(code, 1 if got["totals"]["action"] else 0)
        self.assertEqual(got["totals"]["checks"], len(got["checks"]))
        self.assertEqual(got["totals"]["action"] + got["totals"]["note"], len(got["findings"]))
        return got

    def found(self, check, thing, what, fix, level="action", also=(), **kwargs):
        """There is this finding, and of other checks only those in `also`."""
        got = self.doctor(**kwargs)
        mine = [finding for finding in got["findings"] if finding["check"] == check]
        self.assertEqual(len(mine), 1, got["findings"])
        self.assertEqual({finding["check"] for finding in got["findings"]} - {check}, set(also), got["findings"])
        self.assertEqual((mine[0]["level"], mine[0]["thing"]), (level, thing))
        self.assertRegex(mine[0]["what"], what)
        self.assertRegex(mine[0]["fix"], fix)
        self.assertRegex(mine[0]["why"], r"^[A-Zl].*\.$")
        self.assertEqual({c["name"]: c["state"] for c in got["checks"]}[check], "found")
        return got
