#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs qualify: what it makes of what the program that tries out a device says, or does not say. The program is a script here, which
lies beside a copy of the tool."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOL = os.environ["MESHVERBS_TOOL"]
KEY = {"version": 1, "board_id": "MT_1", "firmware": "20.1", "kernel": "6.1", "libmlx5": "ab"}


def trial(name, verdict, reason="", **figures):
    return {"name": name, "verdict": verdict, "assumption": f"{name} is so.", "source": "IBTA", "reason": reason, "figures": {"seconds": 0.5, **figures}}


def verdict(word, *trials, device="mlx5_0"):
    return {**KEY, "device": device, "verdict": word, "time": 1700000000, "seconds": 2.5, "trials": list(trials)}


class QualifyTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="meshverbs-qualify."))
        self.addCleanup(shutil.rmtree, self.dir)
        shutil.copy(TOOL, self.dir / "meshverbs")
        (self.dir / "sys").mkdir()

    def program(self, script):
        path = self.dir / "meshverbs-qualify"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)

    def says(self, *objects):
        """It goes through its trials, and says what the next of these is."""
        for used in self.dir.glob("used.*"):
            used.unlink()
        for number, an_object in enumerate(objects):
            text = an_object if isinstance(an_object, str) else json.dumps(an_object)
            (self.dir / f"said.{number}").write_text(text)
        self.program(f'cd {self.dir}; [ "$MESHVERBS" = off ] || exit 9; echo "$@" >> args\n'
                     'n=0; while [ -e used.$n ]; do n=$((n+1)); done; touch used.$n\n'
                     'echo to mlx5_1; echo trial 1 1 prefix; echo "done prefix pass"; echo result; cat said.$n\n')

    def run_tool(self, *args):
        done = subprocess.run([self.dir / "meshverbs", "--root", self.dir, "--sysfs", self.dir / "sys", *args], text=True, capture_output=True, timeout=60, check=False,
                              env={**os.environ, "MESHVERBS": "on"})
        return done.returncode, done.stdout, done.stderr

    def qualify(self, *args):
        return self.run_tool("qualify", *args)

    def test_qualified(self):
        self.says(verdict("qualified", trial("prefix", "pass"), trial("two-ports", "skipped", "there is one port")))
        rc, out, err = self.qualify("mlx5_0")
        self.assertEqual(rc, 0, err)
        self.assertIn("MT_1", out)
        self.assertRegex(out, r"two-ports +skipped .*there is one port")
        self.assertRegex(out, r"mlx5_0: +qualified")
        self.assertIn("mlx5_0 with mlx5_1: ", err)

    def test_failed(self):
        self.says(verdict("failed", trial("prefix", "pass"), trial("flush", "fail", "3 are missing")))
        rc, out, _ = self.qualify("mlx5_0")
        self.assertEqual(rc, 1)
        self.assertRegex(out, r"flush +fail .*3 are missing")
        self.assertIn("flush: flush is so.", out)
        self.assertNotIn("prefix: prefix is so.", out)

    def test_unsure(self):
        self.says(verdict("unsure", trial("prefix", "unsure", "no time was left"), trial("flush", "pass")))
        self.assertEqual(self.qualify("mlx5_0")[0], 3)

    def test_output(self):
        said = verdict("failed", trial("flush", "fail"))
        self.says(said, said, said)
        self.assertEqual(self.qualify("mlx5_0", "--output", str(self.dir / "verdict"))[0], 1)
        self.assertEqual(json.loads((self.dir / "verdict").read_text()), said)
        for args in ("--output", "-"), ("--json",):
            rc, out, err = self.qualify(*args, "mlx5_0")
            self.assertEqual((rc, json.loads(out), err), (1, said, ""))
        self.says(said)
        rc, _, err = self.qualify("mlx5_0", "--output", str(self.dir / "no/verdict"))
        self.assertEqual(rc, 2)
        self.assertIn("no/verdict: No such file", err)

    def test_several(self):
        """The worst counts, one that cannot be tried too; the others are told of all the same."""
        good, unsure = verdict("qualified", trial("prefix", "pass")), verdict("unsure", trial("prefix", "unsure"), device="mlx5_1")
        self.says(good, unsure)
        rc, out, _ = self.qualify("--json", "mlx5_0", "mlx5_1")
        self.assertEqual((rc, json.loads(out)), (3, [good, unsure]))
        self.says(good, unsure, "{}")
        rc, out, err = self.qualify("--json", "mlx5_0", "mlx5_1", "mlx5_2")
        self.assertEqual((rc, json.loads(out)), (2, [good, unsure]))
        self.assertIn("mlx5_2: what meshverbs-qualify said is not a verdict", err)

    def test_order(self):
        self.says(verdict("qualified", trial("prefix", "pass")))
        self.qualify("--peer", "mlx5_9", "--only", "prefix,flush", "mlx5_0")
        self.assertEqual((self.dir / "args").read_text(), f"--config {self.dir}/etc/libibverbs.d/mesh/mesh.conf --peer mlx5_9 --only prefix,flush -- mlx5_0\n")

    def test_gpu(self):
        """Only who asks for a GPU has it, and is told before."""
        said = verdict("qualified", trial("landing", "pass"))
        self.says(said, said)
        conf, takes = f"--config {self.dir}/etc/libibverbs.d/mesh/mesh.conf", "a CUDA context and 8 MiB on the first GPU that CUDA shows"
        for options, args, times in ([], "-- mlx5_0\n", 0), (["--gpu"], "--gpu -- mlx5_0\n", 1):
            (self.dir / "args").unlink(missing_ok=True)
            rc, _, err = self.qualify(*options, "mlx5_0")
            self.assertEqual((rc, err.count(takes)), (0, times), err)
            self.assertEqual((self.dir / "args").read_text(), f"{conf} {args}")
        self.program('[ "$*" = --list ] && printf "landing\\tIt is so.\\tIBTA\\n"')
        for options, times in ([], 0), (["--gpu"], 1):
            rc, out, _ = self.qualify("-n", *options, "mlx5_0")
            self.assertEqual((rc, out.count(takes)), (0, times), out)

    def test_agent_asks_for_no_gpu(self):
        """What the agent starts tells what it was started with, where the verdict would be."""
        self.program('[ $# = 4 ] && echo "$1 $2 $3" >"$4"')
        done = subprocess.run([os.environ["MESHVERBSD"], "--qualify-helper", "run", self.dir / "meshverbs-qualify", "mlx5_0"], text=True, capture_output=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout.splitlines()[1:]), (0, ["qualify mlx5_0 --output"]), done.stderr)

    def test_does_not_say(self):
        for script, why in (("echo 'error there is no RDMA device mlx5_0'; exit 2", "mlx5_0: there is no RDMA device mlx5_0"),
                            ("echo trial 3 9 landing; kill -SEGV $$", "killed by signal 11 during trial landing"),
                            ("exit 4", "ended with status 4"), ("echo result; echo '{'", "is not a verdict"), ("", "ended with status 0"),
                            ("cat /dev/zero", "was killed")):
            with self.subTest(script=script):
                self.program(script)
                rc, out, err = self.qualify("mlx5_0")
                self.assertEqual((rc, out), (2, ""))
                self.assertIn(why, err)
        (self.dir / "meshverbs-qualify").write_text("#!/nothing\n")
        self.assertIn("cannot be run", self.qualify("mlx5_0")[2])

    def test_dry_run(self):
        self.program('[ "$1" = --list ] && printf "prefix\\tIt is so.\\tIBTA\\nflush\\tThat, too.\\tman\\n"')
        rc, out, _ = self.qualify("-n", "mlx5_0", "mlx5_1")
        self.assertEqual(rc, 0)
        for text in ("  mlx5_0\n  mlx5_1\n", "  prefix\n      It is so.\n      (IBTA)\n  flush\n", "less than a minute"):
            self.assertIn(text, out)

    def test_others_traffic(self):
        """A port that others use is left alone."""
        counters = self.dir / "sys/class/infiniband/mlx5_0/ports/1/counters"
        counters.mkdir(parents=True)
        (counters / "port_xmit_data").symlink_to("/proc/self/schedstat")  # a number that grows: what the reader has run, in ns
        if not (counters / "port_xmit_data").exists():
            self.skipTest("this kernel has no /proc/self/schedstat")
        for most, status in ("0", 3), ("1000000", 0):
            self.says(verdict("qualified", trial("prefix", "pass")))
            rc, _, err = self.qualify("--max-load", most, "mlx5_0")
            self.assertEqual((rc, "of others' traffic" in err), (status, status == 3), err)
        # Neither is that port the peer of a device which nobody uses.
        for most in "0", "1000000":
            self.qualify("--max-load", most, "mlx5_1")
        conf = f"--config {self.dir}/etc/libibverbs.d/mesh/mesh.conf"
        self.assertEqual((self.dir / "args").read_text().splitlines(),
                         [f"{conf} --rest -- mlx5_0", f"{conf} --avoid mlx5_0 -- mlx5_1", f"{conf} -- mlx5_1"])

    def test_more_busy_devices_than_fit(self):
        """The names in the list are whole: a part of one may be another device's."""
        names = [f"mlx5_{number:02}{'x' * 30}" for number in range(60)]
        for name in names:
            counters = self.dir / f"sys/class/infiniband/{name}/ports/1/counters"
            counters.mkdir(parents=True)
            (counters / "port_xmit_data").symlink_to("/proc/self/schedstat")
        if not (counters / "port_xmit_data").exists():
            self.skipTest("this kernel has no /proc/self/schedstat")
        self.says(verdict("qualified", trial("prefix", "pass")))
        self.qualify("--max-load", "0", "mlx5_1")
        avoided = (self.dir / "args").read_text().split("--avoid ")[1].split()[0].split(",")
        self.assertGreater(len(avoided), 20)
        self.assertEqual(set(avoided) - set(names), set())

    def test_usage(self):
        for args, why in ((["--output", "f", "a", "b"], "--output is of one device"), (["--max-load", "x"], "not a number"), (["--frob"], "unknown option")):
            rc, _, err = self.qualify(*args)
            self.assertEqual(rc, 2)
            self.assertIn(why, err)
        rc, _, err = self.qualify()
        self.assertEqual(rc, 2)
        self.assertIn("meshverbs: ", err)


class Kept(QualifyTest):
    """The verdicts that decide where connections at work move."""

    def setUp(self):
        super().setUp()
        self.folder = self.dir / "var/lib/meshverbs/qualified"
        self.folder.mkdir(0o755, parents=True)
        self.file = self.folder / "MT_1_20.1_6.1_ab.json"

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_kept(self):
        said = verdict("qualified", trial("prefix", "pass"))
        self.says(said, said, said)
        self.assertEqual(self.qualify("mlx5_0", "--output", str(self.dir / "verdict"))[0], 0)
        self.assertEqual(self.qualify("mlx5_0", "--only", "prefix")[0], 0)
        self.assertFalse(self.file.exists())
        self.assertEqual(self.qualify("mlx5_0")[0], 0)
        self.assertEqual(json.loads(self.file.read_text()), said)

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_kept_with_gpu(self):
        """What is not known with a GPU does not replace what is known without; that something does not hold does."""
        good, unsure, bad = (verdict(word, trial("landing", one)) for word, one in (("qualified", "pass"), ("unsure", "unsure"), ("failed", "fail")))
        self.says(good, unsure, unsure, bad)
        self.qualify("mlx5_0")
        rc, _, err = self.qualify("mlx5_0", "--gpu")
        self.assertEqual((rc, err.splitlines()[-1]),
                         (3, "meshverbs: the verdict on mlx5_0 is shown, and not kept: with --gpu an unsure one changes nothing"))
        rc, out, err = self.qualify("mlx5_0", "--gpu", "--json")
        self.assertEqual((rc, json.loads(out), err), (3, unsure, ""))
        self.assertEqual(json.loads(self.file.read_text()), good)
        self.assertEqual(self.qualify("mlx5_0", "--gpu")[0], 1)
        self.assertEqual(json.loads(self.file.read_text()), bad)

    @unittest.skipIf(os.geteuid(), "needs root")
    def test_kept_after_gpu(self):
        """Who does not try a GPU's memory does not take back that a device has failed with it."""
        good = verdict("qualified", trial("landing", "pass"))
        host, gpu = (verdict("failed", trial("landing", "fail", "no", rounds=5, gpu_rounds=rounds)) for rounds in (0, 3))
        self.says(host, good, gpu, good, host, good)
        for options, rc, kept in (([], 1, host), ([], 0, good), (["--gpu"], 1, gpu), ([], 1, gpu), ([], 1, gpu), (["--gpu"], 0, good)):
            status, _, err = self.qualify("mlx5_0", *options)
            self.assertEqual((status, json.loads(self.file.read_text())), (rc, kept), err)
            self.assertEqual("not kept: the device has failed with memory of a GPU; try again with --gpu" in err, not options and kept == gpu)

    def test_not_kept(self):
        """A host without agent, a container, a user: what was found out is said, and that nobody will go by it."""
        said = verdict("qualified", trial("prefix", "pass"))
        self.folder.rmdir()
        self.says(said, said)
        rc, out, err = self.qualify("mlx5_0")
        why = "only root's verdicts decide where connections move" if os.geteuid() else "no agent has made /var/lib/meshverbs/qualified (survive = auto)"
        self.assertEqual((rc, err.splitlines()[-1]), (0, f"meshverbs: the verdict on mlx5_0 is shown, and not kept: {why}"))
        self.assertIn("qualified", out)
        self.assertFalse(self.folder.exists())
        # Who asks for some trials, or has the verdict written elsewhere, expects nothing else.
        self.assertNotIn("not kept", self.qualify("mlx5_0", "--only", "prefix")[2])

    def test_export_import(self):
        some = [verdict("failed", trial("prefix", "fail", "no")), {**verdict("qualified", trial("prefix", "pass")), "firmware": "20.2"}]
        (self.dir / "fleet").write_text(json.dumps(some))
        rc, out, err = self.qualify("--import", str(self.dir / "fleet"))
        self.assertEqual((rc, err), (0, ""))
        self.assertEqual(out.count("\n"), 2)
        self.assertEqual(json.loads(self.file.read_text()), some[0])
        rc, out, err = self.qualify("--export", "-")
        self.assertEqual((rc, err), (0, ""))
        self.assertCountEqual(json.loads(out), some)
        # One that others could have written, and one under another's name, are nobody's.
        self.file.chmod(0o666)
        (self.folder / "MT_2_20.1_6.1_ab.json").write_text(json.dumps(some[0]))
        rc, out, err = self.qualify("--export", str(self.dir / "file"))
        self.assertEqual((rc, err.count("\n")), (1, 2))
        self.assertRegex(err, "left out: MT_1_20.1_6.1_ab.json: others may write it")
        self.assertRegex(err, "left out: MT_2_20.1_6.1_ab.json: it is about another combination")
        self.assertEqual(json.loads((self.dir / "file").read_text()), [some[1]])

    def test_texts_for_a_terminal(self):
        """What a file of others has in it commands no terminal."""
        self.file = self.folder / "MT__31m_20.1_6.1_ab.json"
        (self.dir / "fleet").write_text(json.dumps({**verdict("qualified", trial("prefix", "pass")), "board_id": "MT\x1b[31m"}))
        rc, out, err = self.qualify("--import", str(self.dir / "fleet"))
        self.assertEqual((rc, err), (0, ""))
        self.assertIn("board MT?[31m,", out)
        self.assertTrue(self.file.exists())
        self.file.rename(self.folder / "MT\x1b[32m.json")
        rc, out, err = self.qualify("--export", "-")
        self.assertEqual((rc, json.loads(out)), (1, []))
        self.assertIn("left out: MT?[32m.json: it is about another", err)

    def test_bad_import(self):
        good = verdict("qualified", trial("prefix", "pass"))
        (self.dir / "fleet").write_text(json.dumps([{**good, "verdict": "failed"}, good]))
        rc, _, err = self.qualify("--import", str(self.dir / "fleet"))
        self.assertEqual(rc, 2)
        self.assertIn("verdict 1 of the list: it is none that can be read", err)
        self.assertTrue(self.file.exists())
        (self.dir / "fleet").write_text("{")
        self.assertEqual(self.qualify("--import", str(self.dir / "fleet"))[0], 2)
        self.assertEqual(self.qualify("--import", "a", "mlx5_0")[0], 2)
        self.folder.chmod(0o777)
        (self.dir / "fleet").write_text(json.dumps(good))
        rc, _, err = self.qualify("--import", str(self.dir / "fleet"))
        self.assertEqual(rc, 2)
        self.assertIn("others may write in it", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
