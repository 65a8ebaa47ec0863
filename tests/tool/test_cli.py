# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The command line itself: options, help, exit statuses, colours, and that the manual is complete."""

import os
import pathlib
import pty
import re
import select
import subprocess
import unittest

from fixture import TOOL, Netlink, Sysfs, ToolTest

COMMANDS = ["status", "doctor", "gids", "explain", "peers", "paths", "qps", "monitor", "metrics", "drain", "undrain", "keys", "qualify"]
NAMES = ", ".join(COMMANDS)
SOURCE = pathlib.Path(__file__).resolve().parents[2]


class CliTest(ToolTest):
    def test_help(self):
        status, out, err = self.run_tool("--help")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(self.run_tool("help"), (0, out, ""))
        self.assertEqual(self.run_tool(), (2, "", out))
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", out)
            status, text, err = self.run_tool("help", command)
            self.assertEqual((status, err), (0, ""))
            self.assertTrue(text.startswith(f"Usage: meshverbs {command} "))
            self.assertEqual(self.run_tool(command, "--help"), (0, text, ""))

    def test_version(self):
        status, out, err = self.run_tool("--version")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^meshverbs \d+\.\d+\.\d+\n$")

    def test_usage(self):
        for args, error in (
                (["frob"], f"meshverbs: unknown command 'frob'; there are {NAMES} and help\n"
                           "Try: meshverbs help\n"),
                (["help", "frob"], f"meshverbs: unknown command 'frob'; there are {NAMES} and help\n"
                                   "Try: meshverbs help\n"),
                (["-x", "gids"], "meshverbs: unknown option '-x'\nTry: meshverbs help\n"),
                (["--frob=1", "gids"], "meshverbs: unknown option '--frob=1'\nTry: meshverbs help\n"),
                (["--sysfs"], "meshverbs: option '--sysfs' needs a value\nTry: meshverbs help\n"),
                (["--probe-timeout", "soon", "status"],
                 "meshverbs: --probe-timeout 'soon' is not a number of seconds\nTry: meshverbs help\n"),
                (["--probe-timeout", "0", "status"],
                 "meshverbs: --probe-timeout '0' is not a number of seconds\nTry: meshverbs help\n"),
                (["gids", "-x"], "meshverbs gids: unknown option '-x'\nTry: meshverbs help gids\n"),
                (["gids", "--frob"], "meshverbs gids: unknown option '--frob'\nTry: meshverbs help gids\n"),
                (["gids", "-d"], "meshverbs gids: option '-d' needs a value\nTry: meshverbs help gids\n"),
                (["gids", "mlx5_0"],
                 "meshverbs gids: 'mlx5_0' is not expected; a device is named with -d\nTry: meshverbs help gids\n"),
                (["status", "now"], "meshverbs status: 'now' is not expected\nTry: meshverbs help status\n")):
            with self.subTest(args=args):
                self.expect_error(args, error)

    def test_json_before_and_behind(self):
        self.connectx()
        self.assertEqual(self.run_tool("gids", "-j"), self.run_tool("gids", before=["--json"]))

    def test_sysfs_path(self):
        """The variable that libibverbs takes its root from."""
        self.netlink(Netlink())
        sysfs = Sysfs(self.dir / "other")
        sysfs.device("rxe9", driver=None)
        sysfs.port("rxe9", size=4)
        status, out, err = self.run_tool("gids", env={"SYSFS_PATH": str(self.dir / "other")})
        self.assertEqual((status, err), (1, ""))
        self.assertIn("rxe9", out)

    def test_full_disk(self):
        self.connectx()
        for form in ([], ["-j"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run(
                    [TOOL, "--sysfs", self.dir / "sys", "--netlink", self.dir / "netlink", "gids", *form],
                    stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=self.env, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (2, "meshverbs: cannot write the output: No space left on device\n"))

    def on_terminal(self, **env):
        parent, child = pty.openpty()
        with subprocess.Popen([TOOL, "--sysfs", self.dir / "sys", "--netlink", self.dir / "netlink", "gids"],
                              stdout=child, stdin=subprocess.DEVNULL, env={**self.env, "TERM": "xterm", **env}) as process:
            os.close(child)
            out = b""
            while select.select([parent], [], [], 60)[0]:
                try:
                    data = os.read(parent, 65536)
                except OSError:
                    break
                if not data:
                    break
                out += data
        os.close(parent)
        self.assertEqual(process.returncode, 0)
        return out.decode().replace("\r\n", "\n")

    def test_colours(self):
        self.connectx()
        plain = self.run_tool("gids")[1]
        coloured = self.on_terminal()
        self.assertIn("\033[32musable: 10.1.0.0/24 on eth0\033[0m", coloured)
        self.assertEqual(re.sub(r"\033\[\d+m", "", coloured), plain)
        self.assertEqual(self.on_terminal(NO_COLOR="1"), plain)
        self.assertEqual(self.on_terminal(TERM="dumb"), plain)
        self.assertEqual(self.on_terminal(NO_COLOR=""), coloured)

    def test_manual_has_every_setting(self):
        """mesh.conf(5) against the table in the engine, as status lists it."""
        Sysfs(self.dir / "sys")
        (self.dir / "probe").write_text("#!/bin/sh\necho end\n")
        (self.dir / "probe").chmod(0o755)
        page = (SOURCE / "man/mesh.conf.5.rst").read_text()
        settings = self.run_json("status", status=1)["config"]["settings"]
        self.assertTrue(settings)
        for setting in settings:
            with self.subTest(setting=setting["key"]):
                self.assertIn(f"\n[{setting['section']}]\n---", page)
                entry = re.search(rf"\n\*\*{setting['key']}\*\* = (.*?)\n\n", page, re.S)
                self.assertTrue(entry)
                self.assertIn(f"Default: {setting['default'] or 'none'}.", entry[1])
        self.assertEqual(len(re.findall(r"\n\*\*\w+\*\* = ", page)), len(settings))

    def test_manual_has_every_option(self):
        page = (SOURCE / "man/meshverbs.1.rst").read_text()
        completion = (SOURCE / "tools/completion/meshverbs").read_text()
        texts = [self.run_tool("help", *command)[1] for command in ([], *([command] for command in COMMANDS))]
        options = set(re.findall(r"--[a-z][a-z-]*", "".join(texts)))
        self.assertGreater(len(options), 10)
        for option in options:
            with self.subTest(option=option):
                self.assertIn(f"**{option}**", page)
                self.assertIn(option, completion)

    def test_completion(self):
        def complete(*words):
            script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _meshverbs; '
                      'printf "%s\\n" "${COMPREPLY[@]}"')
            return subprocess.run(["bash", "-c", script, "bash", str(SOURCE / "tools/completion/meshverbs"), *words],
                                  text=True, capture_output=True, timeout=60, check=True).stdout.split()

        self.assertEqual(complete("meshverbs", ""), [*COMMANDS, "help"])
        self.assertEqual(complete("meshverbs", "--sysfs", "/sys", "e"), ["explain"])
        self.assertEqual(complete("meshverbs", "-j", "explain", "--s"), ["--seen"])
        self.assertEqual(complete("meshverbs", "gids", "--d"), ["--device"])
        self.assertEqual(complete("meshverbs", "--run-dir", "/run", "pa"), ["paths"])
        self.assertEqual(complete("meshverbs", "paths", "--f"), ["--from"])
        self.assertEqual(complete("meshverbs", "explain", "--to", ""), [])
        self.assertEqual(complete("meshverbs", "drain", "--t"), ["--timeout"])
        self.assertEqual(complete("meshverbs", "keys", ""), ["pin", "forget", "revoke", "restore", "rotate"])
        self.assertEqual(complete("meshverbs", "keys", "ro"), ["rotate"])
        self.assertEqual(complete("meshverbs", "keys", "--j"), ["--json"])
        self.assertEqual(complete("meshverbs", "keys", "rotate", ""), [])

    def test_completion_of_foreign_names(self):
        """TAB offers no name that Return would run; nor does TAB itself run one."""
        place = self.dir / "world"
        for name in ("good-1.d", "$(touch ran)", "`touch ran`", "a;touch ran", "a b", "a&touch ran", "a|b", "a>ran", "a<b", "-o", "~root", "{a,b}",
                     "a\\b", "a'b", 'a"b', "a*", "!!", "#a", "a\ttouch", "a\x1b[A", "\u00a0touch"):
            (place / name).mkdir(parents=True)
        (self.dir / "bin").mkdir()
        fake = self.dir / "bin/meshverbs"
        hosts = ("node-1.rack", "$(touch ran)", "`touch ran`", "a;touch", "${X:=a}", "-x", "{a,b}")
        fake.write_text("#!/bin/sh\ncat <<'END'\n" + "".join(f' "host": "{host}",\n' for host in hosts) + "END\n")
        fake.chmod(0o755)

        def complete(file, function, *words):
            script = ('source "$1"; f=$2; shift 2; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "$f"; printf "%s\\n" "${COMPREPLY[@]}"')
            return subprocess.run(["bash", "-c", script, "bash", str(SOURCE / "tools/completion" / file), function, *words], cwd=place, text=True,
                                  capture_output=True, timeout=60, check=True, env={**os.environ, "PATH": f"{self.dir}/bin:{os.environ['PATH']}"}
                                  ).stdout.splitlines()

        for words in (("meshverbs", "_meshverbs", "meshverbs", "--root", ""), ("meshverbs", "_meshverbs", "meshverbs", "metrics", "-t", ""),
                      ("meshverbs-front", "_meshverbs_front", "meshverbs-front", "--root", ""),
                      ("meshverbs-front", "_meshverbs_front", "meshverbs-front", "--plugin", ""),
                      ("meshverbsd", "_meshverbsd", "meshverbsd", "--state-dir", ""),
                      ("meshverbsd", "_meshverbsd", "meshverbsd", "--config", "")):
            with self.subTest(words=words):
                self.assertEqual(complete(*words), ["good-1.d"])
        self.assertEqual(complete("meshverbs", "_meshverbs", "meshverbs", "keys", "pin", ""), ["node-1.rack"])
        self.assertFalse((place / "ran").exists())


if __name__ == "__main__":
    unittest.main()
