#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the packaging says is true of the tree: versions, components, paths, options, scripts.

    test_metadata.py BUILD
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

REPO = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else REPO / "build/release"
DEBIAN, SPEC = REPO / "debian", REPO / "rpm/meshverbs.spec"
SCRIPTS = [*DEBIAN.glob("*.p*inst"), *DEBIAN.glob("*.prerm"), *DEBIAN.glob("*.postrm"),
           *(path for path in (DEBIAN / "tests").iterdir() if path.name != "control"), REPO / "udev/meshverbs-arp"]


def installed(*options):
    """Files that cmake --install puts, as paths on a host."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["cmake", "--install", str(BUILD), *options], env={**os.environ, "DESTDIR": place}, check=True,
                       stdout=subprocess.DEVNULL)
        return {"/" + os.path.relpath(os.path.join(top, name), place) for top, _, names in os.walk(place) for name in names}


class Metadata(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.provider, cls.host = installed("--component", "provider"), installed("--component", "host")

    def test_one_version(self):
        version = re.search(r"^project\(meshverbs VERSION ([0-9.]+) ", (REPO / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertEqual(re.match(r"meshverbs \(([0-9.]+)\)", (DEBIAN / "changelog").read_text())[1], version)
        spec = SPEC.read_text()
        self.assertEqual(re.search(r"^Version: +(\S+)$", spec, re.M)[1], version)
        self.assertEqual(re.search(r"%changelog\n\* .* - ([0-9.]+)-\d+\n", spec)[1], version)

    def test_components(self):
        """Nothing is in both packages, and nothing in none."""
        self.assertEqual(self.provider & self.host, set())
        self.assertEqual(self.provider | self.host, installed())

    def test_the_provider_stands_alone(self):
        names = {pathlib.Path(path).name for path in self.provider}
        self.assertEqual({name for name in names if not re.fullmatch(r"libmesh-rdmav\d+\.so", name)},
                         {"meshverbs-provider.so", "mesh.driver", "meshverbs-front", "meshverbs-front.8", "meshverbs.7"})
        # Private ABIs of old, of today, and to come: each program that does not find its own says so on standard error.
        self.assertLessEqual({f"libmesh-rdmav{abi}.so" for abi in (22, 25, 34, 65, 66, 79)}, names)

    def test_programs_have_manuals(self):
        both = self.provider | self.host
        pages = {pathlib.Path(path).stem for path in both if "/man/man" in path}
        programs = {pathlib.Path(path).name for path in both if re.search("/s?bin/", path)} | {"meshverbs-arp"}
        self.assertEqual(programs - pages, set())

    def test_paths_in_files(self):
        """What units and rules run is what is installed."""
        for file in (BUILD / "systemd/meshverbsd.service", BUILD / "udev/90-meshverbs-arp.rules", DEBIAN / "meshverbs.postinst",
                     DEBIAN / "meshverbs.prerm", DEBIAN / "tests/agent"):
            found = re.findall(r"(?:ExecStart=|RUN\+=\"|^\s*(?:if .* )?)(/usr/\S+/meshverbs\S*)", file.read_text(), re.M)
            self.assertTrue(found, file)
            self.assertEqual(set(found) - self.host, set(), file)

    def test_options_in_scripts(self):
        said = subprocess.run([str(BUILD / "providers/front/meshverbs-front"), "--help"], text=True, capture_output=True, check=True).stdout
        for file in (*SCRIPTS, SPEC):
            for line in re.findall(r"^\s*meshverbs-front (.*?)(?: \|\|.*)?$", file.read_text(), re.M):
                for word in line.split():
                    self.assertRegex(said, rf"(?m)(?:, |^  ){re.escape(word)} ", f"{file}: {line}")

    def test_scripts_are_shell(self):
        for file in SCRIPTS:
            with self.subTest(file.name):
                subprocess.run(["sh", "-n", str(file)], check=True)

    def test_rules_leave_permissions_alone(self):
        for file in (BUILD / "udev/90-meshverbs-arp.rules", REPO / "udev/90-meshverbsd.rules"):
            text = re.sub("^#.*", "", file.read_text(), flags=re.M)
            self.assertIn("SUBSYSTEM==", text)
            self.assertNotRegex(text, "MODE|OWNER|GROUP|NAME|SYMLINK|SECLABEL")

    def test_identity(self):
        """The agent makes it when it starts, for an image is no host: no package has one, and no script of an installation makes one. Its directory
        is the unit's, the agent's and the one that a purge removes; what a removal leaves is said."""
        unit = (BUILD / "systemd/meshverbsd.service").read_text()
        self.assertIn("\nStateDirectory=meshverbs\nStateDirectoryMode=0711\n", unit)
        usage = subprocess.run([str(BUILD / "meshverbsd/meshverbsd"), "--help"], text=True, capture_output=True, check=True).stdout
        self.assertIn("(default: /var/lib/meshverbs;", usage)
        self.assertEqual([path for path in self.provider | self.host if path.startswith("/var/")], [])
        for file in (*SCRIPTS, SPEC):
            lines = [line.strip() for line in file.read_text().splitlines() if "/var/lib/meshverbs" in line]
            self.assertEqual(lines, ['rm -rf "${DPKG_ROOT:-}/var/lib/meshverbs"'] if file.name == "meshverbs.postrm" else [], file)
        table = (REPO / "docs/packages.md").read_text()
        for event in ("removal", "purge (Debian)", "erase (RPM)"):
            self.assertIn("/var/lib/meshverbs", re.search(rf"(?m)^\| {re.escape(event)} \| (.*)$", table)[1])

    def test_link_of_the_driver_file(self):
        """debian/rules takes mesh.driver where cmake puts it."""
        self.assertIn("/etc/libibverbs.d/mesh.driver", self.provider)

    def test_autopkgtests_exist(self):
        named = re.findall(r"^Tests: (.*)$", (DEBIAN / "tests/control").read_text(), re.M)
        self.assertEqual(sorted(" ".join(named).split()), sorted(p.name for p in (DEBIAN / "tests").iterdir() if p.name != "control"))


if __name__ == "__main__":
    unittest.main()
