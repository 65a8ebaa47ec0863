# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hosts beyond a router."""
import signal

from agentcase import AgentTest
from hosts import wait_for, wait_until_still


class Routed(AgentTest):
    def setUp(self):
        super().setUp()
        self.a, self.r, self.b = (self.world.host(name) for name in "arb")
        self.world.cable(self.a, "eth0", self.r, "eth0", ["10.1.0.2/24"], ["10.1.0.1/24"])
        self.world.cable(self.b, "eth0", self.r, "eth1", ["10.2.0.2/24"], ["10.2.0.1/24"])
        self.r.sysctl("ipv4/ip_forward", 1)
        self.a.ip("route", "add", "default", "via", "10.1.0.1")
        self.b.ip("route", "add", "default", "via", "10.2.0.1")
        self.a.device("mlx5_0", "eth0", ["10.1.0.2"])
        self.b.device("mlx5_0", "eth0", ["10.2.0.2"])

    def test_hosts_file(self):
        (self.a.dir / "hosts").write_text("b 10.2.0.2 # the other one\nc 10.3.0.2\n")
        self.a.start()
        self.b.start()
        wait_for("b", lambda: self.a.peers() == ["b"])
        self.assertEqual(self.a.get("peers")["hosts"][0]["heard"], [])
        asked = {entry["name"]: entry["answers"] for entry in self.a.get("peers")["asked"]}
        self.assertEqual(asked, {"b": True, "c": False})
        # That it goes on answering is nothing new.
        def after_another_answer():
            """The writes of the directory by then."""
            received = self.a.metric("entries_received")
            wait_for("another answer", lambda: self.a.metric("entries_received") > received)
            return self.a.metric("directory_writes")
        wait_until_still("the directory", after_another_answer, 0.2)
        # Nobody told b of a, and it does not take what it has not asked for.
        self.assertEqual(self.b.peers(), [])

    def test_port_that_comes_up(self):
        """An agent that was started while its ports were down asks when one comes up, not when the next query is due."""
        (self.a.dir / "hosts").write_text("b 10.2.0.2\n")
        self.b.start()
        self.r.ip("link", "set", "eth0", "down")
        self.a.start()
        wait_for("a query that cannot leave", lambda: self.a.metric("queries_sent") and self.a.metric("datagrams_held"))
        self.assertFalse(self.a.get("status")["rails"][0]["up"])
        sent = self.a.metric("queries_sent")
        self.r.ip("link", "set", "eth0", "up")
        wait_for("a sees it", lambda: self.a.get("status")["rails"][0]["up"])
        self.assertGreater(self.a.metric("queries_sent"), sent)
        wait_for("b", lambda: self.a.peers() == ["b"])

    def test_message_finds_its_way(self):
        self.a.start()
        self.b.start()
        pa, pb = self.a.talk(), self.b.talk()
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 1, "10.1.0.2", "10.2.0.2")
        pb.say("send 10.2.0.2 22 10.1.0.2 11 5")
        pa.expect("deliver mlx5_0 11 10.2.0.2 22 5")
        self.assertEqual(self.a.peers(), ["b"])
        # It is gone: that is noticed, and a later message finds it again.
        self.b.stop(signal.SIGKILL)
        pa.say("send 10.1.0.2 11 10.2.0.2 22 2")
        pa.expect("unreachable 10.2.0.2 22 2")
        self.b.start()
        pb = self.b.talk()
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 3, "10.1.0.2", "10.2.0.2")


    def test_look(self):
        """Who is about to connect beyond a router has the agent find out whose the address is."""
        self.a.start()
        self.b.start()
        talk = self.a.talk()
        talk.say("look 10.1.0.77")  # on the link: beacons would tell
        talk.expect("looked 10.1.0.77")
        self.assertEqual(self.a.metric("queries_sent"), 0)
        talk.say("look 10.2.0.2")
        wait_for("b", lambda: self.a.peers() == ["b"], 60)
        talk.say("look 10.2.0.2")
        talk.expect("looked 10.2.0.2")
        self.assertEqual(self.b.peers(), [])

    def test_look_in_doubt(self):
        """b announces an address of the link of a and r, where no beacon of b is heard: a process's question has a ask there."""
        self.b.ip("addr", "add", "10.1.0.77/32", "dev", "eth0")
        self.b.device("mlx5_0", "eth0", ["10.2.0.2", "10.1.0.77"])
        # a finds b at that address: r answers ARP for b, and forwards.
        self.r.ip("route", "add", "10.1.0.77/32", "dev", "eth1")
        self.r.sysctl("ipv4/conf/eth0/proxy_arp", 1)
        (self.a.dir / "hosts").write_text("b 10.2.0.2\n")
        self.a.start()
        self.b.start()
        asked = lambda: {entry["address"]: entry["answers"] for entry in self.a.get("peers")["asked"]}  # noqa: E731
        wait_for("b", lambda: self.a.peers() == ["b"])
        talk = self.a.talk()
        talk.say("look 10.1.0.78")  # no host announces this one
        talk.expect("looked 10.1.0.78")
        self.assertEqual(asked(), {"10.2.0.2": True})
        talk.say("look 10.1.0.77")
        wait_for("an answer there", lambda: asked() == {"10.2.0.2": True, "10.1.0.77": True})
        self.assertNotIn("looked 10.1.0.77", talk.poll())
        # The answer has ended the doubt.
        talk.say("look 10.1.0.77")
        talk.expect("looked 10.1.0.77")

    def test_another_rail(self):
        """A host that answers at one address stays known by another when the first one's rail fails; a change does not wait for its turn."""
        for host, subnet, other in ((self.a, 3, 4), (self.b, 4, 3)):
            self.world.cable(host, "eth1", self.r, f"eth{subnet}", [f"10.{subnet}.0.2/24"], [f"10.{subnet}.0.1/24"])
            host.ip("route", "add", f"10.{other}.0.0/24", "via", f"10.{subnet}.0.1", "dev", "eth1")
            host.device("mlx5_1", "eth1", [f"10.{subnet}.0.2"])
            self.key(host, "11" * 32)
        (self.a.dir / "hosts").write_text("b 10.2.0.2\n")
        self.a.start()
        self.b.start()
        asked = lambda: {entry["address"]: entry["answers"] for entry in self.a.get("peers")["asked"]}  # noqa: E731
        wait_for("both addresses", lambda: asked() == {"10.2.0.2": True, "10.4.0.2": True}, 60)
        self.r.ip("link", "set", "eth1", "down")
        wait_for("the other one", lambda: asked() == {"10.2.0.2": False, "10.4.0.2": True}, 60)
        self.assertEqual(self.a.peers(), ["b"])

    def test_news_without_a_question(self):
        """Who changes tells those that it queries. They need not ask, which they may a few times only (MD_HINTS): here the question gets lost."""
        for host, other in ((self.a, "b 10.2.0.2"), (self.b, "a 10.1.0.2")):
            (host.dir / "hosts").write_text(other + "\n")
            self.key(host, "11" * 32)
            host.start()
        self.converge(self.a, self.b)
        with self.a.mute("eth0"):
            self.b.device("mlx5_1", "eth0", ["10.2.0.3"])
            self.b.ip("addr", "add", "10.2.0.3/24", "dev", "eth0")
            wait_for("the change", lambda: [rail["device"] for host in self.a.get("peers")["hosts"] for rail in host["rails"]] == ["mlx5_0", "mlx5_1"])

    def test_no_router_without_carrier(self):
        """As Probes.test_nothing_leaves_without_carrier: who connects through the router would wait for its entry."""
        self.world.cable(self.a, "eth1", self.r, "eth2", ["10.4.0.2/24"], ["10.4.0.1/24"])
        self.a.start()
        talk = self.a.talk()
        talk.register("mlx5_0", 11)
        self.r.ip("link", "set", "eth0", "down")
        wait_for("a sees it", lambda: not self.a.get("status")["rails"][0]["up"])
        held = self.a.metric("datagrams_held")
        talk.say("send 10.1.0.2 11 10.2.0.2 22 1")
        wait_for("it is not asked for", lambda: self.a.metric("datagrams_held") > held)
        self.assertEqual(self.a.neighbours("eth0"), [])
        # Where routes lead elsewhere it is.
        self.a.ip("route", "replace", "default", "via", "10.4.0.1")
        sent = self.a.metric("datagrams_sent")
        talk.say("send 10.1.0.2 11 10.2.0.2 22 2")
        wait_for("it is asked for", lambda: self.a.metric("datagrams_sent") > sent)
