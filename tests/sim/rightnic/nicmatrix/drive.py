# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs one program between two hosts."""
import re
import time

from . import cases
from .programs import GID, PROGRAMS, UNREACHED
from .world import shares

GRACE_S = 60.0  # for a server to end after its client, on a busy machine
FAILED_GRACE_S = 2.0  # after a client that failed and said why: nothing of the server is judged


def talk(world, server, client, server_command, client_command, port, seconds, enough=""):
    """{"client", "server": exit status or None when it had to be killed; "output": {...}}; commands are lists.

    @enough: what a client that fails says so that the server need not end (by default anything); None: the server has to end
    """
    serving = world.start(server, *server_command)
    try:
        if not world.wait_listening(serving, server, port):
            serving.kill()
            return {"client": None, "server": serving.poll(), "output": {"client": "", "server": serving.said() + "\nno server"}}
        status, said = world.run(client, *client_command, seconds=seconds)
        told = status != 0 and enough is not None and re.search(enough, said)
        served = serving.wait(FAILED_GRACE_S if told else GRACE_S)
        return {"client": status, "server": served, "output": {"client": said, "server": serving.said()}}
    finally:
        serving.kill()


def run(world, case, seconds):
    """Result of a case, for cases.judge()."""
    program, port = PROGRAMS[case.program], world.fresh_port()
    gid = "" if cases.by_lid(world.topo, case.server, case.server_nic) else GID
    server = program.command.format(dev=f"mlx5_{case.server_nic}", port=port, gid=gid).split()
    client = program.command.format(dev=f"mlx5_{case.client_nic}", port=port, gid=gid).split() + [case.server]
    logged = {host: len(world.log(host)) for host in (case.server, case.client)}
    before = {host: world.bytes_of(host) for host in (case.server, case.client)}
    begun = time.monotonic()
    result = talk(world, case.server, case.client, server, client, port, seconds, UNREACHED)
    result["seconds"] = round(time.monotonic() - begun, 2)
    result["carried"] = {host: shares(before[host], world.bytes_of(host)) for host in before}
    said = result["output"]["client"]
    result["ok"] = (result["client"], result["server"]) == (0, 0) and bool(re.search(program.sane, said))
    result["reached"] = bool(re.search(UNREACHED, said + result["output"]["server"]))
    result["log"] = {host: world.log(host)[logged[host]:][-4000:] for host in logged}
    return result
