# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two hosts on a link find each other and carry messages."""
import itertools
import json
import signal
import sys
import time

import hosts
from agentcase import AgentTest, EXPIRY, LOOK_S, SOON
from hosts import wait_for, wait_until_still


class Pair(AgentTest):
    def test_converge_and_carry(self):
        a, b = self.pair()
        for host in (a, b):
            host.settings["beacon_interval_ms"] = 60000
        a.start()
        b.start()
        self.assertLess(self.converge(a, b), SOON)
        host = a.get("peers")["hosts"][0]
        self.assertEqual([rail["device"] for rail in host["rails"]], ["mlx5_0"])
        self.assertEqual({gid["gid"] for gid in host["rails"][0]["gids"]}, {"10.1.0.2"})
        self.assertEqual(host["heard"][0]["netdev"], "eth0")

        pa, pb = a.talk("one"), b.talk("two")
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        for number in range(1, 20):
            self.message(pa, pb, number)
        pb.say("send 10.1.0.2 22 10.1.0.1 11 77")
        pa.expect("deliver mlx5_0 11 10.1.0.2 22 77")
        # Each came once, though sent over several ways.
        self.assertEqual(sorted(pb.poll()), sorted(set(pb.poll())))
        self.assertEqual(b.metric("messages_received"), 19)
        wait_for("acks", lambda: a.metric("messages_arrived") == 19)
        self.assertEqual(a.metric("messages_waiting"), 0)

    def test_last_words(self):
        """What a process says before it ends arrives, even if the first copies do not."""
        a, b = self.pair()
        a.start()
        b.start()
        self.converge(a, b)
        pa, pb = a.talk("one"), b.talk("two")
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 1) # the neighbours are known
        numbers = itertools.count(2)

        def arrives():
            """False: so much time has passed without a way that the agent has given it up."""
            number, process = next(numbers), a.talk("last")
            process.register("mlx5_0", 12)
            accepted, unreachable = a.metric("messages_accepted"), a.metric("messages_unreachable")
            with a.mute("eth0"):
                process.say(f"send 10.1.0.1 12 10.1.0.2 22 {number}")
                wait_for("it goes", lambda: a.metric("messages_accepted") > accepted)
                process.close()
                self.world.talks.remove(process)
                wait_for("it is gone", lambda: a.metric("processes") == 1)
                self.assertNotIn(f"deliver mlx5_0 22 10.1.0.1 12 {number}", pb.poll())
            wait_for("its end", lambda: a.metric("messages_waiting") == 0)
            if a.metric("messages_unreachable") > unreachable:
                return False
            pb.expect(f"deliver mlx5_0 22 10.1.0.1 12 {number}")
            return True

        wait_for("one arrives", arrives)

    def test_processes_of_one_host(self):
        a, _ = self.pair()
        a.start()
        one, two = a.talk("one"), a.talk("two")
        one.register("mlx5_0", 11)
        two.register("mlx5_0", 22)
        two.say("register mlx5_0 11")  # is the other one's
        wait_for("refusal", lambda: a.metric("registrations_refused") == 1)
        one.say("send 10.1.0.1 11 10.1.0.1 22 1")
        two.expect("deliver mlx5_0 22 10.1.0.1 11 1")
        two.say("send 10.1.0.1 11 10.1.0.1 11 2")  # in the other one's name
        two.say("send 10.1.0.1 22 10.1.0.1 11 3")
        one.expect("deliver mlx5_0 11 10.1.0.1 22 3")
        self.assertNotIn("deliver mlx5_0 11 10.1.0.1 11 2", one.poll())
        self.assertEqual(a.metric("registrations_refused"), 1)
        self.assertEqual(a.metric("messages_forged"), 1)
        one.say('status mlx5_0 11 {"state":"active"}')
        wait_for("status", lambda: any("status" in qp for qp in a.get("qps")["qps"]))
        qps = {qp["qpn"]: qp for qp in a.get("qps")["qps"]}
        self.assertEqual(qps[11]["status"], {"state": "active"})
        self.assertEqual(qps[11]["name"], "one")
        self.assertEqual(qps[11]["pid"], one.process.pid)
        self.assertEqual(qps[11]["comm"], "agent-talk")
        one.close()
        self.world.talks.remove(one)
        wait_for("the registration goes with its process, to who was refused it",
                 lambda: sorted((qp["qpn"], qp["name"]) for qp in a.get("qps")["qps"]) == [(11, "two"), (22, "two")])

    def test_drain(self):
        a, b = self.pair()
        self.world.cable(a, "eth1", b, "eth1", ["10.2.0.1/24"], ["10.2.0.2/24"])
        a.device("mlx5_1", "eth1", ["10.2.0.1"])
        b.device("mlx5_1", "eth1", ["10.2.0.2"])
        for host in (a, b):
            host.settings["beacon_interval_ms"] = 60000
            host.start()
        self.converge(a, b)
        seen = lambda: {rail["device"]: (rail["up"], rail["drained"]) for host in b.get("peers")["hosts"]
                        for rail in host["rails"]}
        order = lambda **words: json.loads(a.ask(json.dumps(words)))
        self.assertEqual(order(do="drain", device="mlx5_0"), {"device": "mlx5_0", "drained": True})
        self.assertLess(wait_for("b sees it", lambda: seen() == {"mlx5_0": (False, True), "mlx5_1": (True, False)})[1], SOON)
        self.assertEqual((a.control_dir / "drained").read_text(), "mlx5_0\n")
        self.assertIn("there are: mlx5_0, mlx5_1", order(do="drain", device="mlx5_7")["error"])
        self.assertIn("last port that is up", order(do="drain", device="mlx5_1")["error"])
        self.assertEqual(order(do="undrain", device="mlx5_1"), {"error": "mlx5_1 is not drained"})

        a.stop(signal.SIGKILL)
        a.start()
        self.assertEqual([(rail["device"], rail["up"], rail["drained"]) for rail in a.get("status")["rails"]],
                         [("mlx5_0", False, True), ("mlx5_1", True, False)])
        self.assertEqual(order(do="drain", device="mlx5_1", force=True), {"device": "mlx5_1", "drained": True})
        for device in ("mlx5_0", "mlx5_1"):
            self.assertEqual(order(do="undrain", device=device), {"device": device, "drained": False})
        wait_for("b sees both", lambda: seen() == {"mlx5_0": (True, False), "mlx5_1": (True, False)})

    def test_drain_is_for_few(self):
        a, _ = self.pair()
        a.start()
        code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
                "s.sendall(sys.argv[2].encode() + b'\\n'); print(s.recv(4096).decode())")
        for user, error in (("1", "only root and the user of the agent may drain a device, and not in a container"), (str(hosts.NOBODY), None)):
            said = json.loads(hosts.sh("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", sys.executable, "-c", code,
                                       str(a.control_dir / "control"),
                                       json.dumps({"do": "drain", "device": "mlx5_0", "force": True})))
            self.assertEqual(said.get("error"), error)
        # Where it cannot be noted, it is not done.
        self.assertEqual(json.loads(a.ask('{"do": "undrain", "device": "mlx5_0"}'))["drained"], False)
        (a.control_dir / "drained.new").mkdir()
        self.assertIn("cannot be noted in", json.loads(a.ask('{"do": "drain", "device": "mlx5_0", "force": true}'))["error"])
        self.assertEqual([rail["drained"] for rail in a.get("status")["rails"]], [False])

    def test_restart_after_kill(self):
        a, b = self.pair()
        b.settings["beacon_interval_ms"] = 60000  # a does not forget it meanwhile, however long it takes to start
        a.start()
        b.start()
        self.converge(a, b)
        pa, pb = a.talk(), b.talk()
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 1)
        before, id_before = b.get("status"), a.get("peers")["hosts"][0]["id"]

        b.stop(signal.SIGKILL)
        pb.expect("closed")
        self.assertTrue((b.run_dir / "agent").exists())  # stale
        b.start()
        # a never missed it; it is the same host in a new life.
        self.assertEqual(a.peers(), ["b"])
        self.assertEqual(a.get("peers")["hosts"][0]["id"], id_before)
        self.assertNotEqual(b.get("status")["pid"], before["pid"])
        self.converge(a, b)
        pb = b.talk()
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 2)
        # The other way round, too: b's ids begin anew.
        pb.say("send 10.1.0.2 22 10.1.0.1 11 5")
        pa.expect("deliver mlx5_0 11 10.1.0.2 22 5")

    def test_expiry(self):
        a, b = self.pair()
        b.settings["beacon_interval_ms"] = 2000
        a.start()
        b.start()
        self.converge(a, b)
        pa = a.talk()
        pa.register("mlx5_0", 11)
        killed = time.monotonic()
        b.stop(signal.SIGKILL)
        # Not expired yet: its agent does not answer.
        pa.say("send 10.1.0.1 11 10.1.0.2 22 1")
        wait_for("b expires", lambda: a.peers() == [])
        self.assertGreater(time.monotonic() - killed, 2)  # after 3.5 intervals
        pa.expect("unreachable 10.1.0.2 22 1")
        # Now nobody has that address; it is asked, in vain.
        pa.say("send 10.1.0.1 11 10.1.0.2 22 2")
        pa.expect("unreachable 10.1.0.2 22 2")
        self.assertGreater(a.metric("queries_sent"), 0)
        numbers = itertools.count(3)

        def is_known():
            """For a while."""
            asked, number = a.metric("queries_sent"), next(numbers)
            pa.say(f"send 10.1.0.1 11 10.1.0.2 22 {number}")
            pa.expect(f"unreachable 10.1.0.2 22 {number}")
            return a.metric("queries_sent") == asked

        wait_for("it is not asked again", is_known)

    def test_agent_that_was_late_forgets_nobody(self):
        """An agent that has been stopped does not count that time as silence of others. Of b beacons have come meanwhile, of c none.

        Each is forgotten when it has been silent for EXPIRY beside that time, not before. A busy machine makes that later only."""
        a, b = self.pair()
        c = self.world.host("c")
        self.world.cable(a, "eth1", c, "eth0", ["10.2.0.1/24"], ["10.2.0.3/24"])
        a.device("mlx5_1", "eth1", ["10.2.0.1"])
        c.device("mlx5_0", "eth0", ["10.2.0.3"])
        for host in (a, b, c):
            host.start()
        wait_for("a knows both", lambda: a.peers() == ["b", "c"])

        def left_of_c():
            """Stops c, then a. Returns how long c may be silent from then on; None: a has not heard c for long, and both go on."""
            c.halt()
            asked = time.monotonic()
            ago = [host["heard_ms_ago"] / 1000 for host in a.get("peers")["hosts"] if host["name"] == "c"]
            a.halt()
            left = EXPIRY - LOOK_S - ago[0] - (time.monotonic() - asked) if ago else 0
            if left > EXPIRY / 3:
                return left
            for host in (a, c):
                host.agent.send_signal(signal.SIGCONT)
            return time.sleep(0.3)

        left = {"b": EXPIRY - LOOK_S, "c": wait_for("a has just heard c", left_of_c)[0]}
        sent = b.metric("beacons_sent")
        time.sleep(EXPIRY + 2)
        wait_for("beacons of b", lambda: b.metric("beacons_sent") > sent)
        b.halt()
        lived, begun = {}, time.monotonic()
        a.agent.send_signal(signal.SIGCONT)

        def all_are_gone():
            known = a.peers()
            for name in left:
                if name not in known:
                    lived.setdefault(name, time.monotonic() - begun)
            return not known

        wait_for("who is silent is forgotten all the same", all_are_gone)
        for name in left:
            self.assertGreaterEqual(lived[name], left[name], name)

    def test_message_before_registration_is_not_unreachable(self):
        a, b = self.pair()
        a.start()
        b.start()
        self.converge(a, b)
        pa = a.talk()
        pa.register("mlx5_0", 11)
        pa.say("send 10.1.0.1 11 10.1.0.2 22 1")
        wait_for("ack", lambda: a.metric("messages_arrived") == 1)
        time.sleep(1.2)
        self.assertEqual(pa.poll(), [hosts.WELCOME, "probes"])
        self.assertEqual(b.metric("messages_unregistered"), 1)

    def test_ipv4_only(self):
        a, b = self.pair(ipv6=False)
        a.start()
        b.start()
        self.converge(a, b)
        pa, pb = a.talk(), b.talk()
        pa.register("mlx5_0", 11)
        pb.register("mlx5_0", 22)
        self.message(pa, pb, 1)

    def test_one_without_ipv6(self):
        a, b = self.pair()
        b.sysctl("ipv6/conf/eth0/disable_ipv6", 1)
        a.start()
        b.start()
        self.converge(a, b)

    def test_changes_are_told(self):
        a, b = self.pair()
        for host in (a, b):
            host.settings["beacon_interval_ms"] = 60000
        a.start()
        b.start()
        self.converge(a, b)
        time.sleep(1)  # the bursts of the start are over
        gids = lambda: {gid["gid"] for gid in b.get("peers")["hosts"][0]["rails"][0]["gids"]}
        a.device("mlx5_0", "eth0", ["10.1.0.1", "10.1.0.9"])
        a.ip("addr", "add", "10.1.0.9/24", "dev", "eth0")
        _, took = wait_for("new address", lambda: gids() == {"10.1.0.1", "10.1.0.9"})
        self.assertLess(took, SOON)
        # A port that goes down is told by the other one.
        self.world.cable(a, "eth1", b, "eth1", ["10.2.0.1/24"], ["10.2.0.2/24"])
        a.device("mlx5_1", "eth1", ["10.2.0.1"])
        b.device("mlx5_1", "eth1", ["10.2.0.2"])
        a.ip("addr", "add", "10.2.0.99/24", "dev", "eth1")
        b.ip("addr", "add", "10.2.0.98/24", "dev", "eth1")
        up = lambda: [rail["up"] for host in b.get("peers")["hosts"] for rail in host["rails"]]
        wait_for("two rails", lambda: up() == [True, True])
        wait_for("heard on both", lambda: len(b.get("peers")["hosts"][0]["heard"]) == 2)
        a.device("mlx5_0", "eth0", ["10.1.0.1", "10.1.0.9"], state="1: DOWN")
        a.ip("link", "set", "eth0", "down")
        _, took = wait_for("port down", lambda: up() == [False, True])
        self.assertLess(took, SOON)
        # b's carrier is gone with it: nothing is heard there any more.
        wait_for("one link", lambda: [h["netdev"] for h in b.get("peers")["hosts"][0]["heard"]] == ["eth1"])

    def test_netdev_that_comes_back(self):
        """A host forgets whom it heard on a netdev that goes down. When the netdev is back, its neighbours do not wait for their next beacon.

        The description stays the same: on InfiniBand the port and its netdev change one after the other, here the netdev alone."""
        a, b = self.pair()
        switch = self.world.host("switch")  # b's carrier stays
        switch.ip("link", "add", "br0", "up", "type", "bridge")
        for number, host in enumerate((a, b), 1):
            self.world.cable(host, "eth1", switch, f"port{number}", [f"10.2.0.{number}/24"])
            switch.ip("link", "set", f"port{number}", "master", "br0")
            host.device("mlx5_0", "eth0", [f"10.1.0.{number}", (f"10.2.0.{number}", "eth1")])
            host.settings["beacon_interval_ms"] = 60000
            host.start()
        heard = lambda host: sorted(heard["netdev"] for peer in host.get("peers")["hosts"] for heard in peer["heard"])
        for host in (a, b):
            wait_for("heard on both", lambda host=host: heard(host) == ["eth0", "eth1"])
        for _ in range(2):
            time.sleep(1)  # the bursts are over
            a.ip("link", "set", "eth1", "down")
            wait_for("nothing is heard there", lambda: heard(a) == ["eth0"])
            a.ip("link", "set", "eth1", "up")
            _, took = wait_for("heard again", lambda: heard(a) == ["eth0", "eth1"])
            self.assertLess(took, SOON)
            self.assertEqual(heard(b), ["eth0", "eth1"])

    def test_many_addresses(self):
        """A description in pieces; signs of life afterwards; and one that missed it asks for it."""
        a, b = self.pair()
        addrs = [f"10.1.1.{n}" for n in range(1, 101)]
        for addr in addrs:
            a.ip("addr", "add", f"{addr}/16", "dev", "eth0")
        a.device("mlx5_0", "eth0", ["10.1.0.1"] + addrs)
        a.start()
        time.sleep(1.5)  # its bursts are over
        b.start()
        self.converge(a, b)
        self.assertEqual(len(b.get("peers")["hosts"][0]["rails"][0]["gids"]), 202)
        begun, sent = time.monotonic(), a.metric("beacons_sent")
        time.sleep(1.5)
        wait_for("signs of life", lambda: a.metric("beacons_sent") > sent)
        # One for each interval, in which five pieces would be sent.
        self.assertLess(a.metric("beacons_sent") - sent, 2 + 2 * (time.monotonic() - begun) / 0.3)

    def test_nothing_changes_nothing_is_written(self):
        a, b = self.pair()
        a.start()
        b.start()
        self.converge(a, b)
        unchanged = a.metric("beacons_unchanged")
        wait_until_still("the directory", lambda: a.metric("directory_writes"), 1.5)
        wait_for("beacons", lambda: a.metric("beacons_unchanged") > unchanged)
        self.assertEqual(a.metric("beacons_rejected"), 0)

    def test_exclude(self):
        a, b = self.pair()
        a.settings["exclude_default_route"] = "off"
        a.start()
        b.start()
        self.converge(a, b)
        a.stop()
        a.ip("route", "add", "default", "via", "10.1.0.2")
        self.world.cable(a, "eth1", b, "eth1", ["10.2.0.1/24"], ["10.2.0.2/24"])
        a.device("mlx5_1", "eth1", ["10.2.0.1"])
        a.settings["exclude_default_route"] = "on"
        a.start()
        self.assertEqual([rail["excluded"] for rail in a.get("status")["rails"]], [True, False])
        wait_for("b knows", lambda: [r["excluded"] for h in b.get("peers")["hosts"] for r in h["rails"]] == [True, False])
        # Both lead elsewhere: nobody's management.
        a.ip("route", "add", "default", "via", "10.2.0.2", "metric", "100")
        wait_for("none is excluded", lambda: not any(rail["excluded"] for rail in a.get("status")["rails"]))

    def test_excluded_is_not_counted(self):
        """Nobody waits for a port to come up that the administrator has excluded."""
        a, b = self.pair()
        self.world.cable(a, "eth1", b, "eth1", ["10.2.0.1/24"], ["10.2.0.2/24"])
        a.device("mlx5_1", "eth1", ["10.2.0.1"])
        a.start()
        self.assertEqual((a.metric("rails"), a.metric("rails_up")), (2, 2))
        a.stop()
        a.common["exclude"] = "mlx5_1"
        a.start()
        self.assertEqual([rail["excluded"] for rail in a.get("status")["rails"]], [False, True])
        self.assertEqual((a.metric("rails"), a.metric("rails_up")), (1, 1))
        # One of those that count is counted when it is down, too.
        a.device("mlx5_0", "eth0", ["10.1.0.1"], state="1: DOWN")
        a.ip("link", "set", "eth0", "down")
        wait_for("it is down", lambda: a.metric("rails_up") == 0)
        self.assertEqual(a.metric("rails"), 1)
