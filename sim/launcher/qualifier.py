# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What agents of simulated hosts start to try out a NIC (survive = auto), in place of the unit that systemd starts: no systemd is there."""
import contextlib
import os
import pathlib
import stat
import tempfile

from . import agents

# The simulated HCA is in each program that opens a device; an agent has none. Without the agent's priority. A run that a busy machine
# disturbed (exit status 3) is made again at once: the agent would wait for ten minutes.
SCRIPT = """#!/bin/sh
for try in 1 2 3 4 5; do
	chrt --other 0 nice -n -35 env LD_PRELOAD={hca} {tool} "$@"
	status=$?
	[ $status = 3 ] || break
done
exit $status
"""


def script(hca, tool):
    """Text of a program that an agent runs as it would run `meshverbs`: HCA is the preload library, TOOL is `meshverbs`."""
    return SCRIPT.format(hca=hca, tool=tool)


@contextlib.contextmanager
def at_hand(build):
    """Agents that are started meanwhile have NICs tried out by the `meshverbs` of a build; others find nothing to do so."""
    hca = pathlib.Path(build, "sim/libsimhca.so")
    with tempfile.TemporaryDirectory(prefix="qualified-") as place:
        file = pathlib.Path(place, "meshverbs")
        file.write_text(script(hca, pathlib.Path(build, "tools/meshverbs")))
        file.chmod(0o755)
        os.chmod(place, stat.S_IRWXU | stat.S_IXOTH | stat.S_IROTH)
        os.environ["MESHVERBS_TEST_QUALIFY"] = str(file)
        try:
            yield
        finally:
            del os.environ["MESHVERBS_TEST_QUALIFY"]


def qualified(sim, host):
    """The NICs of a host of which its directory tells programs that they have qualified; None without a directory."""
    directory = agents.read(sim, host)
    return {rail.device for rail in directory.rails if rail.host == host and rail.qualified} if directory else None
