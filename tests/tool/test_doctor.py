# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs doctor: a host without findings, and findings about the plugin and limits."""

import hashlib
import json
import pathlib
import re
import unittest

from doctorcase import DoctorTest, GOOD

SOURCE = pathlib.Path(__file__).resolve().parents[2]


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
