# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs qps: an agent's answers, well-formed and otherwise."""

import json
import socket
import textwrap
import unittest

from fixture import ToolTest

MOVED = {"state": "moved", "negotiation": "active", "reason": "apart", "gid": "10.0.1.1", "peer_gid": "10.0.2.1",
         "peer_qpn": 700, "peer_host": "b", "rail": "mlx5_1", "rail_gid": "10.0.3.1", "rail_peer_gid": "10.0.3.2"}


class QpsTest(ToolTest):
    def test_text(self):
        self.agent(json.dumps({"qps": [
            {"device": "mlx5_0", "qpn": 4660, "type": 2, "pid": 42, "comm": "ib_write_bw", "uid": 0, "status": MOVED},
            {"device": "mlx5_0", "qpn": 4661, "type": 2, "pid": 43, "comm": "old", "uid": 0}]}).encode() + b"\n")
        self.expect(["qps"], 0, textwrap.dedent("""\
            PID  PROGRAM      DEV     QPN   GID       PEER  PEER GID  PEER QPN  STATE  USES    FROM      TO        BECAUSE  MOVABLE
            42   ib_write_bw  mlx5_0  4660  10.0.1.1  b     10.0.2.1  700       moved  mlx5_1  10.0.3.1  10.0.3.2  apart    -
            43   old          mlx5_0  4661  -         -     -         -         -      -       -         -         -        -
            """))
        self.assertEqual(self.requests, ['{"get":"qps"}\n'])

    def test_json(self):
        self.agent(json.dumps({"qps": [{"device": "mlx5_0", "qpn": 1, "pid": 42, "comm": "x\u001by", "uid": 7,
                                        "status": {**MOVED, "rail": ["no text"], "peer_qpn": -1, "standby": "mlx5_2"}}]}).encode())
        row = self.run_json("qps")["qps"][0]
        self.assertEqual((row["qpn"], row["uid"], row["comm"], row["state"]), (1, 7, "x?y", "moved"))
        self.assertEqual((row["rail"], row["peer_qpn"], row["rail_gid"], row["standby"]), (None, None, "10.0.3.1", "mlx5_2"))
        self.assertEqual(row["ahead"], "mlx5_2")

    def test_former_key(self):
        """A process that loaded an earlier plugin."""
        self.agent(json.dumps({"qps": [{"device": "mlx5_0", "qpn": 1, "status": {**MOVED, "ahead": "mlx5_2"}}]}).encode())
        row = self.run_json("qps")["qps"][0]
        self.assertEqual((row["standby"], row["ahead"]), ("mlx5_2", "mlx5_2"))

    def test_drained(self):
        why = "survive = off when it was made"
        self.agent(json.dumps({"qps": [
            {"device": "mlx5_0", "drained": True, "qpn": 1, "status": {"state": "passthrough", "movable": False, "why": why}},
            {"device": "mlx5_1", "drained": False, "qpn": 2, "status": {"state": "passthrough", "movable": True}},
            {"device": "mlx5_1", "drained": 1, "qpn": 3, "status": {"movable": "no"}}]}).encode())
        rows = self.run_json("qps")["qps"]
        self.assertEqual([(row["drained"], row["movable"], row["why"]) for row in rows],
                         [(True, False, why), (False, True, None), (False, None, None)])
        _, out, _ = self.run_tool("qps")
        self.assertIn("mlx5_0 (drained)", out)
        self.assertIn(f"no: {why}", out)

    def test_many(self):
        self.agent(json.dumps({"qps": [{"device": "mlx5_0", "qpn": i, "status": MOVED} for i in range(5000)]}).encode())
        self.assertEqual([row["qpn"] for row in self.run_json("qps")["qps"]], list(range(5000)))

    def test_none(self):
        self.agent(b'{"qps": []}\n')
        self.assertEqual(self.run_json("qps"), {"qps": []})

    def test_no_agent(self):
        error = ("meshverbs: no agent answers at DIR/rund/control: start meshverbsd, or name its directory with --run-dir or "
                 "--control-dir\n")
        self.expect_error(["qps"], error)
        (self.dir / "rund").mkdir()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.dir / "rund/control"))
        self.expect_error(["qps"], error)

    def test_older_agent(self):
        """One of before listens beside the directory of peers."""
        self.agent(b'{"qps": []}\n', "run")
        self.expect_error(["qps"], "meshverbs: the agent that runs is older than this command: it answers at DIR/run/control and not at "
                                   "DIR/rund/control; systemctl restart meshverbsd\n")

    def test_control_dir(self):
        self.agent(b'{"qps": []}\n', "other")
        other = str(self.dir / "other")
        self.assertEqual(self.run_tool("qps", "-j", before=["--control-dir", other])[0], 0)
        self.assertEqual(self.run_tool("qps", "-j", env={"MESHVERBS_CONTROL_DIR": other})[0], 0)
        # That of the environment does not go with another RUN_DIR.
        self.assertEqual(self.run_tool("qps", "-j", before=["--run-dir", str(self.dir / "run")], env={"MESHVERBS_CONTROL_DIR": other})[0], 2)

    def test_other_answers(self):
        error = ("meshverbs: the agent at DIR/rund/control gave an answer without queue pairs: it is of another version\n")
        for answer in (b"", b"{", b"[]", b'"qps"', b'{"qps": {}}', b'{"error": "unknown"}', b"null", b"\0\xff"):
            with self.subTest(answer=answer):
                self.setUp()
                self.agent(answer)
                self.expect_error(["qps"], error)

    def test_odd_rows(self):
        self.agent(b'{"qps": [null, 7, [], {"status": 3}, {"status": "text"}]}')
        self.assertEqual([row["state"] for row in self.run_json("qps")["qps"]], [None] * 5)

    def test_usage(self):
        self.expect_error(["qps", "x"], "meshverbs qps: 'x' is not expected\nTry: meshverbs help qps\n")
        self.expect_error(["--run-dir", "/" + "x" * 200, "qps"],
                          f"meshverbs: cannot ask the agent at /{'x' * 200}d/control: File name too long\n")


if __name__ == "__main__":
    unittest.main()
