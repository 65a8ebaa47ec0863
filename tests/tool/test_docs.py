# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Documentation against the code: commands, settings, files and figures that it names are there."""

import fnmatch
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCS = sorted((TOP / "docs").glob("*.md"))
PAGES = [TOP / "README.md", *DOCS]
GUIDES = [TOP / "CONTRIBUTING.md", *sorted((TOP / "sim").rglob("README.md")), *sorted((TOP / "tests").rglob("README.md"))]
EXAMPLES = sorted((TOP / "docs/examples").glob("*.yaml"))
ROOMS = sorted({path.parent for part in ("libmeshverbs", "providers/mesh", "meshverbsd", "tools")
                for path in (TOP / part).glob("*/*.[ch]")})
PARTS = [TOP / part for part in ("bench", "libmeshverbs", "meshverbsd", "providers", "sim", "tests", "tools")]
SOURCES = {f"/{path.relative_to(TOP)}" for part in PARTS for path in part.rglob("*.[ch]")}
TOOL = os.environ["MESHVERBS_TOOL"]


def named_sources(text):
    """Return: names of source files in the text, as patterns: `gid.[ch]` is gid.c and gid.h, `cmd_NAME.c` any command's."""
    names = re.findall(r"`([\w./*-]+\.(?:[ch]|\[ch\]))`", text)
    return [re.sub("[A-Z]{2,}", "*", re.sub(r"^(\.\./)+", "", stem) + suffix)
            for name in names for stem, dot, end in [name.rpartition(".")] for suffix in (dot + letter for letter in end.strip("[]"))]


def documents(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


class DocsTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in [*PAGES, *GUIDES]:
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
                if "://" not in target:
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")

    def test_commands_exist(self):
        text = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=True).stdout
        known = set(re.findall(r"^  (\w+) ", text, re.M))
        self.assertIn("doctor", known)
        for page in [*PAGES, *EXAMPLES]:
            text = page.read_text()
            code = "\n".join(re.findall(r"^    .*$", text, re.M) + re.findall(r"`([^`]+)`", text))
            named = set(re.findall(r"(?:^ *|[;|] *|-a )meshverbs (\w+)", code, re.M))
            self.assertEqual(named - known, set(), page.name)

    def test_settings_exist(self):
        known = set(re.findall(r"^#(\w+) = ", (TOP / "etc/mesh.conf").read_text(), re.M) +
                    re.findall(r"^#(\w+) =$", (TOP / "etc/mesh.conf").read_text(), re.M))
        self.assertIn("moves", known)
        for page in PAGES:
            named = {n for n in re.findall(r"`(\w+) = [^`=]+`", page.read_text()) if not n.startswith("arp_")}  # the kernel's
            self.assertEqual(named - known, set(), page.name)

    def test_paths_of_the_tree_exist(self):
        for page in PAGES:
            for path in re.findall(r"`((?:sim|tests|tools|docs|libmeshverbs|meshverbsd|providers|scripts)/[\w./-]+)`", page.read_text()):
                self.assertTrue((TOP / path).exists(), f"{page.name}: {path}")

    def test_source_files_exist(self):
        """By any part of their path, such as `gid.h`. Other documents also name files of Linux and of rdma-core."""
        pages = [TOP / "CONTRIBUTING.md", TOP / "docs/overview.md", TOP / "docs/where.md", TOP / "docs/glossary.md",
                 *(page for part in PARTS for page in part.rglob("README.md"))]
        unknown = [f"{page.relative_to(TOP)}: {name}" for page in pages for name in named_sources(page.read_text())
                   if not fnmatch.filter(SOURCES, f"*/{name}")]
        self.assertEqual(unknown, [])

    def test_functions_exist(self):
        pages = [TOP / "CONTRIBUTING.md", *(TOP / "docs").rglob("*.md"), *(page for part in PARTS for page in part.rglob("README.md"))]
        known = {word for path in SOURCES for word in re.findall(r"\b(?:mesh|mv|md)_\w+", (TOP / path[1:]).read_text())}
        self.assertIn("mesh_conn_check", known)
        unknown = [f"{page.relative_to(TOP)}: {name}()" for page in pages
                   for name in re.findall(r"`((?:mesh|mv|md)_\w+)\(\)`", page.read_text()) if name not in known]
        self.assertEqual(unknown, [])

    def test_places_have_what_is_named(self):
        """A row of where.md names files, and functions that are in one of them."""
        wrong = []
        for row in re.findall(r"^\| (?!question).* \| (.*) \|$", (TOP / "docs/where.md").read_text(), re.M):
            stems = re.findall(r"`([\w./-]+\.[ch])`", row)
            there = "".join((TOP / path[1:]).read_text() for path in SOURCES if any(path.endswith("/" + stem) for stem in stems))
            wrong += [f"{name}() of {row}" for name in re.findall(r"`(\w+)\(\)`", row) if not re.search(rf"\b{name}\(", there)]
        self.assertEqual(wrong, [])

    def test_tests_are_in_their_files(self):
        """A page names a file of tests, and behind it tests that are in it."""
        for page in sorted((TOP / "docs").glob("*.md")):
            for path, tests in re.findall(r"`(tests/[\w./-]+\.(?:c|py))`,?((?:[\s,(]+test_\w+)+)", page.read_text()):
                there = (TOP / path).read_text()
                for name in re.findall(r"test_\w+", tests):
                    with self.subTest(page=page.name, path=path):
                        self.assertRegex(there, rf"\b{name}\b")

    def test_rooms_name_their_files(self):
        """The README of a room names each source file of the room; the first column of its tables names no others."""
        wrong = []
        for room in ROOMS:
            text = (room / "README.md").read_text()
            files, names = [path.name for path in room.glob("*.[ch]")], named_sources(text)
            wrong += [f"not in {room.relative_to(TOP)}/README.md: {file}"
                      for file in files if not any(fnmatch.fnmatch(file, name) for name in names)]
            wrong += [f"{room.relative_to(TOP)}/README.md: there is no {name}"
                      for name in named_sources("\n".join(re.findall(r"^\| (.*?) \|", text, re.M))) if not fnmatch.filter(files, name)]
        self.assertEqual(wrong, [])

    def test_programs_of_the_tree_can_be_run(self):
        """What a command line or the first column of a table of commands begins with."""
        for page in [*PAGES, *GUIDES]:
            for path in re.findall(r"^(?: {4}|\| `)(?:[A-Z_]+=\S+ )*((?:sim|tests|bench|scripts)/[\w./-]+)", page.read_text(), re.M):
                file = TOP / path
                if not file.is_dir():
                    self.assertTrue(os.access(file, os.X_OK), f"{page}: {path}")
                    self.assertEqual(file.read_bytes()[:2], b"#!", f"{page}: {path}")

    def test_figures_of_alerts_exist(self):
        """Names of counters against the tables of agent and processes."""
        tables = (TOP / "meshverbsd/admin/metrics.c").read_text() + (TOP / "libmeshverbs/wire/counts.c").read_text()
        known = {"meshverbs_pause_seconds"} | {f"meshverbs_{name}" for name in re.findall(r'"([a-z_]+)"', tables)}
        for name in re.findall(r"\bmeshverbs_[a-z_]+", (TOP / "docs/operations.md").read_text()):
            self.assertIn(name.removesuffix("_total"), known)

    def test_dashboard(self):
        dashboard = json.loads((TOP / "docs/grafana.json").read_text())
        ids = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(set(ids)), len(ids))
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                self.assertEqual(target["expr"].count("("), target["expr"].count(")"), target["expr"])
                self.assertIn('instance=~"$instance"', target["expr"])
            box = panel["gridPos"]
            for other in dashboard["panels"]:
                there = other["gridPos"]
                apart = box["x"] + box["w"] <= there["x"] or there["x"] + there["w"] <= box["x"] or \
                    box["y"] + box["h"] <= there["y"] or there["y"] + there["h"] <= box["y"]
                self.assertTrue(other is panel or apart, (panel["title"], other["title"]))


class ManualTest(unittest.TestCase):
    """Every program's options are in its page and in its completion, and every variable has a line."""

    def test_options(self):
        for program in ("meshverbsd", "meshverbs-front"):
            text = subprocess.run([os.environ[program.upper().replace("-", "_")], "--help"], capture_output=True, text=True,
                                  check=True).stdout
            options = set(re.findall(r"^ .*?(--[a-z][a-z-]*)", text, re.M))
            self.assertGreater(len(options), 3)
            page = (TOP / f"man/{program}.8.rst").read_text().replace("\\", "")
            completion = (TOP / f"tools/completion/{program}").read_text()
            for option in options - {"--help"}:
                self.assertIn(option, page, program)
                self.assertIn(option, completion, program)

    def complete(self, program, *words):
        script = ('source "$1"; COMP_WORDS=("${@:3}"); COMP_CWORD=$(($# - 3)); "$2"; printf "%s\\n" "${COMPREPLY[@]}"')
        return subprocess.run(["bash", "-c", script, "bash", str(TOP / "tools/completion" / program), "_" + program.replace("-", "_"),
                               program, *words], text=True, capture_output=True, timeout=60, check=True).stdout.split()

    def test_completion(self):
        self.assertEqual(self.complete("meshverbsd", "--fo"), ["--foreground"])
        self.assertEqual(self.complete("meshverbsd", "--port", ""), [])
        self.assertEqual(self.complete("meshverbs-front", "up"), ["update"])
        self.assertEqual(self.complete("meshverbs-front", "--plug"), ["--plugin"])

    def test_environment(self):
        page = (TOP / "man/meshverbs.7.rst").read_text()
        sources = "".join(path.read_text() for path in (TOP / "providers/mesh").rglob("*.c"))
        names = set(re.findall(r'secure_getenv\("(MESHVERBS\w*)"\)', sources))
        self.assertIn("MESHVERBS_REPORT", names)
        for name in names:
            self.assertIn(f"\n{name}\n", page)


@unittest.skipUnless(yaml, "no python3-yaml; scripts/deps installs it")
class ExamplesTest(unittest.TestCase):
    def test_volumes_are_mounted_where_they_are_looked_for(self):
        for path in EXAMPLES:
            for document in documents(path):
                spec = document.get("spec", {})
                spec = spec.get("template", {}).get("spec", spec)
                volumes = {volume["name"] for volume in spec.get("volumes", [])}
                used = set()
                for container in spec.get("containers", []):
                    used |= {mount["name"] for mount in container.get("volumeMounts", [])}
                    places = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
                    run_dir = next((entry["value"] for entry in container.get("env", []) if entry["name"] == "MESHVERBS_RUN_DIR"),
                                   "/run/meshverbs")
                    if "--run-dir" in container["command"]:
                        run_dir = container["command"][container["command"].index("--run-dir") + 1]
                    if places:
                        self.assertTrue(any(f"{run_dir}/".startswith(f"{place}/") for place in places), (path.name, container["name"]))
                self.assertEqual(used, volumes, path.name)

    def test_no_container_of_a_program_has_the_control_directory(self):
        for path in EXAMPLES:
            for document in documents(path):
                spec = document.get("spec", {})
                spec = spec.get("template", {}).get("spec", spec)
                hosts = {volume["name"]: volume["hostPath"]["path"] for volume in spec.get("volumes", []) if "hostPath" in volume}
                for container in spec.get("containers", []):
                    for mount in container.get("volumeMounts", []):
                        place = f"{hosts.get(mount['name'], '/none')}/"
                        if container["command"][0] != "meshverbsd":
                            self.assertFalse("/run/meshverbsd/".startswith(place), (path.name, container["name"]))
                            self.assertTrue(mount["readOnly"], (path.name, container["name"]))

    def test_settings_of_the_daemonset(self):
        conf = next(document["data"]["mesh.conf"] for document in documents(TOP / "docs/examples/daemonset.yaml") if document["kind"] == "ConfigMap")
        done = subprocess.run([TOOL, "--probe", os.environ["MESHVERBS_PROBE"], "status", "-j"], capture_output=True, text=True, check=False,
                              env={**os.environ, "MESHVERBS_CONF": self.write(conf)})
        self.assertEqual(json.loads(done.stdout)["config"]["errors"], [])

    def write(self, text):
        file = tempfile.NamedTemporaryFile("w", suffix=".conf")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_cdi(self):
        spec, = documents(TOP / "docs/examples/cdi.yaml")
        self.assertRegex(spec["kind"], r"^[A-Za-z][\w.-]*[A-Za-z0-9]/[A-Za-z][\w-]*[A-Za-z0-9]$")
        self.assertEqual([mount["containerPath"] for mount in spec["containerEdits"]["mounts"]], ["/run/meshverbs"])
        for device in spec["devices"]:
            self.assertRegex(device["name"], r"^[A-Za-z0-9][\w.:-]*$")
            for node in device["containerEdits"]["deviceNodes"]:
                self.assertRegex(node["path"], r"^/dev/infiniband/uverbs\d+$")


if __name__ == "__main__":
    unittest.main()
