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
from launcher import SimError, lifecycle, runtime  # noqa: E402

SIM = str(REPO / "sim/sim")
# What a package does to a host: its files, over the machine's, for this host alone, then its postinst.
INSTALL = r"""
set -e
mount -t tmpfs -o mode=755 installed /mnt
for top in usr etc var; do
	mkdir -p /mnt/$top/upper /mnt/$top/work
	[ ! -d "$1/$top" ] || cp -a "$1/$top/." /mnt/$top/upper
done
for file in hosts machine-id; do [ ! -e /etc/$file ] || cat /etc/$file >/mnt/etc/upper/$file; done  # mounts of the simulator's, under ours from here on
for top in usr etc var; do
	mount -t overlay overlay -o lowerdir=/$top,upperdir=/mnt/$top/upper,workdir=/mnt/$top/work /$top
done
if printf 'glibc 2.33\n%s\n' "$(getconf GNU_LIBC_VERSION)" | sort -VC; then
	meshverbs-front -q update
else # meshverbs-front(8): no front is made there, and the plugin has to be preloaded
	ls /usr/lib/*/libibverbs/meshverbs-provider.so >/etc/ld.so.preload
fi
"""


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
        for host in self.topo.hosts:
            done = subprocess.run(self.argv(host, "env", "LD_PRELOAD=", "bash", "-c", INSTALL, "install",
                                            str(pathlib.Path(directory).resolve())),
                                  text=True, capture_output=True, check=False)
            if done.returncode:
                raise LabError(f"installing {directory} in {host} failed:\n{done.stdout}{done.stderr}")
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


def call(*args):
    done = subprocess.run([SIM, *args], text=True, capture_output=True, check=False, timeout=300)
    if done.returncode:
        raise LabError(f"sim {' '.join(args)}: {done.stdout}{done.stderr}")
    return done.stdout
