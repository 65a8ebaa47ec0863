# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs doctor: a host on which every check looks and finds nothing, and for each finding a host that differs from
it in that one thing alone."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import unittest
from unittest import mock

from fixture import CTL_VERSION, TOOL, V1, V2, Directory, Netlink, Sysfs, ToolTest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
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


class Healthy(DoctorTest):
    def test_everything_is_looked_at_and_nothing_found(self):
        got = self.doctor()
        self.assertEqual(got["findings"], [])
        self.assertEqual({check["name"] for check in got["checks"] if check["state"] != "ok"}, set(), got["checks"])
        self.assertFalse(got["container"])

    def test_text(self):
        self.agent(self.answers())
        self.directory(self.peers)
        code, out, err = self.run_tool("doctor", before=["--root", str(self.dir)])
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^Version: +[\d.]+\nContainer: +no\n\nResult\n  Checks: +\d+, of which 0 could not look\n"
                              r"  Needs action: +0\n  To be known: +0\n$")
        (self.dir / "dev/infiniband/uverbs1").unlink()
        code, out, _ = self.run_tool("doctor", before=["--root", str(self.dir)])
        self.assertEqual(code, 1)
        self.assertRegex(out, r"\nNeeds action\n  uverbs: /dev/infiniband/uverbs1\n    What: +it is missing.*\n    Why: +\w.*\n"
                              r"    Fix: +\w.*\n\nResult\n")

    def test_changes_nothing(self):
        def snapshot():
            return {path: (path.lstat().st_mtime_ns, path.lstat().st_mode,
                           hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
                    for path in self.dir.rglob("*")}

        self.status = None
        self.doctor()
        before = snapshot()
        self.doctor()
        self.peers = None
        self.assertEqual({path: what for path, what in snapshot().items() if path.name not in ("directory", "run")},
                         {path: what for path, what in before.items() if path.name not in ("directory", "run")})

    def test_manual_has_every_check(self):
        page = (SOURCE / "man/meshverbs.1.rst").read_text()
        names = [check["name"] for check in self.doctor()["checks"]]
        self.assertEqual(re.findall(r"^\*\*([a-z0-9-]+)\*\*:", page, re.M), names)

    def test_usage(self):
        self.expect_error(["doctor", "me"], "meshverbs doctor: 'me' is not expected\nTry: meshverbs help doctor\n")


class Plugin(DoctorTest):
    def test_no_driver_file(self):
        (self.dir / "etc/libibverbs.d/mesh.driver").unlink()
        self.probe(stages="")
        self.found("plugin-libibverbs", "DIR/etc/libibverbs.d/mesh.driver", "missing, so libibverbs does not load",
                   "install meshverbs-provider, or write the line 'driver mesh'", also={"plugin-libmlx5"})

    def test_cannot_be_loaded(self):
        self.probe(stages="", mlx5_stages=GOOD, more="echo \"libibverbs: Warning: couldn't load driver 'libmesh-rdmav34.so': "
                                                     "version GLIBC_2.99 not found\" >&2")
        self.found("plugin-libibverbs", "the plugin", "GLIBC_2.99 not found", "built for this distribution")

    def test_not_loaded_although_named(self):
        self.probe(stages="", mlx5_stages=GOOD)
        self.found("plugin-libibverbs", "the plugin", "not loaded, although DIR/etc", "IBV_DRIVERS=")

    def test_crash(self):
        self.probe(output="", more="kill -SEGV $$")
        got = self.doctor()
        self.assertEqual([(f["check"], f["thing"]) for f in got["findings"]][:2], [
            ("plugin-libibverbs", "Programs that use libibverbs alone"),
            ("plugin-libmlx5", "Programs that link or load libmlx5 (perftest, UCX, NCCL)")])
        self.assertIn("crashes; the plugin's last word was: overlaid", got["findings"][0]["what"])
        self.assertIn("MESHVERBS=off", got["findings"][0]["fix"])

    def test_no_front(self):
        self.probe(mlx5_stages="")
        self.found("plugin-libmlx5", "libmlx5.so.1", "without the front.*perftest, UCX, NCCL", "meshverbs-front update")

    def test_calibration(self):
        self.probe(stages=re.sub("calibration ok.*(\n.*)*", "calibration refused libibverbs.so.1: two slots for modify_qp\n", GOOD))
        self.found("calibration", "calibration", "refused: libibverbs.so.1: two slots", "rdma-core 32 or newer")

    def test_device_not_served(self):
        self.probe(stages=GOOD.replace("stage context:mlx5_1 ok overlaid", "stage context:mlx5_1 failed no memory"))
        self.found("devices", "mlx5_1", "not served: .*no memory", "exclude in DIR/etc/libibverbs.d/mesh/mesh.conf")

    def test_no_device_to_serve(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nexclude = mlx5_*\n")
        self.found("devices", "base, exclude", "no RDMA device here is to be served", "exclude")

    def test_exclude_without_device(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nexclude = mlx5_7 rocep*\n")
        got = self.doctor()
        self.assertEqual([(f["check"], f["level"], f["thing"]) for f in got["findings"]],
                         [("exclude", "note", "mlx5_7"), ("exclude", "note", "rocep*")])
        self.assertIn("no RDMA device of this host is called so", got["findings"][0]["what"])

    def test_bad_line(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nmoves = of\n")
        self.found("config", "DIR/etc/libibverbs.d/mesh/mesh.conf", "mesh.conf:2: bad value 'of' for moves: write", "mesh.conf.5.")

    def test_bad_harmless_line(self):
        """Devices are served all the same."""
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nhold_down_ms = 50\n")
        self.found("config", "DIR/etc/libibverbs.d/mesh/mesh.conf", "mesh.conf:2: bad value '50' for hold_down_ms: write", "mesh.conf.5.")

    def test_off(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nmode = off\n")
        self.found("mode", "DIR/etc/libibverbs.d/mesh/mesh.conf", "mode is off", "mode = on")
        (self.dir / "rund/control").unlink()
        self.file("etc/libibverbs.d/mesh/mesh.conf", "")
        self.found("mode", "MESHVERBS in the environment", "mode is off", "unset MESHVERBS", env={"MESHVERBS": "off"})

    def test_unknown_word(self):
        self.probe(stages="stage config ok read\nstage environment failed MESHVERBS=no is none of on, observe, off\n")
        self.found("mode", "MESHVERBS in the environment", "MESHVERBS=no is none of on", "unset it", env={"MESHVERBS": "no"},
                   also={"devices"})

    def test_observe(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nmode = observe\n")
        self.found("mode", "DIR/etc/libibverbs.d/mesh/mesh.conf", "changes nothing: mode is observe", "set mode = on", level="note")


class Infiniband(DoctorTest):
    def setUp(self):
        super().setUp()
        for i in (0, 1):
            port = f"class/infiniband/mlx5_{i}/ports/1"
            self.sysfs.write(f"{port}/link_layer", "InfiniBand\n")
            self.sysfs.write(f"{port}/lid", f"0x{3 + i}\n")
            for index in (1, 2, 3):
                self.sysfs.write(f"{port}/gids/{index}", ":".join(["0000"] * 8) + "\n")
            for index in range(4):
                self.sysfs.write(f"{port}/pkeys/{index}", "0x0000\n" if index else "0xffff\n")
            netdev = f"devices/pci0000:00/0000:03:00.{i}/net/eth{i}"
            self.sysfs.write(f"{netdev}/type", "32\n")
            self.sysfs.write(f"{netdev}/address", f"80:00:00:48:fe:80:00:00:00:00:00:00:00:00:00:ff:fe:00:00:1{i}\n")
        self.peers = self.fabrics()

    def fabrics(self, lid_of_b=5):
        """Two of them, with one prefix."""
        directory = Directory()
        for host, lids in (("a", (3, 4)), ("b", (lid_of_b, 6))):
            directory.host(host)
            for i in (0, 1):
                directory.rail(f"mlx5_{i}", [(0, f"fe80::{host}{i}", 0)], netdev=f"eth{i}", link_layer=1, lid=lids[i], mtu=0)
        directory.link(0, 2)
        directory.link(1, 3)
        return lambda: directory

    def doctor(self, env=None):
        self.peers = self.peers() if callable(self.peers) else self.peers
        return super().doctor(env)

    def test_nothing(self):
        self.assertEqual(self.doctor()["findings"], [])

    def test_netdev_that_is_down(self):
        self.write_netlink(eth1={"up": False})
        self.found("ib-netdevs", "mlx5_1 port 1", "^its IPoIB netdev eth1 is not up and running$", "^ip link set eth1 up$", level="note")

    def test_no_netdev(self):
        self.sysfs.write("devices/pci0000:00/0000:03:00.0/net/eth0/type", "1\n")
        self.found("ib-netdevs", "mlx5_0 port 1", "^it has no IPoIB netdev here$", "modprobe ib_ipoib", level="note")

    def test_port_that_is_down_needs_none(self):
        self.sysfs.write("devices/pci0000:00/0000:03:00.0/net/eth0/type", "1\n")
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n")
        self.assertNotIn("ib-netdevs", {finding["check"] for finding in self.doctor()["findings"]})

    def test_pkeys_that_differ(self):
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/pkeys/2", "0x8001\n")
        self.found("ib-pkeys", "mlx5_0 port 1", "^it has not the P_Key 0x8001, which mlx5_1 port 1 has$", "partitions.conf", level="note")

    def test_pkeys_at_other_places(self):
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/pkeys/3", "0x8001\n")
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/pkeys/2", "0x8001\n")
        self.assertEqual(self.doctor()["findings"], [])

    def test_lid_twice(self):
        self.peers = self.fabrics(lid_of_b=4)
        self.found("lids-twice", "mlx5_1 port 1", "^mlx5_0 of host b has the same LID, 4, and the same subnet prefix", "opensm.conf", level="note")


class Devices(DoctorTest):
    def without_rdma(self):
        for i in (0, 1):
            (self.dir / f"sys/class/infiniband/mlx5_{i}").unlink()
            real = self.dir / f"sys/devices/pci0000:00/0000:03:00.{i}/infiniband"
            os.rename(real, self.dir / f"gone{i}")
        self.peers = None

    def test_module_of_the_nic(self):
        self.without_rdma()
        self.found("modules", "PCI 0000:03:00.0", "ConnectX, but no RDMA device", "modprobe mlx5_ib", also={"agent"})

    def test_no_driver(self):
        self.without_rdma()
        (self.dir / "sys/devices/pci0000:00/0000:03:00.0/driver").unlink()
        self.found("modules", "PCI 0000:03:00.0", "ConnectX, but no RDMA device", "modprobe mlx5_core", also={"agent"})

    def test_a_function_without(self):
        self.sysfs.write("bus/pci/devices/0000:05:00.0/vendor", "0x15b3\n")
        self.sysfs.write("bus/pci/devices/0000:05:00.0/class", "0x020000\n")
        self.found("modules", "PCI 0000:05:00.0", "1 of 3 ConnectX functions", "bind it to mlx5_core", level="note")

    def function(self, name, driver=None, more=()):
        """One more ConnectX function, without an RDMA device."""
        place = f"bus/pci/devices/{name}"
        self.sysfs.write(f"{place}/vendor", "0x15b3\n")
        self.sysfs.write(f"{place}/class", "0x020000\n")
        if driver:
            (self.sysfs.root / place / "driver").symlink_to(f"../../drivers/{driver}")
        for path in more:
            self.sysfs.write(f"{place}/{path}", "")

    def test_functions_of_virtual_machines(self):
        for i, driver in enumerate(("vfio-pci", "mlx5_vfio_pci", "uio_pci_generic")):
            self.function(f"0000:05:00.{i}", driver)
        self.function("0000:05:00.4", None, ["physfn"])  # sriov_drivers_autoprobe is off
        self.assertEqual(self.doctor()["findings"], [])

    def test_all_are_given_away(self):
        self.without_rdma()
        for i in (0, 1):
            driver = self.dir / f"sys/devices/pci0000:00/0000:03:00.{i}/driver"
            driver.unlink()
            driver.symlink_to("../../../bus/pci/drivers/vfio-pci")
        self.found("modules", "RDMA devices", "all 2 ConnectX functions are kept for virtual machines", "bind one to mlx5_core",
                   level="note", also={"agent"})

    def bond(self, function, netdev, bond):
        place = f"bus/pci/devices/{function}/net/{netdev}"
        self.sysfs.write(f"{place}/bonding_slave/state", "active\n")
        (self.sysfs.root / place / "master").symlink_to(f"../../../../virtual/net/{bond}")

    def test_second_function_of_a_lag(self):
        self.function("0000:03:00.2", "mlx5_core")
        self.bond("0000:03:00.0", "eth0", "bond0")
        self.bond("0000:03:00.2", "eth2", "bond0")
        self.assertEqual(self.doctor()["findings"], [])

    def test_bond_without_an_rdma_device(self):
        self.function("0000:05:00.0", "mlx5_core")
        self.bond("0000:03:00.0", "eth0", "bond0")
        self.bond("0000:05:00.0", "eth2", "bond1")
        self.found("modules", "PCI 0000:05:00.0", "1 of 3 ConnectX functions", "bind it to mlx5_core", level="note")

    def test_no_nic(self):
        os.rename(self.dir / "sys", self.dir / "other")
        (self.dir / "sys").mkdir()
        self.peers = None
        self.found("modules", "RDMA devices", "no DIR/sys/class/infiniband", "load the module of your NIC", also={"agent"})

    def test_uverbs_module(self):
        os.rename(self.dir / "sys/class/infiniband_verbs", self.dir / "verbs")
        self.found("modules", "ib_uverbs", "not loaded", "modprobe ib_uverbs")

    def test_uverbs_file(self):
        (self.dir / "dev/infiniband/uverbs1").unlink()
        self.found("uverbs", "/dev/infiniband/uverbs1", "missing, so mlx5_1 cannot be opened", "modprobe ib_uverbs")

    def test_uverbs_file_in_a_container(self):
        (self.dir / "dev/infiniband/uverbs1").unlink()
        self.file("run/.containerenv", "")
        got = self.found("uverbs", "/dev/infiniband/uverbs1", "missing", "--device /dev/infiniband/uverbs1")
        self.assertTrue(got["container"])

    @unittest.skipUnless(os.geteuid(), "root may open every file")
    def test_uverbs_permission(self):
        (self.dir / "dev/infiniband/uverbs1").chmod(0)
        self.found("uverbs", "/dev/infiniband/uverbs1", "cannot be opened by this user: Permission denied", "udev rules")

    def test_rdma_cm(self):
        (self.dir / "dev/infiniband/rdma_cm").unlink()
        self.found("rdma-cm", "/dev/infiniband/rdma_cm", "missing", "modprobe rdma_ucm", level="note")


class Ports(DoctorTest):
    def down(self):
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n")

    def test_no_carrier(self):
        self.down()
        self.write_netlink(eth1={"carrier": False})
        self.found("ports-down", "mlx5_1 port 1", "netdev eth1 has no carrier", "check the cable of eth1.*exclude in DIR/etc")

    def test_not_up(self):
        self.down()
        self.write_netlink(eth1={"up": False})
        self.found("ports-down", "mlx5_1 port 1", "netdev eth1 is not up", "ip link set eth1 up;")

    def test_excluded(self):
        self.down()
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nexclude = mlx5_1\n")
        self.assertEqual(self.doctor()["findings"], [])

    def test_infiniband_without_subnet_manager(self):
        for name, text in (("state", "2: INIT"), ("link_layer", "InfiniBand")):
            self.sysfs.write(f"class/infiniband/mlx5_1/ports/1/{name}", text + "\n")
        self.found("ports-down", "mlx5_1 port 1", "no subnet manager", "opensm")

    def test_some_gids_elsewhere(self):
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/gids/4", "0000:0000:0000:0000:0000:ffff:0a07:0001\n")
        self.sysfs.write("class/infiniband/mlx5_1/ports/1/gid_attrs/types/4", V2 + "\n")
        self.found("gids-elsewhere", "mlx5_1 port 1", r"1 of its 5 GIDs, first index 4 \(10.7.0.1\)", "meshverbs gids", level="note")

    def test_all_gids_elsewhere(self):
        net = Netlink()
        net.link("eth0", mac="02:00:00:00:00:10")
        net.done()
        net.addr("eth0", "10.1.0.1/24")
        net.addr("eth0", "fe80::ff:fe00:10/64")
        net.done()
        self.netlink(net)
        self.file(".dockerenv", "")
        self.found("gids-elsewhere", "mlx5_1 port 1", "none of its 4 GIDs belongs to a netdev", "SR-IOV.*macvlan")

    def test_link_local_only(self):
        for i in (2, 3):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:" * 7 + "0000\n")
        self.write_netlink(("10.1.0.1/24", None))
        self.found("addresses", "mlx5_1 port 1", "eth1 has neither an IPv4 nor a global IPv6", "ip addr add ADDRESS/PREFIX dev eth1")

    def test_empty_table(self):
        for i in range(4):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:" * 7 + "0000\n")
        self.found("addresses", "mlx5_1 port 1", "GID table is empty", "bring its netdev up")


    def empty(self, device, port=1):
        for i in range(4):
            (self.dir / f"sys/class/infiniband/{device}/ports/{port}/gids/{i}").write_text("0000:" * 7 + "0000\n")

    def representors(self):
        for name, port_name in (("eth1", "p1"), ("eth1_0", "pf1vf0"), ("eth1_1", "c1pf1sf3")):
            self.sysfs.write(f"devices/pci0000:00/0000:03:00.1/net/{name}/phys_port_name", port_name + "\n")

    def test_representors(self):
        """The device of an uplink in switchdev mode has a port for each representor."""
        self.representors()
        self.sysfs.port("mlx5_1", 2, size=1)
        self.sysfs.port("mlx5_1", 3, size=1, state="1: DOWN")
        self.assertEqual(self.doctor()["findings"], [])

    def test_second_port_without_representors(self):
        self.sysfs.port("mlx5_1", 2, size=1)
        self.found("addresses", "mlx5_1 port 2", "GID table is empty", "bring its netdev up")

    def test_uplink_without_roce(self):
        self.representors()
        self.empty("mlx5_1")
        self.found("addresses", "mlx5_1 port 1", "switchdev mode, in which the uplink may have no RoCE",
                   "SF or VF.*eswitch set pci/0000:03:00.1 mode legacy.*exclude in DIR/etc")

    def link_local_only(self, master, kind=None):
        for i in (2, 3):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:" * 7 + "0000\n")
        self.write_netlink(("10.1.0.1/24", None))
        self.sysfs.write("class/net/eth1/mtu", "1500\n")
        (self.sysfs.root / "class/net/eth1/master").symlink_to(f"../{master}")
        if kind:
            self.sysfs.write(f"class/net/eth1/{kind}/state", "3\n")

    def test_bridge_member(self):
        self.link_local_only("br7", "brport")
        self.found("addresses", "mlx5_1 port 1", "eth1 is in bridge br7, and that has neither",
                   "ADDRESS/PREFIX dev br7, not dev eth1; .*name mlx5_1 in exclude")

    def test_bond_member(self):
        self.link_local_only("bond7", "bonding_slave")
        self.found("addresses", "mlx5_1 port 1", "eth1 is in bond bond7", "dev bond7, not dev eth1")

    def test_open_vswitch(self):
        self.link_local_only("ovs-system")
        self.found("addresses", "mlx5_1 port 1", "port of Open vSwitch", "outside of Open vSwitch; else name mlx5_1 in exclude")

    def test_vrf(self):
        """A VRF's members have addresses of their own."""
        self.link_local_only("red")
        self.found("addresses", "mlx5_1 port 1", "eth1 has neither an IPv4", "ip addr add ADDRESS/PREFIX dev eth1")

    def test_armed(self):
        for name, text in (("state", "3: ARMED"), ("link_layer", "InfiniBand")):
            self.sysfs.write(f"class/infiniband/mlx5_1/ports/1/{name}", text + "\n")
        self.found("ports-down", "mlx5_1 port 1", "ARMED: the subnet manager has not activated it", "opensm")


class Nets(DoctorTest):
    def share(self):
        for i in (2, 3):
            (self.dir / f"sys/class/infiniband/mlx5_1/ports/1/gids/{i}").write_text("0000:0000:0000:0000:0000:ffff:0a01:0007\n")
        self.write_netlink(("10.1.0.1/24", "10.1.0.7/24"))

    def arp(self, netdev, announce, ignore):
        self.file(f"proc/sys/net/ipv4/conf/{netdev}/arp_announce", f"{announce}\n")
        self.file(f"proc/sys/net/ipv4/conf/{netdev}/arp_ignore", f"{ignore}\n")

    def test_same_subnet(self):
        self.share()
        self.arp("all", 2, 1)
        self.found("same-subnet", "10.1.0.0/24", r"mlx5_0 \(eth0\), mlx5_1 \(eth1\)", "a subnet of its own", level="note")

    def test_two_netdevs_of_one_port(self):
        """An address on a VLAN and its subnet on the port's own netdev: one NIC all the same."""
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/gids/5", "0000:0000:0000:0000:0000:ffff:0a01:0009\n")
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/gid_attrs/types/5", V2 + "\n")
        self.sysfs.write("class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/5", "eth0.7\n")
        net = Netlink()
        net.link("lo", mac="00:00:00:00:00:00")
        for i in (0, 1):
            net.link(f"eth{i}", mac=f"02:00:00:00:00:1{i}")
        net.link("eth0.7", mac="02:00:00:00:00:10", vlan=7, lower="eth0")
        net.done()
        for i in (0, 1):
            net.addr(f"eth{i}", f"fe80::ff:fe00:1{i}/64")
            net.addr(f"eth{i}", f"10.{i + 1}.0.1/24")
        net.addr("eth0.7", "10.1.0.9/24")
        net.done()
        self.netlink(net)
        self.assertEqual(self.doctor()["findings"], [])

    def test_arp(self):
        self.share()
        self.arp("eth0", 2, 1)
        self.arp("eth1", 1, 1)
        self.found("arp", "eth1 (mlx5_1)", "arp_announce is 1, arp_ignore is 1", "net.ipv4.conf.eth1.arp_announce=2",
                   also={"same-subnet"})

    def test_arp_of_both(self):
        self.share()
        self.assertEqual([f["thing"] for f in self.doctor()["findings"] if f["check"] == "arp"], ["eth0 (mlx5_0)", "eth1 (mlx5_1)"])


class Agents(DoctorTest):
    def test_none(self):
        self.status = self.peers = None
        (self.dir / "run/directory").unlink(missing_ok=True)
        self.found("agent", "meshverbsd", "no agent answers at DIR/rund/control: No such file", "systemctl start meshverbsd")

    def test_none_in_a_container(self):
        self.status = self.peers = None
        self.file("run/.containerenv", "")
        self.found("agent", "DIR/run", "not in this container", "mount the host's /run/meshverbs")

    def test_in_a_container(self):
        """The directory of peers is all there is to be seen of it there."""
        self.status = None
        self.file("run/.containerenv", "")
        got = self.doctor()
        self.assertEqual(got["findings"], [])
        self.assertIn(("agent-version", "skipped", "the agent answers on the host only"),
                      [(check["name"], check["state"], check.get("skipped")) for check in got["checks"]])

    def test_older(self):
        self.agent(json.dumps(self.status).encode(), "run")
        self.status = None
        self.found("agent", "meshverbsd", "is older than this command", "restart meshverbsd")

    def test_stale_directory(self):
        self.agent(self.answers())
        self.status = None
        self.directory(self.peers, age_s=60)
        self.peers = None
        self.found("agent", "DIR/run/directory", "does not keep it up to date", "restart meshverbsd")

    def test_writable_directory(self):
        self.directory(self.peers)
        self.peers = None
        (self.dir / "run/directory").chmod(0o666)
        self.found("agent", "DIR/run/directory", "somebody other than its owner", "restart meshverbsd")

    def test_of_another_version(self):
        self.status["version"] = "0.0.9"
        self.found("agent-version", "meshverbsd", "is of version 0.0.9, this command of", "restart meshverbsd")

    def test_nobody_heard(self):
        self.status["hosts"] = 0
        self.found("beacons", "meshverbsd", "hears no other host", "UDP port 28791.*IGMP snooping.*hosts file")

    def test_nobody_on_a_netdev(self):
        self.status["nets"][1]["rails_heard"] = 0
        self.found("beacons", "eth1", "no other host is heard on this netdev", "UDP port 28791", level="note")

    def test_nobody_on_a_netdev_that_is_down(self):
        self.status["nets"][1].update(rails_heard=0, running=False)
        self.assertEqual(self.doctor()["findings"], [])

    def test_no_key(self):
        self.status.update(has_key=False, identity={"name": "a", "key": "A" * 43 + "=", "lasting": True})
        self.found("key", "fleet key", "the agent has none: hosts know each other by keys of their own", "meshverbsd --make-key.*/etc/libibverbs.d/mesh/key", level="note")

    def test_no_key_of_any_kind(self):
        self.status["has_key"] = False
        self.found("key", "fleet key", "the agent has none: it trusts the network as far as RoCE", "meshverbsd --make-key", level="note", also={"identity"})

    def test_key_that_is_not_there(self):
        for line, there, what in (("key = /etc/mesh.key", "etc/other.key", "/etc/mesh.key is not there, but key in .agent. of .*mesh.conf names it"),
                                  ("kee = /etc/mesh.key", "etc/mesh.key", "/mesh/key is not there, and a line of .*mesh.conf that is not understood"),
                                  ("key = mesh.key", "etc/mesh.key", "what stands for key in .agent. of .*mesh.conf cannot be used")):
            for status in (self.status, None):
                with self.subTest(line=line, runs=bool(status)), mock.patch.object(self, "status", status):
                    self.file("etc/libibverbs.d/mesh/mesh.conf", f"[agent]\n{line}\n")
                    self.file(there, "")
                    found = [f for f in self.doctor()["findings"] if f["check"] == "key"]
                    self.assertEqual([f["level"] for f in found], ["action"])
                    self.assertRegex(found[0]["what"], what + ".*does not start")
                    (self.dir / "rund/control").unlink(missing_ok=True)

    def test_key_that_is_there(self):
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[agent]\nkey = /etc/mesh.key\n")
        self.file("etc/mesh.key", "").chmod(0o600)
        self.assertEqual(self.doctor()["findings"], [])

    def test_keys_differ(self):
        for reason, what in (("plain", "without a fleet key"), ("sealed", "with a fleet key"), ("other_key", "another fleet key")):
            with self.subTest(reason=reason):
                self.metrics["datagrams_rejected"] = {reason: 17}
                self.found("key", "fleet key", f"{what}.*: 17 datagrams dropped", "key")
                (self.dir / "rund/control").unlink()

    def test_same_id(self):
        self.metrics["datagrams_rejected"]["same_id"] = 3
        self.found("host-id", "/etc/machine-id", "another agent has the host id.*3 datagrams", "systemd-machine-id-setup")



class Qualified(DoctorTest):
    """survive = auto, the default"""

    def row(self, **members):
        self.qualified["devices"].append({"device": "mlx5_1", **members})

    def test_qualified(self):
        self.row(state="qualified")
        self.row(state="none", running=True)
        self.row(state="unknown", why="no mlx5 device")
        self.assertNotIn("qualified", [finding["check"] for finding in self.doctor()["findings"]])

    def test_failed(self):
        self.row(state="failed", trial="flush", assumption="all work requests are flushed", reason="slot 3 was not")
        self.found("qualified", "mlx5_1", r'"all work requests are flushed" does not hold \(flush: slot 3 was not\); connections at work stay on it',
                   "nothing has to be done", level="note")

    def test_no_verdict(self):
        self.row(state="none")
        self.qualified["waits"] = "programs have queue pairs"
        self.found("qualified", "mlx5_1", "nobody has found out whether it qualifies: programs have queue pairs;", "meshverbs qualify mlx5_1", level="note")

    def test_unsure(self):
        self.row(state="unsure", trial="holes", reason="disturbed")
        self.found("qualified", "mlx5_1", r"is not certain \(holes: disturbed\)", "meshverbs qualify mlx5_1", level="note")

    def test_refused(self):
        self.row(state="refused", why="x.json: others may write it: chmod go-w")
        self.found("qualified", "mlx5_1", "not believed: x.json: others may write it", "correct or remove that file")

    def test_not_asked_for(self):
        self.row(state="none")
        for conf in ("[survive]\nqualify = never\n", "[meshverbs]\nmode = observe\n", "[meshverbs]\nmoves = off\n"):
            with self.subTest(conf=conf):
                self.file("etc/libibverbs.d/mesh/mesh.conf", conf)
                self.assertNotIn("qualified", [finding["check"] for finding in self.doctor()["findings"]])
                (self.dir / "rund/control").unlink(missing_ok=True)


class Keys(DoctorTest):
    """Without a fleet key, on a host with an identity."""

    KEYS = [letter * 43 + "=" for letter in "ABCD"]

    def setUp(self):
        super().setUp()
        self.status.update(has_key=False, identity={"name": "a", "key": self.KEYS[0], "lasting": True})
        self.file("var/lib/meshverbs/identity", "secret").chmod(0o600)
        self.file("var/lib/meshverbs/known_hosts", "").chmod(0o600)
        self.keys["hosts"] = [{"name": "b", "trust": "pinned", "key": self.KEYS[1], "pinned_key": self.KEYS[1]}]

    def found(self, *args, also=(), **kwargs):
        return super().found(*args, also={"key", *also}, **kwargs)

    def test_nothing(self):
        got = self.doctor()
        self.assertEqual([(f["check"], f["level"]) for f in got["findings"]], [("key", "note")])
        self.assertIn("hosts know each other by keys of their own (meshverbs keys)", got["findings"][0]["what"])
        self.assertEqual({check["name"] for check in got["checks"] if check["state"] == "skipped"}, set())

    def test_identity_that_others_may_read(self):
        for mode in (0o644, 0o640):
            with self.subTest(mode=mode):
                (self.dir / "var/lib/meshverbs/identity").chmod(mode)
                self.found("key-files", "/var/lib/meshverbs/identity", rf"others may use the secret of this host \(mode 0{mode:o}\)",
                           "^rm /var/lib/meshverbs/identity; systemctl restart meshverbsd.*meshverbs keys forget with the name")
                (self.dir / "rund/control").unlink()

    def test_known_hosts_that_others_may_write(self):
        (self.dir / "var/lib/meshverbs/known_hosts").chmod(0o664)
        self.found("key-files", "/var/lib/meshverbs/known_hosts", r"others may write the keys of other hosts \(mode 0664\)", "chmod 0600")

    def test_fleet_key_that_others_may_read(self):
        self.status = None
        self.file("etc/mesh.key", "").chmod(0o604)
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[agent]\nkey = /etc/mesh.key\n")
        super().found("key-files", "/etc/mesh.key", r"everybody on this host may use the fleet key \(mode 0604\)",
                      "^chmod 0600 /etc/mesh.key.*meshverbsd --make-key", also={"agent"})

    def test_no_identity(self):
        self.status.update(identity=None, identity_error="/var/lib/meshverbs/identity: a line of it is not understood")
        self.found("identity", "identity", "^this host has no key of its own: /var/lib/meshverbs/identity: a line of it is not understood$",
                   "^mend that, or remove the file; systemctl restart meshverbsd")

    def test_no_identity_wanted(self):
        self.status.update(identity=None, identity_error="the agent runs with --run-dir and without --state-dir")
        self.found("identity", "identity", "without --state-dir", "^name a directory that lasts by --state-dir", level="note")

    def test_identity_that_does_not_last(self):
        self.status["identity"]["lasting"] = False
        self.found("identity", "identity", "cannot be written, so the agent makes another with each start", "^install -d -m 0700.*restart meshverbsd")

    def test_identity_that_does_not_last_in_a_container(self):
        self.status["identity"]["lasting"] = False
        self.file("run/.containerenv", "")
        self.found("identity", "identity", "cannot be written", "^mount the host's /var/lib/meshverbs")

    def test_known_hosts_that_cannot_be_written(self):
        self.status["keys_error"] = "No space left on device"
        self.found("identity", "/var/lib/meshverbs/known_hosts", "is not written, and forgotten with the agent: No space left", "its owner, its mode")

    def test_changed_key(self):
        self.keys["hosts"].append({"name": "c", "trust": "changed", "key": self.KEYS[2], "pinned_key": self.KEYS[3]})
        self.found("peer-keys", "c", f"^it shows the key {self.KEYS[2]}, but is known with {self.KEYS[3]}$",
                   "^was it installed anew,.*Then meshverbs keys forget c; if not, somebody speaks in its name")

    def test_host_id_of_another(self):
        self.keys["hosts"].append({"name": "c", "trust": "changed", "key": self.KEYS[2]})
        self.found("peer-keys", "c", "c has the host id of a host that is silent$", "Then meshverbs keys forget its former name")

    def test_changed_keys(self):
        self.keys["hosts"] += [{"name": f"n{i}", "trust": "changed", "key": self.KEYS[2], "pinned_key": self.KEYS[3]} for i in range(7)]
        self.found("peer-keys", "n0, n1, n2, n3, n4 and 2 more", "^7 hosts show other keys than they are known with; n0 shows", "keys forget n0")

    def test_revoked_key(self):
        self.keys["hosts"].append({"name": "c", "trust": "revoked", "key": self.KEYS[2]})
        self.found("peer-keys", "c", "1 hosts have keys that are revoked", "meshverbs keys restore", level="note")

    def test_impostors(self):
        self.metrics["impostors"] = 17
        self.found("peer-keys", "impostors", "17 times.* with another key: ignored", "journalctl -u meshverbsd -g 'speaks as host'")

    def test_hosts_without_identity(self):
        self.keys["hosts"].append({"name": "c", "trust": "none"})
        self.found("peer-identities", "c", "1 hosts have no key of their own, and this one has", "^upgrade meshverbs there", level="note")

    def test_hosts_beyond_routers(self):
        self.keys["hosts"].append({"name": "c", "trust": "unpinned", "key": self.KEYS[2]})
        self.found("peer-identities", "c", "1 hosts beyond routers are not authenticated", "^meshverbs keys pin HOST KEY, or key=KEY in", level="note")

    def routed_found(self, conf, state):
        (self.dir / "rund/control").unlink()
        if conf:
            self.file("etc/libibverbs.d/mesh/mesh.conf", conf)
        self.qualified["devices"] = [{"device": "mlx5_1", "state": state}]
        self.found("peers-routed", "c", "^1 hosts are beyond routers and not authenticated: connections with them do not leave",
                   "key=KEY.*or have a fleet key", level="note")

    def test_routed_hosts(self):
        def more(directory):
            for name, flags in (("c", Directory.ROUTED), ("d", Directory.ROUTED | Directory.AUTHENTICATED), ("e", 0)):
                directory.host(name, flags=flags)

        self.peers = self.make_peers(more=more)
        self.qualified["devices"] = [{"device": "mlx5_1", "state": "failed"}]
        self.assertNotIn("peers-routed", [f["check"] for f in self.doctor()["findings"]])  # nothing moves at work
        for conf, state in ((None, "qualified"), ("[meshverbs]\nsurvive = on\n", "none")):
            with self.subTest(conf=conf):
                self.routed_found(conf, state)
        (self.dir / "rund/control").unlink()
        self.file("etc/libibverbs.d/mesh/mesh.conf", "[meshverbs]\nsurvive = on\n[survive]\nunauthenticated = on\n")
        self.assertEqual([f["check"] for f in self.doctor()["findings"]], ["key"])

    def test_ipoib_without_a_key(self):
        for name, kind in (("ib0", 32), ("ib1", 32), ("eth0", 1), ("lo", 772)):
            self.sysfs.write(f"class/net/{name}/type", f"{kind}\n")
        self.found("ipoib", "ib0, ib1", "^every user who may open an RDMA device can send any IP packet", "fleet key", level="note")
        (self.dir / "rund/control").unlink()
        self.status["has_key"] = True
        self.assertEqual(self.doctor()["findings"], [])

    def test_with_a_fleet_key(self):
        """Identities do nothing then."""
        self.status.update(has_key=True, identity=None, identity_error="x")
        self.keys["hosts"].append({"name": "c", "trust": "changed", "key": self.KEYS[2], "pinned_key": self.KEYS[3]})
        self.assertEqual(self.doctor()["findings"], [])

    def test_older_agent(self):
        del self.status["identity"]
        got = self.doctor()
        self.assertEqual({c["name"]: c["skipped"] for c in got["checks"] if c["state"] == "skipped"},
                         {name: "the agent is of a version without identities" for name in ("identity", "peer-keys", "peer-identities")})

    @unittest.skipIf(os.geteuid(), "needs another user")
    def test_of_another_user(self):
        """Who may not look into the directory finds nothing there, and is told so."""
        (self.dir / "var/lib/meshverbs").chmod(0o700)
        self.agent(self.answers())
        self.dir.chmod(0o755)
        pathlib.Path(self.dir).parent.chmod(0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", TOOL, "--sysfs", self.dir / "sys", "--root", self.dir, "doctor", "-j"],
                              env=self.env, text=True, capture_output=True, timeout=60, check=False)
        skipped = {c["name"]: c["skipped"] for c in json.loads(done.stdout)["checks"]}
        self.assertEqual(skipped["key-files"], "only root may look into /var/lib/meshverbs")


class Peers(DoctorTest):
    def test_silent(self):
        def more(directory):
            for i in range(7):
                directory.host(f"n{i}", agent_version=0)
        self.peers = self.make_peers(more=more)
        self.found("peers-silent", "n0, n1, n2, n3, n4 and 2 more", "7 hosts of the hosts file", "start meshverbsd there, let UDP port 28791")

    def test_newer(self):
        self.peers = self.make_peers(version=9)
        self.found("peers-version", "b", "newer version", "upgrade meshverbs on this host")

    def test_addresses_twice(self):
        """Of both RoCE versions of an address one finding for each other host; link-local ones may be anywhere."""
        def more(directory):
            directory.host("c")
            directory.rail("mlx5_9", [(0, "fe80::1/64", 2), (3, "10.2.0.1/24", 2), (2, "10.2.0.1/24", 1)], netdev="eth9")

        self.peers = self.make_peers(more=more)
        self.found("addresses-twice", "10.2.0.1 (eth1)", "^mlx5_9 of host c has this address, too", "another address; ip neigh")

    def test_mtu(self):
        self.peers = self.make_peers(mtu=1024)
        got = self.doctor()
        self.assertEqual([(f["check"], f["thing"]) for f in got["findings"]], [("mtu", "mlx5_0 (eth0)"), ("mtu", "mlx5_1 (eth1)")])
        self.assertIn("its RoCE MTU is 4096, that of mlx5_0 on b is 1024", got["findings"][0]["what"])
        self.assertIn("ip link set eth0 mtu", got["findings"][0]["fix"])


class Limits(DoctorTest):
    def test_shell(self):
        self.process("self", "meshverbs", 65536)
        self.found("memlock-shell", "this shell", "RLIMIT_MEMLOCK is 64 KiB", "/etc/security/limits.d.*ulimit -l unlimited")

    def test_shell_in_a_container(self):
        self.process("self", "meshverbs", 8 << 20)
        self.file("run/.containerenv", "")
        self.found("memlock-shell", "this shell", "RLIMIT_MEMLOCK is 8192 KiB", "--ulimit memlock=-1.*base spec")

    def test_shell_of_root(self):
        self.process("self", "meshverbs", 65536)
        self.file("proc/self/status", "CapEff:\t000001ffffffffff\n")
        self.assertEqual(self.doctor()["findings"], [])

    def test_daemons(self):
        self.process(100, "containerd", 8 << 20)
        self.process(200, "slurmd", 8 << 20)
        self.process(201, "slurmd", 8 << 20)
        self.process(300, "sshd", 65536)
        got = self.doctor()
        self.assertEqual([(f["check"], f["thing"]) for f in got["findings"]],
                         [("memlock-daemons", "containerd"), ("memlock-daemons", "slurmd")])
        self.assertIn("RLIMIT_MEMLOCK 8192 KiB, and Slurm's jobs inherit that", got["findings"][1]["what"])
        self.assertIn("systemctl edit slurmd: under [Service] LimitMEMLOCK=infinity", got["findings"][1]["fix"])

    def test_daemons_that_somebody_plays(self):
        """What a user's process, or a container's, calls itself says nothing of the host's daemons."""
        self.process(100, "containerd", 8 << 20, uids="1000\t1000\t1000\t1000")
        self.process(101, "containerd", 8 << 20, uids="1000\t0\t0\t0")
        self.process(102, "slurmd", 8 << 20, pids="102\t7")
        self.process(103, "crio", 8 << 20)
        (self.dir / "proc/103/status").unlink()
        self.process(104, "pbs_mom", 8 << 20, uids="")
        self.assertEqual(self.doctor()["findings"], [])
        (self.dir / "rund/control").unlink()
        self.process(200, "containerd", 8 << 20)
        self.process(201, "condor_master", 8 << 20, uids="0\t64\t0\t64")
        self.assertEqual([f["thing"] for f in self.doctor()["findings"]], ["containerd", "condor_master"])

    def test_daemons_with_enough(self):
        self.process(100, "containerd", "unlimited")
        self.process(200, "slurmd", 64 << 30)
        self.assertEqual(self.doctor()["findings"], [])

    def test_containerd_limit_by_docker(self):
        self.process(100, "containerd", 8 << 20)
        self.file("etc/docker/daemon.json", '{"default-ulimits": {"memlock": {"Name": "memlock", "Soft": -1, "Hard": -1}}}')
        self.assertEqual(self.doctor()["findings"], [])

    def test_docker(self):
        self.file("etc/docker/daemon.json", '{"default-ulimits": {"memlock": {"Name": "memlock", "Soft": 65536, "Hard": 65536}}}')
        self.found("memlock-docker", "/etc/docker/daemon.json", "memlock of 64 KiB", "--ulimit memlock=-1")

    def base_spec(self, soft):
        self.file("etc/containerd/config.toml", 'version = 2\n[plugins]\n  base_runtime_spec = "/etc/containerd/spec.json"\n')
        self.file("etc/containerd/spec.json", json.dumps({"process": {"rlimits": [
            {"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 1024}, {"type": "RLIMIT_MEMLOCK", "soft": soft, "hard": soft}]}}))

    def test_containerd(self):
        self.base_spec(8 << 20)
        self.found("memlock-containerd", "/etc/containerd/spec.json", "memlock of 8192 KiB", "process.rlimits.*restart containerd")

    def test_containerd_with_enough(self):
        self.process(100, "containerd", 8 << 20)
        self.base_spec(2**64 - 1)
        self.assertEqual(self.doctor()["findings"], [])

    def test_systemd(self):
        for text, limit in (("", 8192), ("[Manager]\nDefaultLimitMEMLOCK=64K\n", 64), ("DefaultLimitMEMLOCK = 16M:32M\n", 16384),
                            ("#DefaultLimitMEMLOCK=infinity\n", 8192)):
            with self.subTest(text=text):
                self.file("etc/systemd/system.conf.d/50-memlock.conf", text)
                self.found("memlock-systemd", "systemd", f"memlock of {limit} KiB", "LimitMEMLOCK=infinity", level="note")
                (self.dir / "rund/control").unlink()


if __name__ == "__main__":
    unittest.main()
