# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Simulated mlx5 hosts (sim/sim) with the interface of a lab: the same programs, another kind of hosts."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from rdmalab import LabError
from rdmalab.job import Waiting

REPO = pathlib.Path(__file__).resolve().parents[3]
sys.path += [str(REPO / "tests/topo"), str(REPO / "sim")]
import topo as topology  # noqa: E402
from launcher import SimError, cli, lifecycle, runtime  # noqa: E402

SIM = str(REPO / "sim/sim")
# What a package does to a host: its files, over the machine's, for this host alone, then its postinst. $1: the folder with the files, which stays
# as it is; $2: whether glibc has what a front needs; $3: of a host on which that was done, what it added, which is the same on all: ldconfig takes
# longer than the rest.
INSTALL = r"""
set -e
mount -t tmpfs -o mode=755 installed /mnt
mkdir -p /mnt/{usr,etc,var}/{lower,upper,work}
[ -z "$3" ] || (cd "$3" && cp -dR --preserve=mode,ownership,timestamps --parents {usr,etc,var}/upper /mnt)
for file in hosts machine-id; do [ ! -e /etc/$file ] || cat /etc/$file >/mnt/etc/upper/$file; done  # mounts of the simulator's, under ours from here on
for top in usr etc var; do
	lower=$1/$top
	[ -d "$lower" ] || lower=/mnt/$top/lower
	mount -t overlay overlay -o lowerdir="$lower:/$top",upperdir=/mnt/$top/upper,workdir=/mnt/$top/work /$top
done
if [ -n "$3" ]; then
	:
elif [ "$2" = yes ]; then
	meshverbs-front -q update
else # meshverbs-front(8): no front is made there, and the plugin has to be preloaded
	ls /usr/lib/*/libibverbs/meshverbs-provider.so >/etc/ld.so.preload
fi
"""
FRONT_GLIBC = (2, 33)


class Job(Waiting):
    """A shell command in a simulated host."""

    def __init__(self, place, host, command):
        self.place, self.name = place, f"{place.name}:{host}"
        self.file = tempfile.NamedTemporaryFile(prefix="matrix-")  # its life is the job's
        self.process = subprocess.Popen(place.argv(host, "bash", "-c", command), stdin=subprocess.DEVNULL,
                                        stdout=self.file, stderr=subprocess.STDOUT, start_new_session=True)
        self.position = 0

    def poll(self):
        return self.process.poll()

    def fresh(self):
        """Output bytes that came since the last call."""
        with open(self.file.name, "rb") as file:
            file.seek(self.position)
            data = file.read()
        self.position += len(data)
        return data

    def text(self):
        return pathlib.Path(self.file.name).read_text(errors="replace")

    def kill(self, sig="KILL"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, getattr(signal, f"SIG{sig}"))
        if sig == "KILL":
            self.process.wait()

    def check(self):
        self.place.check()


class Simulation:
    """Handle of a simulation that is up."""

    kind = "sim"

    def __init__(self, name, topo):
        self.name, self.topo = name, topo
        self.logs = False

    @classmethod
    @contextlib.contextmanager
    def up(cls, what, name, build, overlays=()):
        topo = topology.load(what)
        call("up", "-n", name, "--build", str(build), topo.path)
        try:
            place = cls(name, topo)
            for directory in overlays:
                place.install(directory)
            yield place
        finally:
            call("down", name)

    def install(self, directory):
        """Lay a staged installation over the hosts' file systems, as a package would be installed there."""
        added = ""
        for host in self.topo.hosts:
            done = subprocess.run(self.argv(host, "env", "LD_PRELOAD=", "bash", "-c", INSTALL, "install",
                                            str(pathlib.Path(directory).resolve()), "yes" if has_front() else "no", added),
                                  text=True, capture_output=True, check=False)
            if done.returncode:
                raise LabError(f"installing {directory} in {host} failed:\n{done.stdout}{done.stderr}")
            added = str(runtime.Sim(self.name).root(host) / "mnt")
        self.logs = True

    def argv(self, host, *command):
        """What `sim exec` executes, without the start of an interpreter that it takes."""
        try:
            return lifecycle.command(runtime.Sim(self.name), host, command)
        except SimError as err:
            raise LabError(str(err)) from err

    def start(self, host, command):
        return Job(self, host, command)

    def run(self, host, command, timeout=60.0):
        return self.start(host, command).wait(timeout)

    def device(self, port):
        return f"mlx5_{self.topo.nic(port).index}"

    def gid(self, kind):
        """Index of a RoCE v2 entry: mlx5 has v1 before v2 for each address, the link-local one first."""
        return {"link-local": 1, "ipv4": 3}[kind]

    def script(self, host, path):
        """Where a host finds a file of ours: the file systems are the same."""
        return str(path)

    def check(self, host=None):
        """LabError if the simulation is gone."""
        if not pathlib.Path("/run/meshsim", self.name).is_dir():
            raise LabError(f"simulation '{self.name}' is gone")

    def overlaid(self, host):
        """How many contexts the installed plugin has taken on a host since it was installed."""
        done = subprocess.run(self.argv(host, "grep", "-c", ": overlaid", "/var/log/meshverbs.log"), text=True,
                              capture_output=True, check=False)
        return int(done.stdout or 0)


def has_front():
    """meshverbs-front(8) makes one where glibc is of this version or a newer one."""
    return tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) >= FRONT_GLIBC


def act(*args):
    """What the command `sim` does, of a verb that prints nothing and starts nothing that stays: without the start of an interpreter."""
    try:
        cli.run(list(args))
    except SimError as err:
        raise LabError(f"sim {' '.join(args)}: {err}") from err


def call(*args):
    done = subprocess.run([SIM, *args], text=True, capture_output=True, check=False, timeout=300)
    if done.returncode:
        raise LabError(f"sim {' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout
