#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's maintainer scripts as dpkg calls them: what they do to the agent when the package comes, is replaced, goes and comes back.

dpkg, with a database and a folder of the test's own, and a /run that nobody else has; systemd and udev only note what they are asked for.

    test_scripts.py
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DEBIAN = pathlib.Path(__file__).resolve().parents[2] / "debian"
USER = "systemd-sysusers meshverbs.conf"  # each time that the package is configured, which makes no second user
START = [USER, "meshverbs-arp apply", "udevadm trigger --subsystem-match=infiniband --action=change"]
RESTART = [USER, "try-restart meshverbsd.service"]  # not started, if somebody has stopped it
STOP = ["stop meshverbsd.service", "meshverbs-arp restore"]
STUBS = ("meshverbs-arp", "systemctl", "udevadm", "deb-systemd-invoke", "systemd-sysusers", "userdel")
CONTROL = "Package: {}\nVersion: {}\nArchitecture: all\nMaintainer: test <test@meshverbs.example>\nDescription: test\n"


class Scripts(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.place)
        for folder in ("bin", "instdir", "dpkg/info", "dpkg/updates", "run/systemd/system"):
            (self.place / folder).mkdir(parents=True)
        (self.place / "dpkg/status").touch()
        for name in STUBS:
            path = self.place / "bin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.place}/asked\n')
            path.chmod(0o755)

    def deb(self, version, package="meshverbs"):
        """A package of nothing but a configuration file, which a removal leaves, and the scripts."""
        tree = self.place / f"{package}-{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "DEBIAN/control").write_text(CONTROL.format(package, version))
        (tree / "DEBIAN/conffiles").write_text("/etc/mesh.conf\n")
        (tree / "etc").mkdir()
        (tree / "etc/mesh.conf").touch()
        for script in DEBIAN.glob(f"{package}.p*"):
            if script.suffix[1:] in ("preinst", "postinst", "prerm", "postrm"):
                path = tree / "DEBIAN" / script.suffix[1:]
                path.write_text(script.read_text().replace("/usr/libexec/meshverbs/", ""))  # one may be installed here
                path.chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(tree), f"{tree}.deb"], check=True, stdout=subprocess.DEVNULL)
        return f"{tree}.deb"

    def dpkg(self, *words, status=0):
        """What systemd and udev were asked for meanwhile."""
        asked = self.place / "asked"
        asked.write_text("")
        command = ["dpkg", f"--admindir={self.place}/dpkg", f"--instdir={self.place}/instdir", f"--log={self.place}/log",
                   "--force-script-chrootless", *words]
        script = f'mount --bind {self.place}/run /run && exec "$@"'
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PATH": f"{self.place}/bin:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, status, done.stdout)
        return [re.sub("^deb-systemd-invoke | --root=[^ ]*", "", line) for line in asked.read_text().splitlines() if not re.search("reload$|^userdel", line)]

    def left(self):
        return sorted(path.name for path in (self.place / "run").iterdir())

    def test_comes_and_is_replaced(self):
        self.assertEqual(self.dpkg("-i", self.deb("1")), START)
        self.assertEqual(self.dpkg("-i", self.deb("2")), RESTART)
        self.assertEqual(self.left(), ["systemd"])

    def test_goes_and_comes_back(self):
        first, second = self.deb("1"), self.deb("2")
        self.dpkg("-i", first)
        self.assertEqual(self.dpkg("-r", "meshverbs"), STOP)
        self.assertTrue((self.place / "instdir/etc/mesh.conf").exists())
        self.assertEqual(self.dpkg("-i", second), START)
        self.assertEqual(self.dpkg("-i", second), RESTART)
        self.assertEqual(self.left(), ["systemd"])

    def test_goes_without_a_trace_and_comes_back(self):
        first = self.deb("1")
        self.dpkg("-i", first)
        self.assertEqual(self.dpkg("-P", "meshverbs"), STOP)
        self.assertEqual(self.dpkg("-i", first), START)

    def test_identity_stays_until_a_purge(self):
        """What the agent has made is kept by an upgrade and a removal: other hosts would take this one for another. A purge leaves nothing."""
        state = self.place / "instdir/var/lib/meshverbs"
        first, second = self.deb("1"), self.deb("2")
        self.dpkg("-i", first)
        self.assertFalse(state.exists())
        state.mkdir(parents=True)
        files = [state / name for name in ("identity", "known_hosts", "known_hosts.new")]
        for file in files:
            file.write_text("x")
        for words in (("-i", second), ("-r", "meshverbs"), ("-i", first)):
            self.dpkg(*words)
            self.assertTrue(all(file.exists() for file in files), words)
        self.dpkg("-P", "meshverbs")
        self.assertFalse(state.exists())
        self.assertTrue(state.parent.exists())

    def test_unpacked_and_configured_later(self):
        self.assertEqual(self.dpkg("--unpack", self.deb("1")), [])
        self.assertEqual(self.dpkg("--configure", "meshverbs"), START)
        self.assertEqual(self.left(), ["systemd"])

    def test_comes_to_nothing(self):
        self.dpkg("-i", self.deb("1", "other"))  # which has the same file
        self.assertEqual(self.dpkg("-i", self.deb("1"), status=1), [])
        self.assertEqual(self.left(), ["systemd"])

    def test_in_an_image(self):
        """Without systemd: the user is made, nothing else is asked for, and nothing left behind: no identity, which each host is to have for itself."""
        shutil.rmtree(self.place / "run/systemd")
        self.assertEqual(self.dpkg("-i", self.deb("1")), [USER])
        self.assertEqual(self.left(), [])
        self.assertEqual([path.name for path in (self.place / "instdir").iterdir()], ["etc"])


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("dpkg-deb"):
        print("skipped: needs dpkg, and root for a /run of its own")
        sys.exit(77)
    unittest.main()
