# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs status: what it makes of a load path that goes well, goes wrong, crashes, hangs or is not there.

A shell script stands in for meshverbs-probe: it says what that program and the plugin in it would.
"""

import os
import subprocess
import textwrap
import time
import unittest

from fixture import Sysfs, ToolTest

GOOD_START = """\
stage config ok read
stage environment ok
stage libibverbs ok libibverbs.so.1, private version 34
stage driver-list ok 18 drivers
"""


class StatusTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.etc = self.dir / "etc/libibverbs.d"
        (self.etc / "mesh").mkdir(parents=True)
        (self.etc / "mesh.driver").write_text("driver mesh\n")

    def conf(self, text):
        (self.etc / "mesh/mesh.conf").write_text(text)

    def devices(self, *devices):
        """(name, kernel driver or None)"""
        self.sysfs = Sysfs(self.dir / "sys")
        for i, (name, driver) in enumerate(devices):
            self.sysfs.device(name, driver=driver, pci=f"0000:{i:02x}:00.0")
            if not driver:
                self.sysfs.write(f"class/infiniband/{name}/parent", "eth0\n")

    def script(self, text):
        probe = self.dir / "probe"
        probe.write_text("#!/bin/bash\n" + textwrap.dedent(text))
        probe.chmod(0o755)

    def probe(self, stages="", output="", more=""):
        """One for both ways of loading."""
        self.script(f"cat >>\"$MESHVERBS_REPORT\" <<'EOF'\n{stages}EOF\ncat <<'EOF'\n{output}EOF\n{more}\n")

    def rxe(self, conf="[meshverbs]\nbase = mlx5 rxe\n"):
        self.devices(("rxe0", None))
        self.conf(conf)

    def test_active(self):
        self.devices(("mlx5_0", "mlx5_core"), ("rxe0", None), ("efa_0", "efa"))
        self.conf("[meshverbs]\nbase = mlx5 rxe\n[log]\nlevel = warn\n")
        self.probe(GOOD_START + "stage base:mlx5 ok hooked\nstage base:rxe ok hooked\n"
                   "stage context:mlx5_0 ok overlaid\nstage context:rxe0 ok overlaid\n",
                   "device mlx5_0 opened\ndevice rxe0 opened\ndevice efa_0 opened\nend\n")
        self.expect(["status"], 0, textwrap.dedent("""\
            Version:        VERSION
            Active:         yes, on 2 of 2 RDMA devices to serve
            Mode:           on
            Config file:    DIR/etc/libibverbs.d/mesh/mesh.conf
            Log:            syslog
            Driver file:    DIR/etc/libibverbs.d/mesh.driver
            SETTING           VALUE     DEFAULT
            [meshverbs] base  mlx5 rxe  mlx5
            [log] level       warn      info

            Programs that use libibverbs alone
              Plugin loaded:  yes
              STAGE           STATE  DETAIL
              config          ok     read
              environment     ok     
              libibverbs      ok     libibverbs.so.1, private version 34
              driver-list     ok     18 drivers
              base:mlx5       ok     hooked
              base:rxe        ok     hooked
              context:mlx5_0  ok     overlaid
              context:rxe0    ok     overlaid
              OPENED  ERROR
              mlx5_0  -
              rxe0    -
              efa_0   -

            Programs that link or load libmlx5 (perftest, UCX, NCCL)
              Plugin loaded:  yes
              STAGE           STATE  DETAIL
              config          ok     read
              environment     ok     
              libibverbs      ok     libibverbs.so.1, private version 34
              driver-list     ok     18 drivers
              base:mlx5       ok     hooked
              base:rxe        ok     hooked
              context:mlx5_0  ok     overlaid
              context:rxe0    ok     overlaid
              OPENED  ERROR
              mlx5_0  -
              rxe0    -
              efa_0   -

            RDMA devices
              DEV     PROVIDER  TO SERVE  ACTIVE  DETAIL
              efa_0   efa       no        no      left alone: its provider efa is not in base (mlx5 rxe)
              mlx5_0  mlx5      yes       yes     overlaid
              rxe0    rxe       yes       yes     overlaid
            """).replace("VERSION", self.run_tool("--version")[1].split()[1]))
        got = self.run_json("status")
        self.assertIs(got["active"], True)
        self.assertEqual(got["attention"], [])
        self.assertEqual(got["ways"]["libibverbs"]["stages"][2], {
            "name": "libibverbs", "state": "ok", "text": "libibverbs.so.1, private version 34"})
        self.assertEqual(got["devices"][1], {
            "device": "mlx5_0", "provider": "mlx5", "should_serve": True, "active": True, "text": "overlaid"})
        self.assertEqual(set(got["ways"]), {"libibverbs", "libmlx5"})

    def test_environment_reaches_the_program(self):
        """Nothing is taken out of it, and only the two variables are put in."""
        self.rxe()
        self.script("""\
            printf 'stage environment off MESHVERBS=%s X=%s SYSFS_PATH=%s %s %s\\n' "$MESHVERBS" "$X" "$SYSFS_PATH" \\
                "$#" "$(tr '\\0' '\\n' </proc/$$/environ | grep -c ^MESHVERBS_REPORT=)" >>"$MESHVERBS_REPORT"
            readlink /proc/self/fd/0
            echo end
            """)
        got = self.run_json("status", status=1, env={"MESHVERBS": "off", "X": "a b", "MESHVERBS_REPORT": "/nowhere"})
        text = got["ways"]["libibverbs"]["stages"][0]["text"]
        self.assertEqual(text, "MESHVERBS=off X=a b SYSFS_PATH=DIR/sys 0 1")

    def test_environment_overrides(self):
        self.rxe()
        self.probe("stage environment off switched off by MESHVERBS=off\n", "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1, env={"MESHVERBS": "off", "MESHVERBS_LOG": "/tmp/x"})
        self.assertEqual([got["config"][key] for key in ("mode", "environment", "log_target")], ["off", "off", "/tmp/x"])
        self.assertEqual(got["attention"], ["MESHVERBS=off is in the environment, so the plugin does nothing"])
        out = self.run_tool("status", env={"MESHVERBS": "off", "MESHVERBS_LOG": "/tmp/x"})[1]
        self.assertIn("\nMode:           off (by MESHVERBS)\n", out)
        self.assertIn("\nLog:            /tmp/x (by MESHVERBS_LOG)\n", out)
        self.probe(GOOD_START + "stage context:rxe0 ok overlaid, observing only\n", "device rxe0 opened\nend\n")
        got = self.run_json("status", env={"MESHVERBS": "observe"})
        self.assertEqual((got["config"]["mode"], got["active"]), ("observe", True))
        self.probe(GOOD_START + "stage environment failed MESHVERBS=0 is none of on, observe, off; ignored\n"
                   "stage context:rxe0 ok overlaid\n", "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1, env={"MESHVERBS": "0"})
        self.assertEqual((got["config"]["mode"], got["active"]), ("on", True))
        self.assertEqual(got["attention"], ["environment failed: MESHVERBS=0 is none of on, observe, off; ignored"])

    def test_config_of_the_environment(self):
        self.rxe()
        self.probe(GOOD_START, "device rxe0 opened\nend\n")
        (self.dir / "etc").rename(self.dir / "not-etc")  # --etc is stronger
        (self.dir / "other.conf").write_text("[meshverbs]\nbase = rxe\n")
        got = self.run_json("status", status=1, env={"MESHVERBS_CONF": str(self.dir / "other.conf")})
        self.assertEqual(got["config"]["file"], "DIR/other.conf")
        self.assertEqual(got["devices"][0]["should_serve"], True)

    def test_library_of_the_second_way(self):
        """Loaded when libibverbs looks for drivers, but not in programs that link libmlx5."""
        self.devices(("mlx5_0", "mlx5_core"))
        self.script("""\
            if [ "$1" != libmlx5.so.1 ]; then
                echo stage context:mlx5_0 ok overlaid >>"$MESHVERBS_REPORT"
            fi
            echo device mlx5_0 opened
            echo end
            """)
        got = self.run_json("status", status=1)
        self.assertEqual([got["ways"][way]["loaded"] for way in ("libibverbs", "libmlx5")], [True, False])
        self.assertEqual((got["active"], got["devices"][0]["active"]), (False, False))
        self.assertEqual(len(got["attention"]), 1)
        self.assertIn("install the front (libmlx5.so.1)", got["attention"][0])
        self.assertEqual(got["devices"][0]["text"], "not in programs with libmlx5: the plugin is not loaded")

    def test_no_libmlx5(self):
        self.devices(("mlx5_0", "mlx5_core"))
        self.script("""\
            if [ "$1" ]; then echo library "$1: cannot open"; echo end; exit; fi
            echo stage context:mlx5_0 ok overlaid >>"$MESHVERBS_REPORT"
            echo device mlx5_0 opened; echo end
            """)
        got = self.run_json("status")
        self.assertEqual(list(got["ways"]), ["libibverbs"])

    def test_not_loaded(self):
        self.rxe()
        self.probe(output="device rxe0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertIs(got["ways"]["libibverbs"]["loaded"], False)
        self.assertEqual(got["devices"][0]["text"], "the plugin is not loaded")
        self.assertIn("though", got["attention"][0])
        self.probe(output="device rxe0 opened\nend\n",
                   more="echo 'other: Warning' >&2; echo \"libibverbs: Warning: couldn't load driver 'libmesh-rdmav34.so'\" >&2")
        got = self.run_json("status", status=1)
        self.assertEqual(got["attention"], [
            "the plugin is not loaded: libibverbs: Warning: couldn't load driver 'libmesh-rdmav34.so'"])

    def test_driver_file(self):
        self.rxe()
        self.probe(output="device rxe0 opened\nend\n")
        file = self.etc / "mesh.driver"
        for text, error in ((None, "missing"), ("", "has no line 'driver mesh'"),
                            ("# driver mesh\n", "has no line 'driver mesh'"),
                            ("driver meshes\n", "has no line 'driver mesh'"), ("driver\tmesh\n", None),
                            ("  driver /usr/lib/libibverbs/mesh", None)):
            with self.subTest(text=text):
                file.unlink(missing_ok=True)
                if text is not None:
                    file.write_text(text)
                got = self.run_json("status", status=1)
                self.assertEqual(got["config"]["driver_file_error"], error)
                if error:
                    self.assertIn(f"mesh.driver: {error}; ", got["attention"][0])

    def test_wrong_settings_switch_it_off(self):
        self.rxe()
        self.probe("stage config failed mesh.conf:1: no section\n", "device rxe0 opened\nend\n")
        self.assertEqual(self.run_json("status", status=1)["devices"][0]["text"],
                         "config failed: mesh.conf:1: no section")

    def test_refused_twice_told_once(self):
        self.devices(("mlx5_10", "mlx5_core"), ("mlx5_2", "mlx5_core"))
        self.probe(GOOD_START + "stage calibration refused modify_qp not found\n",
                   "device mlx5_10 opened\ndevice mlx5_2 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual(got["attention"], ["calibration refused: modify_qp not found"])
        self.assertEqual([device["device"] for device in got["devices"]], ["mlx5_2", "mlx5_10"])

    def test_refused(self):
        self.rxe()
        self.probe(GOOD_START + "stage calibration refused modify_qp not found\n", "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual(got["attention"], ["calibration refused: modify_qp not found"])
        self.assertEqual(got["devices"][0]["text"], "calibration refused: modify_qp not found")

    def test_one_of_two(self):
        self.devices(("rxe0", None), ("rxe1", None))
        self.conf("[meshverbs]\nbase = rxe\n")
        self.probe(GOOD_START + "stage base:rxe ok hooked\nstage context:rxe0 ok overlaid\n"
                   "stage context:rxe1 failed no memory\n", "device rxe0 opened\ndevice rxe1 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual([device["active"] for device in got["devices"]], [True, False])
        self.assertEqual(got["attention"], ["rxe1 is not served: context:rxe1 failed: no memory"])

    def test_reasons_of_a_device(self):
        for stages, output, reason in (
                ("stage base:rxe failed not registered\n", "device rxe0 opened\n", "base:rxe failed: not registered"),
                ("", "device rxe0 failed Permission denied\n", "it cannot be opened: Permission denied"),
                ("", "device rxe0 opened\n", "the plugin said nothing about it"),
                ("stage context:rxe00 ok another\n", "device rxe0 opened\n", "the plugin said nothing about it"),
                ("stage context:rxe0 ok overlaid\nstage context:rxe0 off forgotten\n", "device rxe0 opened\n",
                 "context:rxe0 off: forgotten"),
                ("", "", "libibverbs does not list it: are its /dev/infiniband/uverbs* here, and its provider library "
                 "(ibverbs-providers)?")):
            with self.subTest(reason=reason):
                self.rxe()
                self.probe(GOOD_START + stages, output + "end\n")
                got = self.run_json("status", status=1)
                self.assertEqual(got["attention"], [f"rxe0 is not served: {reason}"])
                subprocess.run(["rm", "-r", str(self.dir / "sys")], check=True)

    def test_left_alone(self):
        self.devices(("rxe0", None), ("mlx5_bond_0", "mlx5_core"), ("odd0", "new_driver"))
        self.sysfs.write("devices/pci0000:00/0000:02:00.0/vendor", "0x1234\n")
        self.conf("[meshverbs]\nexclude = mlx5_bond_*\n")
        self.probe(GOOD_START + "stage context:mlx5_bond_0 off excluded\n",
                   "device rxe0 opened\ndevice mlx5_bond_0 opened\ndevice odd0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual([(d["device"], d["provider"], d["should_serve"], d["text"]) for d in got["devices"]], [
            ("mlx5_bond_0", "mlx5", False, "left alone: matches exclude"),
            ("odd0", None, False, "left alone: its provider is not known here"),
            ("rxe0", "rxe", False, "left alone: its provider rxe is not in base (mlx5)")])
        self.assertEqual(len(got["attention"]), 1)
        self.assertIn("no RDMA device here is to be served: see base and exclude in ", got["attention"][0])

    def test_unknown_provider_served(self):
        """The plugin knows better than our table."""
        self.devices(("odd0", "new_driver"))
        self.sysfs.write("devices/pci0000:00/0000:00:00.0/vendor", "0x1234\n")
        self.conf("[meshverbs]\nbase = odd\n")
        self.probe(GOOD_START + "stage context:odd0 ok overlaid\n", "device odd0 opened\nend\n")
        self.assertEqual(self.run_json("status")["devices"][0]["should_serve"], True)

    def test_mode_off(self):
        self.rxe("[meshverbs]\nmode = off\nbase = rxe\n")
        self.probe("stage environment off switched off by that file\n", "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual(got["config"]["mode"], "off")
        self.assertEqual(got["devices"][0]["text"], "mode is off")
        self.assertEqual(len(got["attention"]), 1)
        self.assertTrue(got["attention"][0].endswith("mesh.conf: mode is off, so the plugin does nothing"))

    def test_config_errors(self):
        self.rxe("[meshverbs]\nbase = rxe\ncolour = blue\n\nmode = maybe\n")
        self.probe("", "device rxe0 opened\nend\n")
        errors = self.run_json("status", status=1)["config"]["errors"]
        self.assertEqual([line.split(": ")[0] for line in errors], [
            "DIR/etc/libibverbs.d/mesh/mesh.conf:3", "DIR/etc/libibverbs.d/mesh/mesh.conf:5"])
        self.assertIn("colour", errors[0])
        self.assertIn("maybe", errors[1])
        # The plugin finds the same, and it is told once.
        self.probe("".join(f"stage config failed {line}\n".replace("DIR", str(self.dir)) for line in errors),
                   "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertIs(got["active"], False)
        self.assertEqual(got["attention"][:3], [
            *errors, "DIR/etc/libibverbs.d/mesh/mesh.conf cannot be used as it is, so the plugin does nothing"])
        self.assertEqual(len(got["attention"]), 3)

    def test_unreadable_config(self):
        """A directory in its place: root reads files without permission, so that cannot be the test."""
        self.rxe()
        (self.etc / "mesh/mesh.conf").unlink()
        (self.etc / "mesh/mesh.conf").mkdir()
        self.probe(GOOD_START, "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual(len(got["config"]["errors"]), 1)
        self.assertIn("mesh.conf: ", got["config"]["errors"][0])

    def test_crash(self):
        self.rxe()
        self.probe(GOOD_START + "stage base:rxe ok hooked\n", more="kill -SEGV $$")
        got = self.run_json("status", status=1)
        self.assertEqual(got["ways"]["libibverbs"]["end"], "crashed")
        self.assertEqual(got["attention"], [
            "Programs that use libibverbs alone: the program crashed (signal 11, Segmentation fault); the plugin's last "
            "word was: base:rxe ok hooked. MESHVERBS=off starts programs without it"])
        self.probe(more="kill -ABRT $$")
        got = self.run_json("status", status=1)
        self.assertIn("(signal 6, Aborted), before the plugin said anything", got["attention"][0])

    def test_crash_after_success(self):
        self.rxe()
        self.probe(GOOD_START + "stage context:rxe0 ok overlaid\n", "device rxe0 opened\nend\n", "kill -SEGV $$")
        got = self.run_json("status", status=1)
        self.assertEqual(got["ways"]["libibverbs"]["end"], "crashed")

    def test_early_exit(self):
        self.rxe()
        for code in (0, 3):
            self.probe(GOOD_START, "device rxe0 opened\n", f"exit {code}")
            got = self.run_json("status", status=1)
            self.assertEqual(got["ways"]["libibverbs"]["end"], "exited")
            self.assertIn(f"ended too early, with exit status {code}", got["attention"][0])

    def test_hang(self):
        """The program and what it started are gone afterwards."""
        self.rxe()
        pids = self.dir / "pids"
        self.probe(GOOD_START, more=f"sleep 601 & echo $$ $! >{pids}; wait")
        start = time.monotonic()
        got = self.run_json("status", status=1, before=["--probe-timeout", "0.5"])
        self.assertLess(time.monotonic() - start, 300)
        self.assertEqual(got["ways"]["libibverbs"]["end"], "hung")
        self.assertEqual(len(got["ways"]["libibverbs"]["stages"]), 4)
        self.assertIn("hung and was killed", got["attention"][0])
        for pid in pids.read_text().split():
            self.assertFalse(self.lives(pid), pid)

    def test_left_behind(self):
        """A child of the program that holds the pipes open does not hold us up."""
        self.rxe()
        pids = self.dir / "pids"
        self.probe(GOOD_START + "stage context:rxe0 ok overlaid\n", "device rxe0 opened\nend\n",
                   f"sleep 602 & echo $! >{pids}")
        start = time.monotonic()
        self.run_json("status")
        self.assertLess(time.monotonic() - start, 300)
        self.assertFalse(self.lives(pids.read_text().strip()))

    @staticmethod
    def lives(pid):
        for _ in range(100):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
                    if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return False
            except (FileNotFoundError, ProcessLookupError):
                return False
            time.sleep(0.02)
        return True

    def test_noise(self):
        """More than the pipes hold, on every one of them, and nothing of it of a known form."""
        self.rxe()
        self.script("""\
            for i in {1..20000}; do echo "noise number $i"; done | tee -a "$MESHVERBS_REPORT" >&2
            for i in {1..20000}; do echo "noise number $i"; done
            echo end
            """)
        got = self.run_json("status", status=1)
        self.assertIs(got["ways"]["libibverbs"]["loaded"], False)
        self.assertEqual(got["ways"]["libibverbs"]["end"], "exited")  # its end came too late to be kept

    def test_odd_lines(self):
        self.rxe()
        self.script(r"""
            printf 'stage\nstage only\nstaged x ok\nstage   spaced   ok   far\nstage tab ok \033[31mred\t\xff\xc3\xa4\n' \
                >>"$MESHVERBS_REPORT"
            printf 'stage new sideways text\n\n\nstage last ok cut' >>"$MESHVERBS_REPORT"
            printf 'device\ndevice rxe0 opened\nend\n'
            """)
        got = self.run_json("status", status=1)
        self.assertEqual([(s["name"], s["state"], s["text"]) for s in got["ways"]["libibverbs"]["stages"]], [
            ("spaced", "ok", "  far"), ("tab", "ok", "?[31mred??\u00e4"), ("new", "sideways", "text"),
            ("last", "ok", "cut")])
        self.assertEqual(len(got["ways"]["libibverbs"]["devices"]), 1)
        self.assertEqual(got["attention"][0], "new sideways: text")

    def test_columns_of_wide_letters(self):
        self.rxe()
        self.probe("stage \u00e4\u00f6 ok one\nstage ao ok two\n", "device rxe0 opened\nend\n")
        out = self.run_tool("status", env={"LC_ALL": "C.UTF-8"})[1]
        self.assertIn("\n  \u00e4\u00f6     ok     one\n  ao     ok     two\n", out)

    def test_no_rdma(self):
        Sysfs(self.dir / "sys", with_class=False)
        self.probe(output="list Function not implemented\nend\n")
        got = self.run_json("status", status=1)
        self.assertEqual(len(got["attention"]), 1)
        self.assertIn("class/infiniband: the RDMA modules are not loaded", got["attention"][0])
        (self.dir / "sys/class/infiniband").mkdir(parents=True)
        self.probe(output="end\n")
        got = self.run_json("status", status=1)
        self.assertEqual(len(got["attention"]), 1)
        self.assertIn("rdma link add rxe0", got["attention"][0])

    def test_devices_without_sys(self):
        """libibverbs finds them by netlink; that the modules are not loaded would be wrong."""
        Sysfs(self.dir / "sys", with_class=False)
        self.probe(GOOD_START + "stage context:rxe0 ok overlaid\n", "device rxe0 opened\nend\n")
        got = self.run_json("status", status=1)
        self.assertIn("opens 1 RDMA devices that", got["attention"][0])
        self.assertIn("is /sys mounted here?", got["attention"][0])

    def test_list_failed(self):
        self.rxe()
        self.probe(GOOD_START, "list Permission denied\nend\n")
        self.assertIn("libibverbs cannot list the RDMA devices: Permission denied",
                      self.run_json("status", status=1)["attention"])

    def test_no_probe(self):
        self.rxe()
        self.expect_error(["--probe", "/nonexistent/probe", "status"],
                          "meshverbs: cannot run meshverbs-probe: No such file or directory; it belongs to meshverbs, "
                          "reinstall it\n")

    def test_real_probe(self):
        """The program itself, on whatever this machine has."""
        probe = os.environ["MESHVERBS_PROBE"]
        done = subprocess.run([probe, "libnothing.so.9"], text=True, capture_output=True, timeout=60, check=True)
        first, last = done.stdout.splitlines()
        self.assertRegex(first, r"^library libnothing\.so\.9: ")
        self.assertEqual(last, "end")
        done = subprocess.run([probe], text=True, capture_output=True, timeout=60, check=True)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[-1], "end")
        for line in lines[:-1]:
            self.assertRegex(line, r"^(list .+|device \S+ (opened|failed .+))$")
        # Without --probe the tool finds the one that was built with it.
        Sysfs(self.dir / "sys")
        self.assertEqual(self.run_json("status", status=1)["ways"]["libibverbs"]["end"], "done")


if __name__ == "__main__":
    unittest.main()
