# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Units and rules of the packages under a real systemd and udev, in guests of tests/lab with a real kernel and Soft-RoCE."""
import json
import re
import shlex
import shutil
import sys
import time

from . import REPO, Failed, check, debs, installed

SYSTEMD = str(REPO / "tests/pkg/guest_systemd")
SECONDS = 240  # emulated, on a busy machine
EXPOSURE = 1.5
MODES = "find /dev/infiniband -type c -printf '%f %m %U:%G, ' | sort"
CONF = "[meshverbs]\nbase = mlx5 rxe\n"


class Guest:
    def __init__(self, lab, host):
        self.lab, self.host = lab, host

    def outside(self, command):
        done = self.lab.run(self.host, command, timeout=SECONDS)
        return done.rc, done.out

    def run(self, command):
        """A shell command beside systemd: (exit status, output)."""
        return self.outside(f"{SYSTEMD} run sh -c {shlex.quote(command)} 2>&1")

    def must(self, command):
        status, said = self.run(command)
        if status:
            raise Failed(f"{self.host}: {command}: {status}\n{said}\n{self.run('journalctl -b --no-pager | tail -n 40')[1]}")
        return said.strip()

    def until(self, command, text):
        """The command has to work within the limit."""
        end = time.monotonic() + SECONDS
        while (result := self.run(command))[0]:
            if time.monotonic() > end:
                log = self.run("journalctl -b --no-pager | tail -n 60; systemctl --no-pager status meshverbsd")[1]
                raise Failed(f"{self.host}: not in {SECONDS} s: {text}\n{result[1]}\n{log}")
            time.sleep(0.5)
        check(True, f"{self.host}: {text}")

    def arp(self, netdev):
        return [self.must(f"cat /proc/sys/net/ipv4/conf/{netdev}/{key}") for key in ("arp_announce", "arp_ignore")]

    def arp_becomes(self, netdev, text):
        self.until(f"test $(cat /proc/sys/net/ipv4/conf/{netdev}/arp_announce)$(cat /proc/sys/net/ipv4/conf/{netdev}/arp_ignore) = 21", text)

    def boot(self, root):
        # the lab's guests have what these tests are about
        self.outside("for f in /proc/sys/net/ipv4/conf/*/arp_announce /proc/sys/net/ipv4/conf/*/arp_ignore; do echo 0 >$f; done")
        self.modes = self.outside(MODES)[1]
        self.job = self.lab.start(self.host, f"{SYSTEMD} boot {root.path}")
        self.until("systemctl is-active basic.target", "systemd is up")


def prepare(out):
    files = debs.packages(sorted((out / "deb").glob("*.deb")))
    if len(files) != 2:
        raise Failed(f"no packages in {out / 'deb'}: run the step deb first")
    root = installed.host(out / "guest")
    installed.install(root, files)
    check(not (root.path / "var/lib/meshverbs").exists(), "an installation into an image makes no identity")
    root.take(installed.repacked(files, out / "upgrade", f"{debs.version()}+upgrade"), "/debs/newer")
    (root.path / "etc/libibverbs.d/mesh/mesh.conf").write_text(CONF)
    return root


def agent(guest):
    guest.until("systemctl is-active meshverbsd", "udev has started the agent")
    check(guest.run("systemctl is-enabled meshverbsd")[1].strip() == "disabled", "... and nothing else would have")
    check(guest.must("stat -c %U /run/meshverbsd/control") == "meshverbs", "... as its own user")
    check(guest.must("stat -c '%U %a' /var/lib/meshverbs /var/lib/meshverbs/identity").split() == ["meshverbs", "711", "meshverbs", "600"],
          "... which has made this host's identity")
    said = guest.must("systemd-analyze security --no-pager meshverbsd")
    found = re.search(r"Overall exposure level for meshverbsd.service: ([0-9.]+)", said)
    check(found and float(found[1]) <= EXPOSURE, f"systemd-analyze security: {found[1] if found else said}")
    said = guest.must("systemctl show -p NRestarts -p SubState meshverbsd")
    check("NRestarts=0" in said and "SubState=running" in said, "... and runs without a restart")


def hear_each_other(guest):
    end = time.monotonic() + SECONDS
    while True:
        status, said = guest.run("meshverbs peers --json")
        states = [host["state"] for host in json.loads(said)["hosts"]] if status == 0 else []
        if sorted(states) == ["self", "talks"]:
            break
        if time.monotonic() > end:
            raise Failed(f"the agents do not hear each other: {said}")
        time.sleep(0.5)
    check(True, "the agents hear each other")
    guest.until("meshverbs keys --json | grep -q '\"authenticated\": true'", "... and know each other by their keys")


def life_of_the_agent(guest):
    pid = guest.must("systemctl show -P MainPID meshverbsd")
    guest.must("systemctl kill -s KILL meshverbsd")
    guest.until(f"test $(systemctl show -P MainPID meshverbsd) != {pid} && meshverbs peers", "an agent that is killed comes back")
    guest.must("systemctl reload meshverbsd")
    check("SubState=running" in guest.must("systemctl show -p SubState meshverbsd"), "... and reloads its files")
    guest.must("systemctl stop meshverbsd")
    guest.must("rdma link delete rxe1")
    guest.must("rdma link add rxe1 type rxe netdev eth1")
    guest.until("systemctl is-active meshverbsd", "a device that appears starts an agent that does not run")


def netdevs(guest):
    for netdev in ("eth0", "eth1"):
        guest.arp_becomes(netdev, f"ARP settings of {netdev}")
    check(guest.arp("mgmt") == ["0", "0"], "... and not of the netdev without RDMA")
    guest.must("ip link add link eth0 name eth0.7 type vlan id 7")
    guest.arp_becomes("eth0/7".replace("/", "."), "ARP settings of a VLAN that is added")
    guest.must("echo 0 >/proc/sys/net/ipv4/conf/eth0.7/arp_ignore; ip link set eth0.7 name vlan7")
    guest.until("udevadm settle && udevadm info /sys/class/net/vlan7", "udev knows its new name")
    check(guest.arp("vlan7") == ["2", "0"], "what somebody changed stays, also when the netdev is renamed")
    guest.must("udevadm trigger --action=add --subsystem-match=net && udevadm settle --timeout=60")
    check(guest.arp("vlan7") == ["2", "0"], "... and when udev is triggered")
    guest.must("mkdir -p /etc/sysctl.d; echo net.ipv4.conf.eth0/8.arp_ignore = 0 >/etc/sysctl.d/60-admin.conf")
    guest.must("ip link add link eth0 name eth0.8 type vlan id 8")
    guest.until("test $(cat /proc/sys/net/ipv4/conf/eth0.8/arp_announce) = 2", "a VLAN with a line in sysctl.d")
    check(guest.arp("eth0.8") == ["2", "0"], "... keeps what the line says")
    now = guest.outside(MODES)[1]
    check(now == guest.modes != "", f"permissions of the devices are as they were: {now}" if now == guest.modes else f"{guest.modes}, now {now}")


def upgrade(guest):
    pid = guest.must("systemctl show -P MainPID meshverbsd")
    guest.identity = guest.must("cat /var/lib/meshverbs/identity")
    guest.must("dpkg -i /debs/newer/*.deb")
    guest.until(f"test $(systemctl show -P MainPID meshverbsd) != {pid} && meshverbs peers", "an upgrade restarts the agent")


def removal(guest):
    guest.must("dpkg --remove meshverbs")
    guest.must("dpkg -i /debs/newer/*.deb")
    guest.until("systemctl is-active meshverbsd", "removed and installed again, the agent starts")
    check(guest.must("cat /var/lib/meshverbs/identity") == guest.identity, "... with the identity that it had")
    guest.must("dpkg --purge meshverbs meshverbs-provider")
    check(guest.run("systemctl is-active meshverbsd")[1].strip() != "active", "purge: the agent is gone")
    check(guest.run("test -e /var/lib/meshverbs")[0] != 0, "... and its identity")
    check(guest.arp("eth0") == ["0", "0"], "... and ARP is as it was")
    guest.must("dpkg -i /debs/newer/*.deb")
    guest.until("systemctl is-active meshverbsd", "installed where there is hardware already, the agent starts")
    guest.arp_becomes("eth0", "... and ARP is set")


def step(args):
    sys.path[:0] = [str(REPO / "tests/lab"), str(REPO / "tests/topo")]
    from rdmalab import Lab
    root = prepare(args.out)
    with Lab.up("pair", name="pkg") as lab:
        guests = [Guest(lab, host) for host in ("a", "b")]
        for guest in guests:
            guest.boot(root)
        for guest in guests:
            agent(guest)
        guest = guests[0]
        hear_each_other(guest)
        netdevs(guest)
        life_of_the_agent(guest)
        upgrade(guest)
        removal(guest)
    shutil.rmtree(root.path)
