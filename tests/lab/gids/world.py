# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Plays cases in a pair that is up: every run starts from the same GID tables."""
import ipaddress
import re

from rdmalab import LabError
from rdmalab.plan import link_local

from .case import FAILS, WORKS, Outcome
from .stage import PLACE

SERVER, CLIENT = "b", "a"
WORKING_S = 150.0  # for a run that must work: guests are slow, and the machine may have much else to do
GRACE_S = 1.0  # for a server whose client failed: the run has failed, and only a case that must end alike needs the server's words
LOG = "/var/log/meshverbs.log"
HEAD = f". /{PLACE}/guest.sh\n"
MODES = {"bare": f"/{PLACE}/bare ", "stacked": ""}
FIRST_PORT = 23000
UD = f"/{PLACE}/ud"


def sysfs(address):
    """The GID of an address as sysfs prints it."""
    ip = ipaddress.ip_address(address)
    return (ipaddress.IPv6Address(f"::ffff:{ip}") if ip.version == 4 else ip).exploded


def at(index, address):
    """Shell line: wait for an address at an index of rxe0's table; the test is broken if it does not come."""
    return f"at {index} {sysfs(address)}"


class World:
    def __init__(self, lab):
        self.lab = lab
        self.nics = {host: lab.topo.hosts[host].nics[0] for host in (CLIENT, SERVER)}
        self.port = FIRST_PORT

    def reset(self, host):
        """Shell lines that bring back what the boot made, without a log."""
        nic, other = self.nics[host], self.nics[SERVER if host == CLIENT else CLIENT]
        neighbours = [f"neigh replace {ip} lladdr {other.mac} dev eth0 nud permanent"
                      for ip in (other.addrs[0].ip, link_local(other.mac))]
        return "\n".join([f"reset {nic.addrs[0]} {sysfs(link_local(nic.mac))} {sysfs(nic.addrs[0].ip)} <<'END'",
                          *neighbours, "END"])

    def run(self, host, script, timeout=WORKING_S):
        """Run a script in a guest, with the shell functions of these tests."""
        return self.lab.run(host, HEAD + script, timeout)

    def play(self, case, mode, prefix=None):
        """Run a case once; prefix stands before both commands, by default what the mode needs."""
        self.port += 1
        if prefix is None:
            prefix = MODES[mode] + (f"env {case.env} " if case.env and mode == "stacked" else "")
        jobs = {}
        try:
            hurry = case.expected(mode) == FAILS and not case.same  # what must end alike gets the time to end
            return self.talk(case, prefix, jobs, case.patience_s if hurry else WORKING_S)
        except LabError as err:
            for host in (CLIENT, SERVER):
                self.lab.host(host).check()
            return Outcome("broken", str(err).splitlines()[0], f"{err}\n" + texts(jobs), self.logs(jobs), {})
        finally:
            for job in jobs.values():
                job.kill()

    def talk(self, case, prefix, jobs, patience_s):
        prepare = self.lab.start(CLIENT, "\n".join([HEAD, self.reset(CLIENT), *case.setup.get(CLIENT, [])]))
        jobs[SERVER] = self.lab.start(SERVER, "\n".join(
            [HEAD, self.reset(SERVER), *case.setup.get(SERVER, []), *self.hold(case, SERVER, prefix + case.server, case.ready)]))
        jobs["preparation"] = prepare
        jobs[SERVER].wait_output("@@ready", WORKING_S)
        ready = prepare.wait(WORKING_S)
        if ready.rc:
            raise LabError(f"preparing {CLIENT}: {ready.out}")
        qpn = re.search(r"qpn (\d+)", jobs[SERVER].text())
        client = prefix + case.client.replace("{qpn}", qpn[1] if qpn else "")
        done = self.ask(case, client, jobs, patience_s)
        if case.again and done.rc == 0:
            jobs["first client"] = jobs[CLIENT]
            jobs["move"] = self.lab.start(SERVER, "\n".join([HEAD, "table", *case.again, "table"]))
            if jobs["move"].wait(WORKING_S).rc:
                raise LabError("the table could not be moved before the second client")
            done = self.ask(case, client, jobs, patience_s)
        served = self.end(case, jobs, done)
        verdict = WORKS if done.rc == 0 and served.rc == 0 else FAILS
        tables = {host: [line.split()[1:] for line in jobs[host].text().splitlines() if line.startswith("@@table")]
                  for host in (CLIENT, SERVER) if host in jobs}
        return Outcome(verdict, "works" if verdict == WORKS else how(done, served, patience_s), texts(jobs),
                       self.logs(jobs), tables)

    def end(self, case, jobs, done):
        """The server's Result; it is killed if it will not end."""
        if case.stays:
            alive = jobs[SERVER].poll() is None
            jobs[SERVER].kill()
            jobs[SERVER].wait(WORKING_S)
            return type(done)(0 if alive else 1, jobs[SERVER].text())
        return jobs[SERVER].wait({0: WORKING_S, 124: 0.0}.get(done.rc, WORKING_S if case.same else GRACE_S))

    def ask(self, case, command, jobs, patience_s):
        """Run the client; where its table moves too, the server's machine stands still until that is done."""
        if CLIENT not in case.move:
            command = command.replace("{port}", str(self.port))
            jobs[CLIENT] = self.lab.start(case.client_host, f"{command} 2>&1\nrc=$?\necho @@log\ncat {LOG}\nexit $rc")
            return jobs[CLIENT].wait(patience_s)
        paused = "{port}" in case.client_ready
        if paused:
            self.lab.pause(SERVER)
        try:
            jobs[CLIENT] = self.lab.start(CLIENT, "\n".join([HEAD, *self.hold(case, CLIENT, command, case.client_ready)]))
            jobs[CLIENT].wait_output("@@ready", WORKING_S)
        finally:
            if paused:
                self.lab.resume(SERVER)
        return jobs[CLIENT].wait(patience_s)

    def hold(self, case, host, command, condition):
        """Shell lines: the program up to where it holds its index, then the table moves under it."""
        lines = [f"begin '{condition}' {command}", "table", *case.move.get(host, []), "table"]
        if host in case.explain and "bare" not in command:
            lines.append(f"echo \"@@explain $(meshverbs explain --from rxe0 {case.explain[host]} -j | tr '\\n' ' ')\"")
        lines += ["echo \"$(<$OUT)\"", "echo @@ready", "finish"]
        return [line.replace("{port}", str(self.port)) for line in lines]

    def logs(self, jobs):
        """What the plugin logged: at the end of what a job printed, or still to be fetched if that was killed."""
        found = {}
        for host in (CLIENT, SERVER):
            text = jobs[host].text() if host in jobs else ""
            if "@@log\n" in text:
                found[host] = text.split("@@log\n", 1)[1]
            else:
                found[host] = self.lab.run(host, f"cat {LOG}", WORKING_S).out
        return found


def texts(jobs):
    return "".join(f"--- {name}\n{job.text().split('@@log')[0]}" for name, job in jobs.items())


def how(done, served, patience_s):
    """Why a run failed, in few words: what the program said last, or that it hung."""
    if done.rc == 124:
        return f"no end in {patience_s:g} s"
    said = [line.strip() for text in (served.out, done.out) for line in text.split("@@log")[0].splitlines() if line.strip()]
    known = [line for line in said if re.search(r"[Ff]ail|[Cc]ouldn't|error|event:|received \d+ of|cannot|create_ah|completion:", line)]
    return (known or said or ["nothing said"])[0][:80]
