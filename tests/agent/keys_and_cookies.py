# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The key of the fleet, and cookies, which prove addresses without a key."""
import itertools
import signal
import time

import agentcase
from agentcase import AgentTest
from hosts import WAIT_S, wait_for


class Keys(AgentTest):
    def test_with_key(self):
        a, b = self.pair()
        for host in (a, b):
            self.key(host, "11" * 32)
        a.start()
        b.start()
        self.assertTrue(a.get("status")["has_key"])
        self.converge(a, b)
        pa, pb = a.talk(), b.talk()
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 1)
        b.stop(signal.SIGKILL)
        b.start()
        self.converge(a, b)
        pb = b.talk()
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 2)

    def test_other_key_or_none(self):
        a, b = self.pair()
        self.key(a, "11" * 32)
        a.start()
        b.start()
        for host, why in ((a, "plain"), (b, "sealed")):
            wait_for("two are refused", lambda host=host, why=why: host.metric("datagrams_rejected")[why] >= 2)
        self.assertEqual((a.peers(), b.peers()), ([], []))
        # Each says so, once.
        for host in (a, b):
            self.assertEqual(host.log.read_text().count("dropped from fe80::"), 1, host.log.read_text())
        b.stop()
        self.key(b, "22" * 32)
        b.start()
        time.sleep(1)
        self.assertEqual((a.peers(), b.peers()), ([], []))
        self.key(b, "11" * 32)
        b.agent.send_signal(signal.SIGHUP)
        self.converge(a, b)

    def test_bad_key_file(self):
        a, _ = self.pair()
        self.key(a, "too short")
        a.start(wait=False)
        self.assertEqual(a.agent.wait(timeout=WAIT_S), 1)
        a.agent = None
        self.assertIn(f"{a.dir}/key", a.log.read_text())


class Cookies(AgentTest):
    """They live for four seconds at least and for eight at most here (CMakeLists.txt), instead of one minute and two."""

    def met(self, watch):
        """Two processes have spoken."""
        a, b = self.pair()
        for host in (a, b):
            host.program = f"{agentcase.BUILD}/tests/agent/agent-hasty"
            host.settings["probe_interval_ms"] = 50
            host.start()
        self.converge(a, b)
        pa, pb = a.talk("one"), b.talk("two")
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        if watch:
            pa.say("watch 10.1.0.1 10.1.0.2 1")
            pa.expect("path 10.1.0.1 10.1.0.2 up")
        self.message(pa, pb, 1)
        return a, b, pa, pb

    def refused_after(self, seconds, b, pa, pb, number):
        """They do not speak for so long, and then again. Returns how many messages are refused."""
        time.sleep(seconds)
        refused = b.metric("datagrams_rejected")["unproven"]
        self.message(pa, pb, number)
        return b.metric("datagrams_rejected")["unproven"] - refused

    def test_renewed(self):
        """The agent asks for new ones while the processes are silent. A message directly after an answer is not refused.

        That it asks soon enough says a static_assert (cookie_refresh.c). Once more where seconds passed between the answer and the
        message, as on a machine that stands still. The messages of an agent that never asks are all refused."""
        a, b, pa, pb = self.met(watch=True)
        numbers = itertools.count(2)
        # b answers a question that comes too late as well: with a challenge, which has a cookie.
        answered = lambda: b.metric("bundles_received") + b.metric("datagrams_rejected")["unproven"]

        def is_not_refused():
            time.sleep(9)
            answers = answered()
            wait_for("an answer", lambda: answered() > answers)
            return self.refused_after(0, b, pa, pb, next(numbers)) == 0

        wait_for("a message that is not refused", is_not_refused, 3 * WAIT_S)

    def test_not_renewed_for_nobody(self):
        a, b, pa, pb = self.met(watch=False)
        time.sleep(9)
        sent = a.metric("bundles_sent")
        time.sleep(1)
        self.assertEqual(a.metric("bundles_sent"), sent)
        self.assertGreater(self.refused_after(0, b, pa, pb, 2), 0)
