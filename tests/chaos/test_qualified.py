#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The default settings on two simulated hosts with two NICs each: the agents have all NICs qualified by themselves, and then a pulled cable is
survived; with a verdict that says otherwise it is not, and doctor says why. Needs root; SIM_BUILD is the build."""
import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from schedule import hosts  # noqa: E402
from schedule.hosts import SERVER, until  # noqa: E402
from schedule.watched import BUILD, ENDS, N_QPS, TRAFFIC, Watched  # noqa: E402
from launcher import agents, qualifier  # noqa: E402
from nicmatrix.world import enter, need  # noqa: E402

AUTO = hosts.SURVIVE.replace("survive = on\n", "")
NICS = {"mlx5_0", "mlx5_1"}
VERDICT_S = 300  # four qualifications, each of seconds
VERDICTS = pathlib.PurePath(agents.STATE_DIR, "qualified")


class Qualified(Watched):
    @classmethod
    def setUpClass(cls):
        enter(cls, qualifier.at_hand(BUILD))
        stage = cls.given(hosts.staged(BUILD, AUTO))
        cls.hosts = cls.given(hosts.Hosts.up(BUILD, stage, "qualified"))

    @classmethod
    def given(cls, context):
        return enter(cls, context)

    def root(self, host, path):
        return pathlib.Path(f"/proc/{self.hosts.sim.pid(host)}/root{path}")

    def states(self, host):
        return {row["device"]: row["state"] for row in json.loads(agents.ask(self.hosts.sim, host, "qualified"))["devices"]}

    def told(self, host):
        """What its directory tells programs: the NICs that have qualified."""
        return qualifier.qualified(self.hosts.sim, host)

    def all_are(self, state):
        told = NICS if state == "qualified" else set()
        return all(self.states(host) == dict.fromkeys(NICS, state) and self.told(host) == told for host in ENDS)

    def figures(self, host):
        return agents.ask(self.hosts.sim, host, "qualified")

    def wait_for_all(self, state):
        if not until(lambda: self.all_are(state), VERDICT_S):
            self.fail(f"not within {VERDICT_S} s: all are {state}\n{self.story()}")

    def traffic(self):
        self.programs = self.hosts.both(TRAFFIC, ["-t", "2", "-q", str(N_QPS // 2), "-r", "50", "-s", "1", "-o", "send,write,write_imm,read"])
        self.addCleanup(self.kill)

    def doctor(self, host):
        status, said = self.tool(host, "doctor", "--json")
        self.assertIn(status, (0, 1), said)
        return [finding for finding in json.loads(said)["findings"] if finding["check"] == "qualified"]

    def survives(self):
        self.traffic()
        self.wait_for("the agents know all queue pairs, which can move", lambda: self.known((True,)))
        self.hosts.link("l0", False)
        for host in ENDS:
            self.wait_for(f"those of {host} have left", lambda host=host: self.used(host) == {"mlx5_1"})
        self.hosts.link("l0", True)
        self.end()

    def fail_verdicts(self):
        """As if one trial had not held."""
        for host in ENDS:
            for file in self.root(host, str(VERDICTS)).glob("*.json"):
                verdict = json.loads(file.read_text())
                verdict["verdict"] = verdict["trials"][0]["verdict"] = "fail"
                verdict["verdict"] = "failed"
                verdict["trials"][0].update(assumption="cards are simulated well", reason="made up by the test")
                file.write_text(json.dumps(verdict))

    def moves(self, host):
        return self.hosts.world.log(host).count("; moved to ")

    def is_as_bare(self):
        moved = [self.moves(host) for host in ENDS]
        self.traffic()
        self.wait_for("the agents know all queue pairs, which cannot move", lambda: self.known((False,)))
        for host in ENDS:
            found = self.doctor(host)
            self.assertEqual({finding["thing"] for finding in found}, NICS, found)
            self.assertTrue(all("cards are simulated well" in finding["what"] for finding in found), found)
            self.assertIn("see `meshverbs doctor`, and `meshverbs qualify mlx5_0`", self.hosts.world.log(host))
        self.hosts.link("l0", False)
        self.wait_for("the traffic has ended", lambda: all(program.poll() is not None for program in self.programs))
        said = [program.said() for program in self.programs]
        self.assertTrue(any(program.poll() or "failed consistently" in text for program, text in zip(self.programs, said)), said)
        self.assertEqual([self.moves(host) for host in ENDS], moved)
        self.hosts.link("l0", True)

    def test_verdicts(self):
        self.wait_for_all("qualified")
        for host in ENDS:
            self.assertEqual(self.doctor(host), [])
        self.survives()
        self.fail_verdicts()
        self.wait_for_all("failed")
        self.is_as_bare()


if __name__ == "__main__":
    need("nsenter", "chrt")
    unittest.main()
