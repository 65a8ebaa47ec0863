# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Root file systems in folders. What is expensive to make is kept in a cache; tests get copies."""
import hashlib
import os
import pathlib
import shutil
import subprocess

from . import Failed

CACHE = pathlib.Path(os.environ.get("MESHVERBS_PKG_CACHE", "/var/cache/meshverbs-pkg"))
SUITE = "bookworm"
MIRROR = os.environ.get("MESHVERBS_PKG_MIRROR", "http://deb.debian.org/debian")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
               "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb"}
# Mounts of its own, so that nothing is left when the command ends, however it ends; and its own processes.
ENTER = """
root=$1; shift
mount -t proc proc "$root/proc"
mount -t devpts -o ptmxmode=666 pts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=755 run "$root/run"
exec chroot "$root" "$@"
"""


def run(argv, fails=False):
    """Output and errors of a command, as text; it has to work, or else with fails=True not to."""
    done = subprocess.run(argv, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if (done.returncode != 0) != fails:
        raise Failed(f"{' '.join(argv[-12:])}: exit status {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


class Root:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def command(self, argv, user=None, cwd="/", env=None):
        settings = [f"{name}={value}" for name, value in {**ENVIRONMENT, **(env or {})}.items()]
        who = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"] if user else []
        return ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "bash", "-euc", ENTER, "enter",
                str(self.path), "env", "-i", f"--chdir={cwd}", *settings, *who, *argv]

    def run(self, *argv, user=None, cwd="/", env=None, fails=False):
        return run(self.command(argv, user, cwd, env), fails)

    def apt(self, *argv):
        return self.run("apt-get", "-qy", "-o", "Dpkg::Use-Pty=0", "--no-install-recommends", *argv)

    def take(self, files, folder):
        """Copy files of the machine into a folder of the root; their paths there."""
        there = self.path / folder.lstrip("/")
        there.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy2(file, there)
        return [f"/{folder.strip('/')}/{pathlib.Path(file).name}" for file in files]

    def snapshot(self, *folders, skip=()):
        """{path: what is there, byte for byte} below folders."""
        found = {}
        for folder in folders:
            for top, directories, files in os.walk(self.path / folder.lstrip("/")):
                for name in directories + files:
                    path = pathlib.Path(top) / name
                    shown = "/" + str(path.relative_to(self.path))
                    if shown not in skip:
                        found[shown] = describe(path)
        return found


def describe(path):
    info = path.lstat()
    content = ""
    if path.is_symlink():
        content = os.readlink(path)
    elif path.is_file():
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{info.st_mode:o} {info.st_uid} {info.st_gid} {content}"


def differences(before, after):
    return [f"{path}: {before.get(path, 'not there')} -> {after.get(path, 'not there')}"
            for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)]


def copy(root, path):
    """A root of its own with the same files."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", str(root.path), str(path)], check=True)
    return Root(path)


def cached(name, key, make, cache=CACHE):
    """The root called name, which make(path) makes when there is none for this key (text it depends on)."""
    path, stamp = cache / name, cache / f"{name}.key"
    digest = hashlib.sha256(key.encode()).hexdigest()
    if path.is_dir() and stamp.is_file() and stamp.read_text() == digest:
        return Root(path)
    print(f"  making {path} (once)", flush=True)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    cache.mkdir(parents=True, exist_ok=True)
    try:
        make(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    stamp.write_text(digest)
    return Root(path)


def sources(root, suite):
    """Updates as well, and the machine's way to look names up. A suite that gets no more updates has an expired Release file."""
    lines = [f"deb {MIRROR} {suite} main"]
    if suite != "sid":
        lines += [f"deb {MIRROR} {suite}-updates main", f"deb {MIRROR}-security {suite}-security main"]
    (root.path / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
    (root.path / "etc/apt/apt.conf.d/90valid").write_text('Acquire::Check-Valid-Until "false";\n')
    shutil.copy("/etc/resolv.conf", root.path / "etc/resolv.conf")


def base(suite=SUITE, name="base", cache=CACHE):
    """Debian and nothing else."""
    def make(path):
        if not shutil.which("debootstrap"):
            raise Failed("no debootstrap: scripts/deps pkg")
        done = subprocess.run(["debootstrap", "--variant=minbase", suite, str(path), MIRROR], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise Failed(f"debootstrap:\n{done.stdout[-3000:]}")
        root = Root(path)
        sources(root, suite)
        root.apt("update")
        root.apt("dist-upgrade")
    return cached(name, f"{suite} {MIRROR}", make, cache)


def with_packages(name, parent, key, packages, before=None):
    """A cached copy of parent with packages installed."""
    def make(path):
        root = copy(parent, path)
        if before:
            before(root)
        root.apt("update")
        root.apt("install", *packages)
        root.apt("clean")
    return cached(name, " ".join([key, *packages]), make)
