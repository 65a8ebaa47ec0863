# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The guests' kernel: Debian's package, downloaded and unpacked into a cache, never installed.

The cache holds one directory for each kernel package, complete or absent (it is renamed into place),
and a link "current" to the one in use.  A lock for each suite makes two commands at once safe.

LAB_KERNEL names a suite of Debian (bullseye, trixie, sid) whose kernel it is instead of this machine's; "current-SUITE" is its link.
apt has lists of its own for it in the cache: what this machine's apt knows stays.
"""
import lzma
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

from . import state
from .errors import LabError

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "scripts"
META_PACKAGE = "linux-image-amd64"
ENV = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin", LC_ALL="C.UTF-8")
MIRROR = os.environ.get("LAB_MIRROR") or "http://deb.debian.org/debian"
PAYLOAD = 0x248  # of a bzImage's header: offset and length of what is compressed, 32 bits each; Documentation/arch/x86/boot.rst
SECTORS = 0x1F1  # of its set-up code, without the first one
NEEDED = ["qemu-system-x86_64", "busybox", "depmod", "modprobe", "ip", "rdma", "ethtool", "nft", "zstd", "ibv_devinfo",
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
    current = cache() / ("-".join(["current", suite()]) if suite() else "current")
    with state.locked(cache() / ("-".join(["lock", suite()]) if suite() else "lock")):
        if update or not (current / "vmlinux").exists():
            fetch(current)
        return Kernel(current.resolve())


def suite():
    """Whose kernel it is; "" for this machine's suite."""
    name = os.environ.get("LAB_KERNEL", "")
    if name and not name.isalpha():
        raise LabError(f"LAB_KERNEL={name} is no suite of Debian: bullseye, bookworm, trixie, sid")
    return name


def apt(command, *words):
    """argv of an apt program, for the suite."""
    if not suite():
        return [command, *words]
    place = cache() / f"apt-{suite()}"
    (place / "lists/partial").mkdir(parents=True, exist_ok=True)
    (place / "sources.list").write_text(f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {MIRROR} {suite()} main\n")
    settings = {"Dir::Etc::SourceList": place / "sources.list", "Dir::Etc::SourceParts": "-", "Dir::State::Lists": place / "lists",
                "Dir::Cache": place, "Acquire::Check-Valid-Until": "false", "Acquire::Languages": "none"}
    return [command, *(f"-o{name}={value}" for name, value in settings.items()), *words]


def fetch(current):
    """Bring the newest kernel package into the cache and point `current` at it; the lock is held."""
    prefix = f"tmp-{suite()}."
    for old in cache().glob(f"{prefix}*"):  # of a command that was killed
        shutil.rmtree(old)
    package = newest_package()
    with tempfile.TemporaryDirectory(prefix=prefix, dir=cache()) as tmp:
        tmp = pathlib.Path(tmp)
        tmp.chmod(0o755)
        run(f"downloading {package}", *apt("apt-get", "download", "-q", package, *parts(package)), cwd=tmp)
        tree = cache() / next(tmp.glob(f"{package}_*.deb")).stem.replace("%3a", ":")
        if not (tree / "vmlinux").exists():
            unpack(tmp)
            shutil.rmtree(tree, ignore_errors=True)
            (tmp / "tree").rename(tree)
    link = current.with_name(f"{current.name}.tmp")
    link.unlink(missing_ok=True)
    link.symlink_to(tree.name)
    link.rename(current)


def newest_package():
    """Name of the package behind the meta package, e.g. linux-image-6.1.0-49-amd64."""
    for attempt in range(2):
        names = needed(META_PACKAGE, r"linux-image-\d\S*")
        if names:
            return names[0]
        if attempt == 0:
            run("updating the package lists", *apt("apt-get", "update", "-q"))
    raise LabError(f"apt knows no package {META_PACKAGE}; the lab needs Debian's package lists on amd64")


def needed(package, pattern):
    """Packages that a package depends on, of these names."""
    out = subprocess.run(apt("apt-cache", "depends", package), env=ENV, capture_output=True, text=True).stdout
    return re.findall(rf"^ *Depends: ({pattern})$", out, re.M)


def parts(package):
    """Packages in which image, modules and lists of modules are, where they are not in the kernel's own (Debian 14)."""
    return needed(package, r"linux-(?:binary|modules|base)-\d\S*")


def unpack(tmp):
    """Make tmp/tree with vmlinux and modules/RELEASE out of a kernel's packages."""
    for deb in tmp.glob("*.deb"):
        run(f"unpacking {deb.name}", "dpkg-deb", "-x", deb, tmp / "deb")
    if (tmp / "deb/usr/lib/modules").is_dir():  # from Debian 13 on
        (tmp / "deb/usr/lib/modules").rename(tmp / "modules")
        shutil.rmtree(tmp / "deb/lib", ignore_errors=True)
        (tmp / "deb/lib").mkdir()
        (tmp / "modules").rename(tmp / "deb/lib/modules")
    release = next((tmp / "deb/lib/modules").iterdir()).name
    run("indexing its modules", "depmod", "-b", tmp / "deb", release)
    (tmp / "tree").mkdir()
    (tmp / "deb/lib/modules").rename(tmp / "tree/modules")
    images = [path for path in (tmp / "deb").rglob("vmlinuz*") if path.is_file()] or [*(tmp / "tree/modules").rglob("vmlinuz*")]
    if not images:
        raise LabError(f"no kernel image in the packages of {release}")
    (tmp / "tree/vmlinux").write_bytes(elf(images[0].read_bytes(), release))


def elf(bzimage, release):
    """The ELF kernel inside a bzImage.  QEMU boots it directly (PVH): no unpacking under emulation."""
    offset, length = struct.unpack_from("<II", bzimage, PAYLOAD)
    begin = (bzimage[SECTORS] + 1) * 512 + offset
    try:
        image = decompressed(bzimage[begin:begin + length - 4])  # the last four bytes are its size without compression
    except ValueError as err:
        raise LabError(f"the kernel image of {release}: {err}") from None
    if not image.startswith(b"\x7fELF"):
        raise LabError(f"no ELF image found inside the kernel image of {release}")
    return image


def decompressed(data):
    """Of data compressed as kernels and modules are, or not; ValueError."""
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        done = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=False)
        if done.returncode:
            raise ValueError(f"zstd: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout
    if data.startswith(b"\x7fELF"):
        return data
    raise ValueError(f"compressed in an unknown way, it begins with {data[:6].hex()}")


def run(what, *cmd, cwd=None):
    print(f"lab: {what}", file=sys.stderr, flush=True)
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, env=ENV, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        raise LabError(f"{what} failed: {cmd[0]} ended with status {done.returncode}\n{done.stdout}")
