# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How long guests stand still, because what emulates them has no processor: seen from inside, by a clock that jumps."""
import re

LONG_S = 1.0  # half of what a process waits for its peer, of which an answer needs several turns
# Bash alone: a process each time would be felt.
LOOP = r"""
exec 9<> <(:)
while :; do
	before=${EPOCHREALTIME/./}
	read -rt 0.2 -u 9
	gap=$((${EPOCHREALTIME/./} - before - 200000))
	[ $gap -lt 300000 ] || echo "@@gap $gap"
done
"""


class Watch:
    def __init__(self, lab):
        self.jobs = [lab.start(host, LOOP) for host in lab.topo.hosts]

    def end(self):
        """The longest pause of any guest since it began, in seconds."""
        for job in self.jobs:
            job.kill()
        return max([int(gap) / 1e6 for job in self.jobs for gap in re.findall(r"@@gap (\d+)", job.text())], default=0.0)
