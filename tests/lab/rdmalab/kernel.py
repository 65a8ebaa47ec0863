# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The guests' kernel: Debian's package, downloaded and unpacked into a cache, never installed.

The cache holds one directory for each kernel package, complete or absent (it is renamed into place),
and a link "current" to the one in use.  A lock makes two commands at once safe.
"""
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from . import state
from .errors import LabError

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "scripts"
META_PACKAGE = "linux-image-amd64"
ENV = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin", LC_ALL="C.UTF-8")
NEEDED = ["qemu-system-x86_64", "busybox", "depmod", "modprobe", "ip", "rdma", "ethtool", "nft", "ibv_devinfo",
          "ib_write_bw", "rping", "ucx_perftest"]


def cache():
    return pathlib.Path(os.environ.get("LAB_CACHE") or "/var/cache/meshverbs-lab").absolute()


class Kernel:
    """An unpacked kernel: the ELF image QEMU boots, and its modules."""

    def __init__(self, tree):
        self.tree = tree
        self.modules = tree / "modules"  # holds RELEASE/modules.dep, as /lib/modules does
        self.release = next(self.modules.iterdir()).name
        self.vmlinux = tree / "vmlinux"


def ensure(update=False):
    """The Kernel in the cache; packages and kernel are fetched if missing (update: or outdated)."""
    if os.geteuid() != 0:
        raise LabError("must run as root (guests read the host's root file system, taps need privilege)")
    if update or any(not shutil.which(c, path=ENV["PATH"]) for c in NEEDED):
        run("installing the lab's packages", SCRIPTS / "deps", "lab")
    current = cache() / "current"
    with state.locked(cache() / "lock"):
        if update or not (current / "vmlinux").exists():
            fetch(current)
        return Kernel(current.resolve())


def fetch(current):
    """Bring the newest kernel package into the cache and point `current` at it; the lock is held."""
    for old in cache().glob("tmp.*"):  # of a command that was killed
        shutil.rmtree(old)
    package = newest_package()
    with tempfile.TemporaryDirectory(prefix="tmp.", dir=cache()) as tmp:
        tmp = pathlib.Path(tmp)
        tmp.chmod(0o755)
        run(f"downloading {package}", "apt-get", "download", "-q", package, cwd=tmp)
        deb = next(tmp.glob("*.deb"))
        tree = cache() / deb.stem.replace("%3a", ":")
        if not (tree / "vmlinux").exists():
            unpack(deb, tmp)
            shutil.rmtree(tree, ignore_errors=True)
            (tmp / "tree").rename(tree)
    link = cache() / "current.tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(tree.name)
    link.rename(current)


def newest_package():
    """Name of the package behind the meta package, e.g. linux-image-6.1.0-49-amd64."""
    for attempt in range(2):
        out = subprocess.run(["apt-cache", "depends", META_PACKAGE], env=ENV, capture_output=True, text=True).stdout
        names = [w for w in out.split() if w.startswith("linux-image-") and w[12].isdigit()]
        if names:
            return names[0]
        if attempt == 0:
            run("updating the package lists", "apt-get", "update", "-q")
    raise LabError(f"apt knows no package {META_PACKAGE}; the lab needs Debian 12's package lists on amd64")


def unpack(deb, tmp):
    """Make tmp/tree with vmlinux and modules/RELEASE out of a kernel package."""
    run("unpacking the kernel", "dpkg-deb", "-x", deb, tmp / "deb")
    release = next((tmp / "deb/lib/modules").iterdir()).name
    run("indexing its modules", "depmod", "-b", tmp / "deb", release)
    (tmp / "tree").mkdir()
    (tmp / "deb/lib/modules").rename(tmp / "tree/modules")
    bzimage = (tmp / f"deb/boot/vmlinuz-{release}").read_bytes()
    (tmp / "tree/vmlinux").write_bytes(elf(bzimage, release))


def elf(bzimage, release):
    """The ELF kernel inside a bzImage.  QEMU boots it directly (PVH): no unpacking under emulation."""
    at = bzimage.find(b"\xfd7zXZ\0")
    if at < 0:
        raise LabError(f"the kernel image of {release} is not xz-compressed as Debian 12's are")
    image = lzma.LZMADecompressor().decompress(bzimage[at:])
    if not image.startswith(b"\x7fELF"):
        raise LabError(f"no ELF image found inside the kernel image of {release}")
    return image


def run(what, *cmd, cwd=None):
    print(f"lab: {what}", file=sys.stderr, flush=True)
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, env=ENV, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        raise LabError(f"{what} failed: {cmd[0]} ended with status {done.returncode}\n{done.stdout}")
