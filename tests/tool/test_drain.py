# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""meshverbs drain and undrain: what an agent answers, and what is said of it."""

import json
import textwrap
import unittest

from fixture import Directory, ToolTest

DRAINED = b'{"device":"mlx5_0","drained":true}\n'
WHY = "survive = off when it was made"


def qp(qpn, device="mlx5_0", qp_type=2, **status):
    return {"device": device, "qpn": qpn, "type": qp_type, "pid": 42, "comm": "ib_send_bw", "uid": 0,
            **({"status": status} if status else {})}


class DrainTest(ToolTest):
    def answers(self, *qps, do=DRAINED, flags=Directory.DRAINED, **more):
        announced = Directory()
        announced.host("a")
        announced.rail("mlx5_0", flags=flags)
        announced.rail("mlx5_1")
        self.directory(announced)
        self.agent({"do": do, "qps": json.dumps({"up_ms": 5000, "qps": qps, **more}).encode()})

    def expect_uncertain(self):
        got = self.run_json("drain", "mlx5_0", "--timeout", "5", status=1)
        self.assertEqual((got["safe"], got["timed_out"], got["qps"]), (False, True, []))

    def test_safe(self):
        self.answers(qp(1, state="moved", rail="mlx5_1", movable=True), qp(2, device="mlx5_1", state="passthrough", movable=True),
                     qp(3, state="failed", movable=False), qp(4, state="init", movable=True))
        self.expect(["drain", "mlx5_0"], 0,
                    "mlx5_0:         drained, safe to pull: no connection that the agent knows of uses it\n")
        self.assertEqual(json.loads(self.requests[0]), {"do": "drain", "device": "mlx5_0", "force": False})
        self.assertEqual(self.run_json("drain", "mlx5_0", "--force"),
                         {"device": "mlx5_0", "drained": True, "safe": True, "timed_out": False, "qps": []})
        self.assertIs(json.loads([r for r in self.requests if "do" in r][-1])["force"], True)

    def test_not_announced_yet(self):
        """The agent has been told, and waits for the kernel before it tells anybody."""
        self.answers(flags=Directory.UP)
        self.expect_uncertain()
        self.expect(["drain", "mlx5_0", "--timeout", "0"], 1, textwrap.dedent("""\
            mlx5_0:         drained, not safe to pull: the time is up before it is certain that nothing uses it
            What to do:     drain again, or take it back: meshverbs undrain mlx5_0
            """))

    def test_agent_has_just_begun(self):
        """Processes have not told it yet what they have."""
        self.answers(up_ms=100)
        self.expect_uncertain()

    def test_more_than_are_named(self):
        self.answers(qps_left_out=1)
        self.expect_uncertain()

    def test_stays(self):
        self.answers(qp(1, state="passthrough", movable=False, why=WHY), qp(2, qp_type=4),
                     qp(3, device="mlx5_1", state="moved", rail="mlx5_0", movable=False, why="x"))
        got = self.run_json("drain", "mlx5_0", status=1)
        self.assertEqual((got["safe"], got["timed_out"]), (False, False))
        self.assertEqual([(row["qpn"], row["pid"], row["comm"], row["movable"], row["why"]) for row in got["qps"]], [
            (1, 42, "ib_send_bw", False, WHY),
            (2, 42, "ib_send_bw", False, "datagrams (UD) are received where the program made the queue pair"),
            (3, 42, "ib_send_bw", False, "x")])
        self.expect(["drain", "mlx5_0"], 1, textwrap.dedent(f"""\
            mlx5_0:         drained, not safe to pull: 3 queue pairs still use it

            Queue pairs that use it
              PID  PROGRAM     DEV     QPN  MOVABLE  WHY
              42   ib_send_bw  mlx5_0  1    no       {WHY}
              42   ib_send_bw  mlx5_0  2    no       datagrams (UD) are received where the program made the queue pair
              42   ib_send_bw  mlx5_1  3    no       x
            What to do:     end these programs and drain again, or take it back: meshverbs undrain mlx5_0
            """))

    def test_time_is_up(self):
        self.answers(qp(1), qp(2, state="passthrough", movable=True))
        got = self.run_json("drain", "--timeout", "0", "mlx5_0", status=1)
        self.assertTrue(got["timed_out"])
        self.assertEqual([row["why"] for row in got["qps"]],
                         ["its process has not said what it does", "has not moved in time"])

    def test_refused(self):
        self.answers(do=b'{"error":"mlx5_0 has the last port that is up"}\n')
        for verb in ("drain", "undrain"):
            self.expect_error([verb, "mlx5_0"], "meshverbs: mlx5_0 has the last port that is up\n")

    def test_undrain(self):
        self.answers(do=b'{"device":"mlx5_0","drained":false}\n')
        self.expect(["undrain", "mlx5_0"], 0, "mlx5_0:         in use again; what left it returns after hold_down_ms\n")
        self.assertEqual(self.run_json("undrain", "mlx5_0"), {"device": "mlx5_0", "drained": False})

    def test_older_agent(self):
        self.answers(do=b"{}\n")
        self.expect_error(["drain", "mlx5_0"], "meshverbs: the agent at DIR/rund/control gave an answer without a word on "
                                               "draining: it is of another version\n")

    def test_usage(self):
        for verb in ("drain", "undrain"):
            self.expect_error([verb], f"meshverbs {verb}: an RDMA device is missing\nTry: meshverbs help {verb}\n")
            self.expect_error([verb, "a", "b"], f"meshverbs {verb}: 'b' is not expected\nTry: meshverbs help {verb}\n")
            self.expect_error([verb, "a"], "meshverbs: no agent answers at DIR/rund/control: start meshverbsd, or name its "
                                           "directory with --run-dir or --control-dir\n")
        self.expect_error(["drain", "-t", "x", "a"],
                          "meshverbs drain: --timeout 'x' is not a number of seconds\nTry: meshverbs help drain\n")


if __name__ == "__main__":
    unittest.main()
