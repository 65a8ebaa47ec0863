# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs one program of the matrix: server on one host, client on the other; or on the client's host alone."""
import re
import shlex
import time

from rdmalab import LabError

LISTENING = "@@listening"
ENDS_S = 60.0  # for a server to end after its client, on a busy machine

# The server runs behind this.  As little as possible is started: each process costs 20 ms or more
# under emulation, and so one program of the matrix in ten.
SERVE = r"""
exec 9<> <(:)
shopt -s extglob
listening() {
	if [ "$ready" = cm ]; then
		rows=$(rdma resource show cm_id)
		[[ $rows == *":$port "*LISTEN* || $rows == *LISTEN*":$port "* ]]
	else
		mapfile -t rows < <(cat /proc/net/tcp /proc/net/tcp6)
		[[ ${rows[*]} == *":$hex "+([0:])" 0A"* ]]
	fi
}
printf -v hex %04X "$port"
CMD 2>&1 &
pid=$!
while kill -0 $pid 2>/dev/null && ! listening; do read -rt 0.03 -u 9; done
echo LISTENING
wait $pid
"""


def run(place, program, server, client, link, env):
    """Result of a program as a dict: exit statuses, whether its output was sane, what it said, whether we were there.

    place   a Lab, or a Simulation: where the hosts are
    """
    addr = next(n for n in place.topo.links[link].ports if n.host == server).addrs[0].ip
    commands = {}
    for role, host in (("server", server), ("client", client)):
        nic = next(n for n in place.topo.links[link].ports if n.host == host)
        commands[role] = getattr(program, role).format(
            dev=place.device(nic.port), gid=place.gid(program.gid), peer=server, addr=addr, port=program.port, here=client)
    start = time.monotonic()
    before = {host: place.overlaid(host) for host in (server, client)} if place.logs else {}
    texts, rcs = talk(place, program, server, client, commands, "".join(setting(e) for e in env))
    entry = {"client": rcs["client"], "server": rcs["server"], **judge(program, texts),
             "seconds": round(time.monotonic() - start, 2), "command": commands["client"], "output": texts}
    if before:
        there = [h for h in before if place.overlaid(h) > before[h]]
        entry["active"] = there == list(before) or (not program.server and client in there)
    return entry


def setting(text):
    """NAME=VALUE as a shell assignment before a command."""
    name, _, value = text.partition("=")
    return f"{name}={shlex.quote(value)} "


def talk(place, program, server, client, commands, settings):
    """Outputs and exit statuses by role."""
    serving = None
    if program.server:
        script = SERVE.replace("CMD", settings + commands["server"]).replace("LISTENING", LISTENING)
        serving = place.start(server, f"ready={program.ready} port={program.port}\n{script}")
        try:
            serving.wait_output(LISTENING, program.timeout)
        except LabError as err:
            place.check(server)
            serving.kill()
            return {"client": "", "server": str(err)}, {"client": -1, "server": -1}
    asking = place.run(client, settings + commands["client"] + " 2>&1", program.timeout)
    if not serving:
        return {"client": asking.out, "server": ""}, {"client": asking.rc, "server": 0}
    served = serving.wait(ENDS_S)
    texts = {"client": asking.out, "server": served.out.replace(LISTENING + "\n", "")}
    return texts, {"client": asking.rc, "server": served.rc}


def judge(program, texts):
    """Whether the output says that it worked, and the figures in it that must not differ from run to run."""
    found = [re.search(program.sane, texts["client"])]
    if program.sane_server:
        found.append(re.search(program.sane_server, texts["server"]))
    sane = all(found)
    if program.forbidden and re.search(program.forbidden, texts["client"] + texts["server"]):
        sane = False
    facts = [m.groupdict() for m in found if m]
    line = found[0][0].strip().splitlines()[-1] if found[0] else last_line(texts["client"])
    return {"sane": sane, "facts": facts, "line": line}


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
