# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Paths that processes have watched."""
import pathlib
import signal
import time

import hosts
from agentcase import AgentTest
from hosts import wait_for, wait_until_still


class Probes(AgentTest):
    """Paths that processes have watched."""
    key_text = None
    work, primary, alternate = 1, 2, 4

    def setUp(self):
        super().setUp()
        self.a, self.b = self.pair()
        self.world.cable(self.a, "eth1", self.b, "eth1", ["10.2.0.1/24"], ["10.2.0.2/24"])
        self.a.device("mlx5_1", "eth1", ["10.2.0.1"])
        self.b.device("mlx5_1", "eth1", ["10.2.0.2"])
        self.b.settings["probe_interval_ms"] = 0  # it answers all the same
        for host in (self.a, self.b):
            if self.key_text:
                self.key(host, self.key_text)
            host.start()
        self.converge(self.a, self.b)

    def states(self):
        return {(probe["gid"], probe["peer_gid"]): probe["state"] for probe in self.a.get("probes")["probes"]}

    def give_addresses(self, addrs):
        """b's eth0 has them as well, and a knows."""
        for addr in addrs:
            self.b.ip("addr", "add", f"{addr}/24", "dev", "eth0")
        self.b.device("mlx5_0", "eth0", ["10.1.0.2", *addrs])
        wait_for("a knows its addresses", lambda: sum(len(rail["gids"]) for host in self.a.get("peers")["hosts"]
                                                      for rail in host["rails"]) > 2 * len(addrs))

    def test_path_dies_and_recovers(self):
        talk = self.a.talk()
        talk.expect("probes")
        talk.say(f"watch 10.1.0.1 10.1.0.2 {self.work}")
        talk.say(f"watch 10.2.0.1 10.2.0.2 {self.alternate}")
        talk.expect("path 10.1.0.1 10.1.0.2 up")
        talk.expect("path 10.2.0.1 10.2.0.2 unknown")
        # Carrier stays, and beacons come; but nobody takes what is sent to this address.
        self.b.ip("addr", "del", "10.1.0.2/24", "dev", "eth0")
        talk.expect("path 10.1.0.1 10.1.0.2 down")
        lines = talk.poll()
        self.assertLess(lines.index("path 10.2.0.1 10.2.0.2 up"), lines.index("path 10.1.0.1 10.1.0.2 down"))
        self.assertEqual(self.a.metric("path_failures"), 1)
        talk.say(f"watch 10.1.0.1 10.1.0.2 {self.primary}")
        self.b.ip("addr", "add", "10.1.0.2/24", "dev", "eth0")
        wait_for("it is up", lambda: self.states()["10.1.0.1", "10.1.0.2"] == "up")
        self.assertEqual(self.a.metric("path_recoveries"), 1)
        # Nobody wants it any more: nothing is sent.
        talk.say("watch 10.1.0.1 10.1.0.2 0")
        wait_for("it is forgotten", lambda: ("10.1.0.1", "10.1.0.2") not in self.states())
        wait_until_still("what is sent", lambda: self.a.metric("probes_sent"), 0.1)
        self.assertEqual((self.b.metric("probes_sent"), self.a.metric("echoes_sent")), (0, 0))

    def test_nothing_leaves_without_carrier(self):
        """What is sent then leaves an entry for the neighbour that others have to wait for when the link is back."""
        (self.a.dir / "hosts").write_text("b 10.1.0.2\n")
        self.a.agent.send_signal(signal.SIGHUP)
        addrs = [f"10.1.0.{n}" for n in range(101, 109)]
        self.give_addresses(addrs)
        talk = self.a.talk()
        for path in ("10.1.0.1 10.1.0.2", "10.2.0.1 10.2.0.2", *(f"10.1.0.1 {addr}" for addr in addrs)):
            talk.say(f"watch {path} {self.work + self.primary}")
        all_are_up = lambda: list(self.states().values()) == ["up"] * (2 + len(addrs))
        wait_for("all are up", all_are_up)
        for says in (True,) * 9 + (False,):
            # b says that its port is down, or nothing. What is sent each 10 ms does not wait for notices.
            talk.lines.clear()
            if not says:
                self.b.agent.send_signal(signal.SIGSTOP)
            self.b.ip("link", "set", "eth0", "down")
            talk.expect(f"path 10.1.0.1 10.1.0.2 {'down' if says else 'silent'}")
            wait_for("a sees it", lambda: not self.a.get("status")["rails"][0]["up"])
            seen = set()
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                seen |= {addr for addr, _ in self.a.neighbours("eth0")}
                time.sleep(0.05)
            # Of nine. The link may go down between the agent's question and the one datagram that it is about.
            self.assertLessEqual(len(seen), 1, seen)
            self.b.agent.send_signal(signal.SIGCONT)
            self.b.ip("link", "set", "eth0", "up")
            wait_for("all are up again", all_are_up)
        self.assertGreater(self.a.metric("datagrams_held"), 0)

    def test_nothing_is_sent_to_a_port_that_is_down(self):
        """Its host says so. The link itself works here."""
        talk = self.a.talk()
        talk.say(f"watch 10.1.0.1 10.1.0.2 {self.work + self.primary}")
        talk.expect("path 10.1.0.1 10.1.0.2 up")
        sent = lambda: (self.a.metric("probes_sent"), self.b.metric("probes_received"))
        known = lambda: {rail["device"]: rail["up"] for host in self.a.get("peers")["hosts"] for rail in host["rails"]}
        self.b.device("mlx5_0", "eth0", ["10.1.0.2"], state="1: DOWN")
        wait_for("b says that it is down", lambda: not known().get("mlx5_0", True))  # it is not there while it is written
        before = wait_until_still("what is sent", sent, 0.5)
        self.b.device("mlx5_0", "eth0", ["10.1.0.2"])
        wait_for("it is probed again", lambda: sent() > before and self.states()["10.1.0.1", "10.1.0.2"] == "up")

    def test_netdev_that_stands_still(self):
        """With carrier. What it was given takes room from all netdevs until it sends it, which it never does."""
        # How many paths can be found dead then is a question of the buffer: meshverbsd/README.md.
        n_paths = 64 if int(pathlib.Path("/proc/sys/net/core/wmem_max").read_text()) >= 4 << 20 else 16
        addrs = [f"10.1.0.{n}" for n in range(101, 101 + n_paths)]
        paths = [f"10.1.0.1 {addr}" for addr in addrs]
        other = "10.2.0.1 10.2.0.2"
        self.give_addresses(addrs)
        talk, peer = self.a.talk(), self.b.talk()
        talk.register("mlx5_1", 11)
        peer.register("mlx5_1", 22)
        for path in (*paths, other):
            talk.say(f"watch {path} {self.work + self.primary}")
        for path in (*paths, other):
            talk.expect(f"path {path} up")
        hosts.sh("tc", "-n", self.a.netns, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1kbit", "burst", "1600",
                 "limit", "100000000")
        for path in paths:
            talk.expect(f"path {path} down")
        time.sleep(3)
        answered = self.a.metric("probes_answered")
        talk.say("send 10.2.0.1 11 10.2.0.2 22 1")
        peer.expect("deliver mlx5_1 22 10.2.0.1 11 1")
        peer.say("send 10.2.0.2 22 10.2.0.1 11 2")
        talk.expect("deliver mlx5_1 11 10.2.0.2 22 2")
        wait_for("it answers", lambda: self.a.metric("probes_answered") > answered + 5)
        wait_for("it is up", lambda: self.states()[tuple(other.split())] == "up")
        self.assertNotIn(f"path {other} down", talk.poll())

    def test_one_probes_for_both(self):
        self.b.stop()
        del self.b.settings["probe_interval_ms"]
        self.b.start()
        self.converge(self.a, self.b)
        talks = self.a.talk(), self.b.talk()
        for talk, path in zip(talks, ("10.1.0.1 10.1.0.2", "10.1.0.2 10.1.0.1")):
            talk.say(f"watch {path} {self.work}")
            talk.expect(f"path {path} up")
        spared = lambda: sum(host.metric("probes_spared") for host in (self.a, self.b))
        wait_for("one rests", lambda: spared() > 50)
        # The one that did not rest is gone: who did asks for himself.
        rests, other = sorted((self.a, self.b), key=lambda host: -host.metric("probes_spared"))
        other.agent.send_signal(signal.SIGSTOP)
        sent = rests.metric("probes_sent")
        wait_for("it asks", lambda: rests.metric("probes_sent") > sent + 20)
        other.agent.send_signal(signal.SIGCONT)
        before = spared()
        wait_for("one rests again", lambda: spared() > before + 50)
        self.assertEqual((self.a.metric("path_failures"), self.b.metric("path_failures")), (0, 0))

    def test_agent_starts_again(self):
        talk = self.a.talk()
        for path in ("10.1.0.1 10.1.0.2", "10.2.0.1 10.2.0.2"):
            talk.say(f"watch {path} {self.work + self.primary}")
            talk.expect(f"path {path} up")
        self.b.stop(signal.SIGKILL)
        for path in ("10.1.0.1 10.1.0.2", "10.2.0.1 10.2.0.2"):
            talk.expect(f"path {path} silent")
        self.b.start()
        wait_for("both answer again", lambda: set(self.states().values()) == {"up"})
        self.assertEqual(self.a.metric("path_failures"), 0)

    def test_what_is_not_watched(self):
        """Paths from addresses of others, or to those of nobody."""
        talk = self.a.talk()
        talk.say(f"watch 10.1.0.9 10.1.0.2 {self.work}")
        talk.say(f"watch 10.1.0.1 10.1.0.77 {self.work}")
        wait_for("both are refused", lambda: self.a.metric("watches_refused") == 2)
        self.assertEqual(self.states(), {})

    def test_one_user_leaves_paths_to_others(self):
        for host, net in ((self.a, 10), (self.b, 20)):
            addrs = [f"10.1.{net}.{n}" for n in range(1, 57)]
            for addr in addrs:
                host.ip("addr", "add", f"{addr}/16", "dev", "eth0")
            host.device("mlx5_0", "eth0", addrs)
        wait_for("all addresses", lambda: len(self.a.get("peers")["hosts"][0]["rails"][0]["gids"]) >= 56 and
                 any(len(rail["gids"]) >= 56 for rail in self.a.get("status")["rails"]))
        paths = [f"10.1.10.{i} 10.1.20.{j}" for i in range(1, 57) for j in range(1, 57)]
        talks = [self.a.talk(f"greedy{i}", user=12345) for i in range(4)]
        for n in range(0, 3072, 1024):
            for path in paths[n:n + 1024]:
                talks[n // 1024].say(f"watch {path} {self.alternate}")
        wait_for("3072 paths", lambda: len(self.states()) == 3072)
        self.assertEqual(self.a.metric("watches_refused"), 0)
        for path in paths[3072:3092]:
            talks[3].say(f"watch {path} {self.alternate}")
        talks[3].say(f"watch {paths[0]} {self.alternate}")  # is his already
        talks[3].expect(f"path {paths[0]} unknown")
        self.assertEqual((self.a.metric("watches_refused"), len(self.states())), (20, 3072))
        for user in (0, 12346):
            talk = self.a.talk("modest", user=user)
            talk.say(f"watch {paths[-1]} {self.work}")
            talk.expect(f"path {paths[-1]} up")
        self.assertEqual(self.a.log.read_text().count("user 12345 may have no further path watched"), 1)

    def test_change_while_host_is_gone(self):
        """Who has a path watched is not told that a change was refused, and does not say it again."""
        talk = self.a.talk()
        talk.say(f"watch 10.1.0.1 10.1.0.2 {self.work}")
        talk.expect("path 10.1.0.1 10.1.0.2 up")
        self.b.stop(signal.SIGKILL)
        wait_for("b is forgotten", lambda: not self.a.get("peers")["hosts"])
        talk.say(f"watch 10.1.0.1 10.1.0.2 {self.primary}")
        talk.expect("path 10.1.0.1 10.1.0.2 silent")
        self.assertEqual(self.a.metric("watches_refused"), 0)

    def test_out_of_several_netdevs(self):
        """To one address: the netdevs' cookies are not each other's."""
        self.a.ip("addr", "add", "10.1.0.3/24", "dev", "eth1")
        self.a.device("mlx5_1", "eth1", ["10.2.0.1", "10.1.0.3"])
        self.b.sysctl("ipv4/conf/all/rp_filter", 0)
        self.b.sysctl("ipv4/conf/eth1/rp_filter", 0)
        wait_for("its address is known", lambda: any(gid["gid"] == "10.1.0.3" for rail in self.a.get("status")["rails"]
                                                     for gid in rail["gids"]))
        talk = self.a.talk()
        talk.say(f"watch 10.1.0.1 10.1.0.2 {self.work}")
        talk.say(f"watch 10.1.0.3 10.1.0.2 {self.work}")
        talk.expect("path 10.1.0.1 10.1.0.2 up")
        # These come in by another netdev than the address is on: such a path is none.
        wait_for("they go astray", lambda: self.b.metric("probes_astray") > 3)
        self.assertEqual(self.states(), {("10.1.0.1", "10.1.0.2"): "up", ("10.1.0.3", "10.1.0.2"): "unknown"})
        self.assertEqual(self.a.metric("path_failures"), 0)

    def test_from_several_addresses(self):
        """Of one netdev to one address: the cookies that this one gives are not each other's."""
        addrs = ["10.1.0.1", "10.1.0.3", "10.1.0.4"]
        for addr in addrs[1:]:
            self.a.ip("addr", "add", f"{addr}/24", "dev", "eth0")
        self.a.device("mlx5_0", "eth0", addrs)
        wait_for("its addresses are known", lambda: len(self.a.get("status")["rails"][0]["gids"]) == 2 * len(addrs))
        talk = self.a.talk()
        for path in ("10.2.0.1 10.2.0.2", *(f"{addr} 10.1.0.2" for addr in addrs)):
            talk.say(f"watch {path} {self.work}")
        for path in ("10.2.0.1 10.2.0.2", *(f"{addr} 10.1.0.2" for addr in addrs)):
            talk.expect(f"path {path} up")
        wait_until_still("what is refused", lambda: self.b.metric("datagrams_rejected")["unproven"], 1)
        self.assertEqual(self.a.metric("path_failures"), 0)


class SealedProbes(Probes):
    key_text = "22" * 32
