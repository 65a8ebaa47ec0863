# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of a root file system on simulated hosts (sim/sim)."""
import json
import os
import re
import subprocess
import sys
import time

from . import REPO, Failed, check

sys.path[:0] = [str(REPO / path) for path in ("sim", "tests/topo")]
from launcher import qualifier  # noqa: E402

SIM, INROOT = str(REPO / "sim/sim"), str(REPO / "tests/pkg/inroot")
SECONDS = 60
QUALIFIED_S = 300  # four trials, each of seconds
QUALIFY = "/exchange/qualify"  # what agents run, for no systemd is there to start the unit
TRUST = "MESHVERBS_TEST_TRUST_REGISTRATIONS=1"  # as sim/launcher/agents.py
NCCLISH = "tests/sim/verbs/sim_ncclish"


class Hosts:
    """Hosts a and b of tests/topo/pair: mlx5_0 reaches mlx5_0, mlx5_1 reaches mlx5_1. All have the same root."""

    def __init__(self, root, build):
        self.root, self.build, self.name = root, str(build), f"pkg-{os.getpid()}"
        self.agents = []
        (root.path / "exchange").mkdir(exist_ok=True)
        file = root.path / QUALIFY[1:]
        file.write_text(qualifier.script(f"{self.build}/sim/libsimhca.so", "/usr/bin/meshverbs"))
        file.chmod(0o755)

    def __enter__(self):
        subprocess.run([SIM, "up", "-n", self.name, "--build", self.build, "pair"], check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.stop_agents()
        subprocess.run([SIM, "down", self.name], check=True)

    def argv(self, host, *command):
        return [SIM, "exec", "-n", self.name, host, "--", INROOT, str(self.root.path), self.build, *command]

    def start(self, host, *command, **kwargs):
        return subprocess.Popen(self.argv(host, "timeout", str(SECONDS), *command), text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)

    def run(self, host, *command):
        """(exit status, what it said)."""
        done = subprocess.run(self.argv(host, "timeout", str(SECONDS), *command), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def listening(self, host, port, server):
        deadline = time.monotonic() + SECONDS
        while f":{port} " not in self.run(host, "ss", "-tln")[1]:
            if server.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def between(self, port, server, client):
        """Server in b, then client in a: ((exit status, text) of both)."""
        with self.start("b", *server) as waiting:
            here = self.run("a", *client) if self.listening("b", port, waiting) else (None, "not started")
            if here[0] != 0:
                waiting.terminate()
            said = waiting.communicate(timeout=2 * SECONDS)[0]
        return (waiting.returncode, said), here

    def start_agents(self):
        """As the unit does, without systemd; and until they know each other."""
        for host in ("a", "b"):
            # sim's priority for agents: the HCAs' threads have it, too
            argv = self.argv(host, "env", "-u", "LD_PRELOAD", TRUST, f"MESHVERBS_TEST_QUALIFY={QUALIFY}", "chrt", "--rr", "1", "/usr/sbin/meshverbsd", "--run-dir", "/run/meshverbs")
            with open(self.root.path / f"exchange/agent-{host}.log", "a", encoding="utf-8") as log:
                self.agents.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        deadline = time.monotonic() + SECONDS
        for host in ("a", "b"):
            while not self.knows_both(host):
                if time.monotonic() > deadline:
                    raise Failed(f"the agent of {host} hears nobody: {self.run(host, 'meshverbs', 'peers')}")
                time.sleep(0.1)

    def knows_both(self, host):
        status, said = self.run(host, "meshverbs", "peers", "--json")
        return status == 0 and sum(peer["state"] in ("self", "talks") for peer in json.loads(said)["hosts"]) == 2

    def qualified(self, host):
        """Devices of a host that have qualified, as `meshverbs status` says."""
        said = self.run(host, "meshverbs", "status", "--json")[1]
        return {row["device"] for row in json.loads(said)["qualified"] if row["state"] == "qualified"}

    def wait_qualified(self, devices):
        """Until the agents of both hosts have had all devices tried out."""
        deadline = time.monotonic() + QUALIFIED_S
        for host in ("a", "b"):
            while self.qualified(host) != devices:
                if time.monotonic() > deadline:
                    raise Failed(f"the devices of {host} have not qualified: {self.run(host, 'meshverbs', 'status')[1]}")
                time.sleep(0.5)

    def link(self, name, state):
        """Pulls the cable NAME ("off"), or plugs it in ("on")."""
        subprocess.run([SIM, "link", "-n", self.name, name, state], check=True)

    def stop_agents(self):
        for agent in self.agents:
            agent.terminate()
        for agent in self.agents:
            agent.wait(SECONDS)
        self.agents = []


def wrong_nics(hosts):
    """{program: function() -> (worked, what was said)}: b's first NIC and a's second one, which no cable joins."""
    def perftest():
        server, client = hosts.between(18601, ["ib_write_bw", "-d", "mlx5_0", "-F", "-p", "18601", "-n", "200", "-s", "4096"],
                                       ["ib_write_bw", "-d", "mlx5_1", "-F", "-p", "18601", "-n", "200", "-s", "4096", "b"])
        return server[0] == client[0] == 0 and bool(re.search(r"\n *4096 +200 +", client[1])), server[1] + client[1]

    def verbs_only():
        server, client = hosts.between(18602, ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "3", "-p", "18602", "-n", "200", "-c"],
                                       ["ibv_rc_pingpong", "-d", "mlx5_1", "-g", "3", "-p", "18602", "-n", "200", "-c", "b"])
        return server[0] == client[0] == 0 and "200 iters in" in client[1], server[1] + client[1]

    def wrong_gid():
        """The right NIC, and the entry of the other RoCE version."""
        server, client = hosts.between(18606, ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "3", "-p", "18606", "-n", "200", "-c"],
                                       ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "2", "-p", "18606", "-n", "200", "-c", "b"])
        return server[0] == client[0] == 0 and "200 iters in" in client[1], server[1] + client[1]

    def ucx():
        server, client = hosts.between(
            18603, ["env", "UCX_TLS=rc_verbs,ud_verbs,self", "UCX_NET_DEVICES=mlx5_0:1", "ucx_perftest", "-p", "18603"],
            ["env", "UCX_TLS=rc_verbs,ud_verbs,self", "UCX_NET_DEVICES=mlx5_1:1", "ucx_perftest", "-p", "18603", "-t", "tag_bw",
             "-s", "4096", "-n", "200", "b"])
        return client[0] == 0 and "Final:" in client[1], server[1] + client[1]

    def pyverbs():
        script = "/exchange/pyrc.py"
        (hosts.root.path / script[1:]).write_text((REPO / "tests/pkg/pyrc.py").read_text())
        server, client = hosts.between(18604, ["python3", script, "server", "18604", "mlx5_0", "3"],
                                       ["python3", script, "client", "18604", "mlx5_1", "3", "b", "it arrived"])
        return server == (0, "it arrived\n") and client[0] == 0, server[1] + client[1]

    def nccl_like():
        program, words = f"{hosts.build}/{NCCLISH}", ["b", "a", "-n", "50", "-g", "3", "-p", "18605", "-t", "20"]
        with hosts.start("b", program, "0", *words, "-d", "mlx5_0") as other:
            here = hosts.run("a", program, "1", *words, "-d", "mlx5_1")
            said = other.communicate(timeout=2 * SECONDS)[0]
        return here[0] == other.returncode == 0, said + here[1]

    wrong = "on NICs that do not reach each other"
    return {f"perftest {wrong}": perftest, f"ibv_rc_pingpong {wrong}": verbs_only, f"UCX {wrong}": ucx, f"pyverbs {wrong}": pyverbs,
            f"an NCCL-like program {wrong}": nccl_like, "ibv_rc_pingpong with a GID of the other RoCE version": wrong_gid}


UNREACHED = (r"Failed to modify QP|Unable to Connect|Couldn't connect to remote QP|transport retry counter exceeded|ncclish|"
             r"Completion with error|client read/write|retry counter|unhandled timeout|Failed to modify|Endpoint timeout|modifying QP")


def expect(hosts, works):
    for name, run in wrong_nics(hosts).items():
        worked, said = run()
        check(worked == works, f"{name} {'works' if works else 'fails'}"
              + ("" if worked == works else f", it should be the other way round:\n{said[-3000:]}"))
        if not works:
            check(re.search(UNREACHED, said), "... and for that reason" if re.search(UNREACHED, said) else said[-3000:])
