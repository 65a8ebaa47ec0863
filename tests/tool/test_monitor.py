# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs monitor and metrics: an agent's figures, on a screen and for Prometheus."""

import json
import os
import re
import textwrap
import unittest

from fixture import Directory, ToolTest

NO_AGENT = "meshverbs: no agent answers at DIR/rund/control: start meshverbsd, or name its directory with --run-dir or --control-dir\n"
STATUS = {"agent": "meshverbsd", "version": "1.2.3", "name": "a", "uptime_ms": 3723000, "processes": 4}
COUNTERS = {"uptime_seconds": 3723, "decisions": {"keep": 17, "repair": 2, "replace": 0}, "moves": {"connect": 5},
            "flushed_errors": 0, "connections_negotiated": 6}
MOVED = {"state": "moved", "reason": "apart", "gid": "10.0.1.1", "peer_gid": "10.0.2.1", "peer_qpn": 700, "peer_host": "b",
         "rail": "mlx5_1", "rail_gid": "10.0.3.1", "rail_peer_gid": "10.0.3.2"}
OPENMETRICS = """\
# TYPE meshverbs_uptime_seconds gauge
# HELP meshverbs_uptime_seconds Seconds since the agent started.
meshverbs_uptime_seconds 3723
# TYPE meshverbs_moves counter
# HELP meshverbs_moves Connections that moved.
meshverbs_moves_total{at="connect"} 5
# TYPE meshverbs_pause_seconds histogram
# UNIT meshverbs_pause_seconds seconds
# HELP meshverbs_pause_seconds Pauses.
meshverbs_pause_seconds_bucket{cause="connect",le="+Inf"} 5
meshverbs_pause_seconds_count{cause="connect"} 5
meshverbs_pause_seconds_sum{cause="connect"} 0.021
# EOF
"""


def encoded(**answers):
    return {name: answer.encode() if isinstance(answer, str) else json.dumps(answer).encode() for name, answer in answers.items()}


class MonitorTest(ToolTest):
    def start(self, n_qps=1, **more):
        directory = Directory()
        directory.host("a")
        directory.rail("mlx5_0", [(3, "10.0.1.1/30", 2)], netdev="eth0")
        directory.host("b")
        directory.rail("mlx5_0", [(3, "10.0.1.2/30", 2)], netdev="eth0")
        directory.link(0, 1)
        self.directory(directory)
        qps = [{"device": "mlx5_0", "qpn": 700 + i, "pid": 42, "comm": "ib_write_bw", "uid": 0, "status": MOVED} for i in range(n_qps)]
        self.agent(encoded(**{"status": STATUS, "metrics": COUNTERS, "qps": {"qps": qps}, **more}))

    def test_text(self):
        self.start()
        code, out, err = self.run_tool("monitor", "-n", "1")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^Time: +20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\n")
        out = re.sub(r"\b(0\.[5-9]|[1-9]\.\d) s ago", "0.5 s ago", out.split("\n", 1)[1])  # it is read later than it was written
        self.assertEqual(re.sub(r"WHAT *(\n.*)*", "WHAT\n", out), textwrap.dedent("""\
            Host:           a
            Agent:          version 1.2.3, up for 1 h 02 min 03 s
            Processes:      4

            Rails
              HOST  DEV     PORT  NETDEV  STATE  HEARD ON  ADDRESSES
              a     mlx5_0  1     eth0    up     -         10.0.1.1

            Hosts
              HOST  RAILS  UP  LAST HEARD  STATE
              a     1      1   -           this host
              b     1      1   0.5 s ago   its agent is heard

            Connections
              PID  PROGRAM      DEV     QPN  GID       PEER  PEER GID  PEER QPN  STATE  USES    FROM      TO        BECAUSE  MOVABLE
              42   ib_write_bw  mlx5_0  700  10.0.1.1  b     10.0.2.1  700       moved  mlx5_1  10.0.3.1  10.0.3.2  apart    -

            Counted
              COUNTER                 VALUE  SINCE LAST  WHAT
            """))
        self.assertEqual(re.findall(r"^  (\w+(?: \w+)?) +(\d+)  +-  ", out, re.M), [
            ("decisions keep", "17"), ("decisions repair", "2"), ("connections_negotiated", "6"), ("moves connect", "5")])

    def test_what_is_new(self):
        self.start()
        answers = iter(range(100))

        class Growing(dict):
            """One more move with each look."""
            def get(self, key, otherwise=None):
                if key == "metrics":
                    return json.dumps({**COUNTERS, "moves": {"connect": 5 + 3 * next(answers)}}).encode()
                return dict.get(self, key, otherwise)

        (self.dir / "rund/control").unlink()
        self.agent(Growing(encoded(status=STATUS, qps={"qps": []})))
        code, out, err = self.run_tool("monitor", "-n", "3", "-i", "1", "-j")
        self.assertEqual((code, err), (0, ""))
        decoder, at, looks = json.JSONDecoder(), 0, []
        while at < len(out.rstrip()):
            look, at = decoder.raw_decode(out, at)
            at += 1
            looks.append({row["label"]: (row["value"], row["grown"]) for row in look["counts"]})
        self.assertEqual([look["connect"] for look in looks], [(5, None), (8, 3), (11, 3)])
        self.assertEqual([look["keep"] for look in looks], [(17, None), (17, 0), (17, 0)])

    def test_many(self):
        self.start(n_qps=50)
        self.assertRegex(self.run_tool("monitor", "-n", "1")[1], r"\nMore: +30, see meshverbs qps\n")

    def test_without_the_rest(self):
        """The agent answers, but nothing else is to be had at the moment."""
        self.agent(encoded(status=STATUS, metrics={"error": "busy: ask again"}, qps={"error": "busy: ask again"}))
        code, out, err = self.run_tool("monitor", "-n", "1")
        self.assertEqual((code, err), (0, ""))
        self.assertNotIn("Counted", out)

    def test_no_agent(self):
        self.expect_error(["monitor", "-n", "1"], NO_AGENT)

    def test_usage(self):
        hint = "\nTry: meshverbs help monitor\n"
        for args, error in ((["-i", "0"], "--interval '0' is not a number of seconds from 1 to 3600"),
                            (["-i", "x"], "--interval 'x' is not a number of seconds from 1 to 3600"),
                            (["-n", "0"], "--count '0' is not a number from 1 to 1000000"), (["x"], "'x' is not expected")):
            self.expect_error(["monitor", *args], f"meshverbs monitor: {error}{hint}")


class MetricsTest(ToolTest):
    def test_text(self):
        self.agent(encoded(openmetrics=OPENMETRICS))
        self.expect(["metrics"], 0, OPENMETRICS)

    def test_json(self):
        self.agent(encoded(metrics=COUNTERS))
        self.assertEqual(self.run_json("metrics"), COUNTERS)

    def test_textfile(self):
        """Counters have the name of their samples in TYPE and HELP; the file is replaced as a whole, for all to read."""
        self.agent(encoded(openmetrics=OPENMETRICS))
        path = self.dir / "meshverbs.prom"
        path.write_text("old\n")
        os.link(path, self.dir / "reader")
        self.expect(["metrics", "--textfile", str(path)], 0, "")
        expected = OPENMETRICS.replace("meshverbs_moves counter", "meshverbs_moves_total counter").replace(
            "meshverbs_moves Conn", "meshverbs_moves_total Conn")
        expected = "".join(line for line in expected.splitlines(True) if not line.startswith(("# UNIT", "# EOF")))
        self.assertEqual(path.read_text(), expected)
        self.assertEqual(path.stat().st_mode & 0o777, 0o644)
        self.assertEqual((self.dir / "reader").read_text(), "old\n")
        self.assertEqual([p.name for p in self.dir.glob("*.prom*")], ["meshverbs.prom"])

    def test_cut_short(self):
        self.agent(encoded(openmetrics=OPENMETRICS[:-3]))
        path = self.dir / "meshverbs.prom"
        error = "meshverbs: the agent at DIR/rund/control gave an answer without metrics: it is of another version\n"
        self.expect_error(["metrics", "-t", str(path)], error)
        self.expect_error(["metrics"], error)
        self.assertFalse(path.exists())

    def test_cannot_write(self):
        self.agent(encoded(openmetrics=OPENMETRICS))
        self.expect_error(["metrics", "-t", str(self.dir / "no/meshverbs.prom")],
                          "meshverbs: cannot write DIR/no/meshverbs.prom: No such file or directory\n")
        (self.dir / "there").mkdir()
        self.expect_error(["metrics", "-t", str(self.dir / "there")], "meshverbs: cannot write DIR/there: Is a directory\n")
        self.assertEqual([p.name for p in self.dir.glob("there*")], ["there"])

    def test_no_agent(self):
        self.expect_error(["metrics"], NO_AGENT)

    def test_usage(self):
        self.expect_error(["metrics", "x"], "meshverbs metrics: 'x' is not expected\nTry: meshverbs help metrics\n")
        self.expect_error(["metrics", "-j", "-t", "x"],
                          "meshverbs metrics: --textfile and --json do not go together\nTry: meshverbs help metrics\n")


if __name__ == "__main__":
    unittest.main()
