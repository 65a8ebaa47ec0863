# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs status with the real libibverbs, its mlx5 provider, and the real plugin.

libibverbs lists a device of a made-up sysfs if its file in /dev/infiniband exists, which in a mount namespace
of our own it does. It cannot be opened, but all drivers are loaded and hooked before that.
"""

import os
import pathlib
import subprocess
import sys
import unittest

from fixture import Sysfs, ToolTest, V2

SKIPPED = 77


class PluginTest(ToolTest):
    def setUp(self):
        super().setUp()
        sysfs = Sysfs(self.dir / "sys")
        sysfs.device("mlx5_0")
        sysfs.port("mlx5_0", gids=[(3, "10.1.0.1", V2, "eth0")], size=8)
        sysfs.write("class/infiniband/mlx5_0/node_type", "1: CA\n")
        verbs = "class/infiniband_verbs"
        sysfs.write(f"{verbs}/abi_version", "6\n")
        for name, text in (("ibdev", "mlx5_0"), ("abi_version", "1"), ("dev", "231:192")):
            sysfs.write(f"{verbs}/uverbs0/{name}", text + "\n")
        (sysfs.root / verbs / "uverbs0/device").symlink_to("../../../devices/pci0000:00/0000:03:00.0")
        sysfs.write("devices/pci0000:00/0000:03:00.0/device", "0x101b\n")
        sysfs.write("devices/pci0000:00/0000:03:00.0/modalias", "pci:v000015B3d0000101Bsv00sd00bc02sc00i00\n")
        self.conf = self.dir / "mesh.conf"
        self.conf.write_text(f"[log]\ntarget = {self.dir}/log\n")
        # libibverbs' way of naming a driver outside its directory
        self.env.update(IBV_DRIVERS=os.environ["MESHVERBS_DRIVER"], MESHVERBS_CONF=str(self.conf))

    def stages(self, got, way="libibverbs"):
        return {stage["name"]: stage["state"] for stage in got["ways"][way]["stages"]}

    def test_loaded(self):
        got = self.run_json("status", status=1)
        way = got["ways"]["libibverbs"]
        self.assertEqual((way["loaded"], way["end"]), (True, "done"), got)
        stages = self.stages(got)
        self.assertEqual([stages.get(name) for name in ("config", "libibverbs", "driver-list", "base:mlx5")], ["ok"] * 4)
        self.assertEqual([device["device"] for device in way["devices"]], ["mlx5_0"])
        self.assertEqual(got["config"]["file"], "DIR/mesh.conf")
        self.assertEqual(got["config"]["driver_environment"], os.environ["MESHVERBS_DRIVER"])
        self.assertIn("mlx5_0 is not served: it cannot be opened: No such file or directory", got["attention"])

    def test_inert_with_libmlx5(self):
        """Why status looks twice: without a front, nothing loads us into these programs."""
        got = self.run_json("status", status=1)
        self.assertIs(got["ways"]["libmlx5"]["loaded"], False)
        self.assertIn("install the front (libmlx5.so.1)", got["attention"][0])

    def test_off(self):
        got = self.run_json("status", status=1, env={"MESHVERBS": "off"})
        self.assertEqual(self.stages(got).get("environment"), "off")
        self.assertNotIn("base:mlx5", self.stages(got))
        self.assertIn("MESHVERBS=off is in the environment, so the plugin does nothing", got["attention"])

    def test_wrong_settings_told_once(self):
        self.conf.write_text(f"[log]\ntarget = {self.dir}/log\ncolour = blue\n")
        got = self.run_json("status", status=1)
        self.assertEqual(self.stages(got).get("config"), "failed")
        self.assertNotIn("base:mlx5", self.stages(got))
        self.assertIs(got["active"], False)
        self.assertEqual([line for line in got["attention"] if "colour" in line], got["config"]["errors"])

    def wrong_everywhere(self, but=()):
        """A mesh.conf in which every setting but some has a value that none takes. Return: {setting: its line}"""
        settings, lines, at = self.run_json("status", status=1)["config"]["settings"], [], {}
        for name in settings:
            section, key = name["section"], name["key"]
            if (section, key) not in but:
                lines += [f"[{section}]", f"{key} = {'x' * 300}"]
                at[key] = len(lines)
        self.conf.write_text("\n".join(lines) + "\n")
        return at

    def test_every_wrong_value(self):
        """Each is named, and where the default may be the opposite of what was meant, nothing is done."""
        at = self.wrong_everywhere()
        log = self.dir / "named"
        got = self.run_json("status", status=1, env={"MESHVERBS_LOG": str(log)})
        self.assertEqual(self.stages(got).get("config"), "failed")
        self.assertNotIn("base:mlx5", self.stages(got))
        for key, line in at.items():
            self.assertIn(f"{self.conf}:{line}: bad value", log.read_text())
            self.assertRegex(log.read_text(), f":{line}: bad value 'x+...' for {key}: write .*; running as without meshverbs")
            self.assertIn(f"mesh.conf:{line}: ", "".join(got["config"]["errors"]))

    def test_every_harmless_wrong_value(self):
        at = self.wrong_everywhere(but=[("meshverbs", key) for key in ("mode", "base", "exclude", "moves")])
        log = self.dir / "named"
        got = self.run_json("status", status=1, env={"MESHVERBS_LOG": str(log)})
        self.assertEqual((self.stages(got).get("config"), self.stages(got).get("base:mlx5")), ("ok", "ok"))
        for key, line in at.items():
            self.assertRegex(log.read_text(), f"{self.conf}:{line}: bad value 'x+...' for {key}: write .*; its default serves")
            self.assertIn(f"mesh.conf:{line}: ", "".join(got["attention"]))
        self.assertNotIn("does nothing", "".join(got["attention"]))

    def test_every_wrong_value_in_the_agent(self):
        agent = os.environ.get("MESHVERBSD")
        if not agent:
            self.skipTest("no MESHVERBSD")
        at = self.wrong_everywhere()
        got = subprocess.run([agent, "--foreground", "--config", self.conf, "--run-dir", self.dir / "no/such/folder"],
                             text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(got.returncode, 1, got)
        for key, line in at.items():
            self.assertRegex(got.stderr, f"{self.conf}:{line}: bad value 'x+...' for {key}: write ")

    def test_missing_plugin(self):
        got = self.run_json("status", status=1, env={"IBV_DRIVERS": "/nonexistent/mesh"})
        self.assertIs(got["ways"]["libibverbs"]["loaded"], False)
        self.assertIn("/nonexistent/mesh", "".join(got["ways"]["libibverbs"]["messages"]))


def in_namespace():
    """Runs this file once more, in namespaces of its own. Return: exit status."""
    if pathlib.Path("/sys/class/infiniband").exists():
        print("skipped: the kernel has RDMA, so libibverbs asks it for devices and reads no made-up sysfs")
        return SKIPPED
    setup = "mount -t tmpfs none /dev && mkdir /dev/infiniband && touch /dev/infiniband/uverbs0 /dev/null"
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        check = subprocess.run([*command, setup], capture_output=True, text=True, check=False)
        error = check.stderr.strip() if check.returncode else None
    except FileNotFoundError as missing:
        error = str(missing)
    if error:
        print(f"skipped: no mount namespace with a /dev of its own can be had: {error}")
        return SKIPPED
    return subprocess.run([*command, setup + ' && exec "$@"', "sh", sys.executable, "-B", *sys.argv],
                          env={**os.environ, "IN_NAMESPACE": "1"}, check=False).returncode


if __name__ == "__main__":
    if "IN_NAMESPACE" not in os.environ:
        sys.exit(in_namespace())
    unittest.main()
