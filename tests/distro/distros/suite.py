# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A suite's root: programs, the packages built there, and what apt changes when it installs them."""
import atexit
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from pkglab import Failed, debs, roots

from . import CACHE, REPO

PROGRAMS = ["perftest", "ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "ucx-utils", "python3-pyverbs", "libfabric-bin", "mpich",
            "libmpich-dev", "openmpi-bin", "libopenmpi-dev", "infiniband-diags", "iproute2", "ethtool", "nftables", "elfutils", "udev",
            "python3-yaml"]
TOOLS = ["dpkg-dev", "build-essential", "fakeroot", "ccache"]
# What the table says of a suite: {name: package}.
VERSIONS = {"rdma-core": "libibverbs1", "perftest": "perftest", "UCX": "ucx-utils", "MPICH": "mpich", "Open MPI": "openmpi-bin",
            "libfabric": "libfabric-bin", "systemd": "systemd", "glibc": "libc6"}
TREE = f"/home/builder/one/meshverbs-{debs.version()}"
BUILD = "/home/builder/sim"  # with the simulator alone: the play `unit` builds the rest
SIMULATOR = ["sim/libsimhca.so", "sim/simhostd", "tests/sim/verbs/sim_ncclish"]
# Like a machine's root, in namespaces of its own: whatever is mounted, bound or left running goes when the command ends.
ENTER = r"""
root=$1 stage=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 run "$root/run"
if [ -n "$stage" ]; then
	mkdir -p "$root/stage"
	mount --bind "$stage" "$root/stage"
	# What is started in simulated hosts is what is installed.
	mount --bind "$stage/usr/sbin/meshverbsd" "$root$BUILD/meshverbsd/meshverbsd"
	mount --bind "$stage/usr/bin/meshverbs" "$root$BUILD/tools/meshverbs"
fi
mkdir -p "$root/out"
mount --bind "$OUT" "$root/out"
ip link set lo up
cd "$root"
pivot_root . mnt
umount -l /mnt
cd /
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb BUILD="$BUILD" \
	SIM_BUILD="$BUILD" REPO="$REPO" SHORT="$SHORT" ${stage:+MESHVERBS_STAGED=/stage} "$@"
"""


def installing(root, upper, files):
    """apt installs packages in an overlay over a root: what it changes stays in upper."""
    work = upper.with_name(f"{upper.name}.work")
    for folder in (upper, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    merged = upper.with_name(f"{upper.name}.merged")
    merged.mkdir(exist_ok=True)
    there = roots.Root(upper).take(files, "/debs")
    script = (f'mount -t overlay overlay -o lowerdir={root.path},upperdir={upper},workdir={work} {merged}; exec "$@"')
    inner = roots.Root(merged).command(["apt-get", "-qy", "-o", "Dpkg::Use-Pty=0", "--no-install-recommends", "install", *there])
    said = roots.run(["unshare", "--mount", "--propagation", "private", "bash", "-euc", script, "install", *inner])
    for folder in ("debs", "var/cache", "var/log", "var/lib/apt", "tmp", "run"):
        shutil.rmtree(upper / folder, ignore_errors=True)
    shutil.rmtree(work)
    merged.rmdir()
    return said


class Suite:
    def __init__(self, name, out):
        self.name, self.out = name, out / name
        self.out.mkdir(parents=True, exist_ok=True)
        self.debs, self.stage, self.key_file = CACHE / f"debs-{name}", CACHE / f"stage-{name}", CACHE / f"built-{name}.key"
        self.root = None

    @contextlib.contextmanager
    def alone(self):
        """Nobody else works in this suite's root."""
        CACHE.mkdir(parents=True, exist_ok=True)
        with open(CACHE / f"lock-{self.name}", "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def prepare(self, source):
        """Root, packages and what installing them changes, as far as they are not there already."""
        self.root = self.make_root()
        if not (self.key_file.is_file() and self.key_file.read_text() == source.built):
            self.key_file.unlink(missing_ok=True)
            self.build(source.archive)
            self.key_file.write_text(source.built)
        shutil.copy(self.debs / "install.log", self.out)
        # Tests that are not compiled may be newer than the packages.
        subprocess.run(["tar", "-xf", str(source.archive), "-C", str(self.root.path / TREE[1:]).rsplit("/", 1)[0]], check=True)

    def make_root(self):
        base = roots.base(self.name, f"base-{self.name}", CACHE)
        control = (REPO / "debian/control").read_text()
        needs = re.search(r"^Build-Depends:.*?(?=^\S)", control, re.M | re.S)[0]

        def make(path):
            root = roots.copy(base, path)
            source = root.path / "src/debian"
            source.mkdir(parents=True)
            for name in ("control", "changelog"):
                shutil.copy(REPO / "debian" / name, source)
            root.apt("update")
            root.apt("install", *TOOLS, *PROGRAMS)
            root.apt("build-dep", "/src")
            root.apt("clean")
            shutil.rmtree(root.path / "src")
            root.run("useradd", "--create-home", "--home-dir", "/home/builder", "builder")
            for name, text in (("hosts", "127.0.0.1 localhost\n"), ("machine-id", "0" * 32 + "\n")):
                (root.path / "etc" / name).write_text(text)
        return roots.cached(f"root-{self.name}", " ".join([needs, *TOOLS, *PROGRAMS]), make, CACHE)

    def build(self, archive):
        """The packages, as dpkg-buildpackage makes them from the archive, which apt installs then; and the simulator."""
        print(f"  building the packages in {self.root.path}", flush=True)
        shutil.rmtree(self.debs, ignore_errors=True)
        env = {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CCACHE_DIR": "/home/builder/.ccache", "DEB_BUILD_OPTIONS": "nocheck"}
        self.root.run("chown", "-R", "builder:builder", "/home/builder")  # the play `unit` builds as root
        self.root.run("chmod", "755", "/home/builder")  # tests in user namespaces read it as somebody else
        files = debs.build(self.root, archive, self.debs, env=env, args=["-b"])
        said = installing(self.root, self.stage, debs.packages(files))
        (self.debs / "install.log").write_text(said)
        print(f"  built: {', '.join(pathlib.Path(file).name for file in debs.packages(files))}; apt installs them; the simulator", flush=True)
        script = (f"cmake -S {TREE} -B {BUILD} -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_INSTALL_PREFIX=/usr && "
                  f"ninja -C {BUILD} {' '.join(SIMULATOR)} && mkdir -p {BUILD}/meshverbsd {BUILD}/tools && "
                  f"touch {BUILD}/meshverbsd/meshverbsd {BUILD}/tools/meshverbs")
        (self.out / "simulator.log").write_text(self.root.run("sh", "-c", script, user="builder", env={**env, "HOME": "/home/builder"}))

    def foreign_stage(self, other, source):
        """What apt changes when it installs this suite's agent with another suite's plugin."""
        theirs = Suite(other, self.out.parent)
        with theirs.alone():
            theirs.prepare(source)
        stage = CACHE / f"stage-{self.name}-with-{other}"
        files = [self.only("meshverbs"), theirs.only("meshverbs-provider")]
        (self.out / "install-foreign.log").write_text(installing(self.root, stage, files))
        return stage

    def only(self, package):
        """The file of a package that was built here."""
        found = list(self.debs.glob(f"{package}_*.deb"))
        if len(found) != 1:
            raise Failed(f"no {package} in {self.debs}")
        return str(found[0])

    def versions(self):
        """{name: version} of what the table names; "" for what the suite has not."""
        query = ["dpkg-query", "--admindir", str(self.root.path / "var/lib/dpkg"), "-W", "-f", "${Package} ${Version}\n"]
        there = dict(line.split(" ", 1) for line in subprocess.run(query, text=True, capture_output=True, check=True).stdout.splitlines())
        return {name: short(there.get(package, "")) for name, package in VERSIONS.items()}

    def command(self, script, stacked=True, stage=None, short=False):
        """argv that runs a bash script in the root: $BUILD, $REPO, $SHORT, and /out for results; stacked: with /stage."""
        folder = str(stage or self.stage) if stacked else ""
        return ["env", f"BUILD={BUILD}", f"REPO={TREE}", f"OUT={self.out}", f"SHORT={1 if short else ''}", "unshare", "--mount", "--propagation", "private", "--net", "--ipc",
                "--pid", "--fork", "--kill-child", "bash", "-euc", ENTER, "enter", str(self.root.path), folder, "bash", "-uc", script]

    def run(self, script, log, seconds, **kwargs):
        """(exit status, output) of a script in the root; the output is also in the file `log` of the results."""
        path = self.out / log
        with open(path, "w", encoding="utf-8") as file:
            child = subprocess.Popen(self.command(script, **kwargs), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
            try:
                status = child.wait(seconds)
            except subprocess.TimeoutExpired:
                child.kill()  # the namespaces, and with them all else, end with it
                child.wait()
                status = 124
        return status, path.read_text(errors="replace")


@dataclasses.dataclass(frozen=True)
class Source:
    archive: pathlib.Path  # the working tree, as far as git knows its files
    tree: str  # differs when any of it does
    built: str  # differs when something does that is compiled or packaged
    commit: str  # for people: the last one, with a + if files differ from it

    @classmethod
    def of_tree(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="distro-"))
        atexit.register(shutil.rmtree, folder)
        git = ["git", "-C", os.fspath(REPO)]
        commit = subprocess.run([*git, "stash", "create"], text=True, capture_output=True, check=True).stdout.strip() or "HEAD"
        files = subprocess.run([*git, "ls-tree", "-r", commit], text=True, capture_output=True, check=True).stdout
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], text=True, capture_output=True, check=True).stdout.strip()
        return cls(debs.source_archive(folder), digest(files), digest("\n".join(filter(is_built, files.splitlines()))),
                   head + ("" if commit == "HEAD" else "+"))


def short(version):
    """Of a package's version what upstream calls it."""
    return re.sub(r"^\d+:|^.*\+really\.?|[-+].*$|~(?!rc).*$", "", version).replace("~", "")


def is_built(line):
    """Whether a line of git ls-tree names something that ends up in packages or in the simulator."""
    path = line.split("\t", 1)[1]
    if path.startswith(("sim/", "tests/")):
        return bool(re.search(r"^(tests/)?sim/.*\.(c|h|txt)$", path))
    return not re.search(r"\.(md|svg|png)$|^scripts/|^check$|^demo$|^bench/", path)


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def save(path, rows):
    path.write_text(json.dumps(rows, indent=1) + "\n")
