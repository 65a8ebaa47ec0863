# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""mount(2) without a process per mount, and the pieces that hosts' file systems are put together from."""
import ctypes
import os
import pathlib
import stat

MS_NOSUID, MS_BIND, MS_MOVE, MS_REC, MS_SLAVE = 2, 4096, 8192, 16384, 1 << 19
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x20000, 0x4000000, 0x8000000, 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, fstype=None, flags=0, data=None):
    args = [None if value is None else os.fsencode(value) for value in (source, target, fstype)]
    if _libc.mount(*args, ctypes.c_ulong(flags), None if data is None else data.encode()):
        err = ctypes.get_errno()
        raise OSError(err, f"mount {fstype or 'bind'} of {source}: {os.strerror(err)}", str(target))


def own_namespaces():
    """This process has namespaces of its own from here on; what the machine mounts later is seen there, too, not the other way round."""
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC):
        err = ctypes.get_errno()
        raise OSError(err, f"unshare: {os.strerror(err)}")
    mount(None, "/", None, MS_REC | MS_SLAVE)


def tmpfs(target, mode="755"):
    target.mkdir(parents=True, exist_ok=True)
    mount("sim", target, "tmpfs", MS_NOSUID, f"mode={mode}")


def bind(source, target):
    """The file or directory source, with what is mounted below it, at target, which is made if need be."""
    if pathlib.Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount(source, target, None, MS_BIND | MS_REC)


def mirror(source, target, skip=()):
    """Make target a directory with source's entries: links copied, the rest bound."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(source):
        there = target / entry.name
        if entry.name in skip:
            continue
        if entry.is_symlink():
            there.symlink_to(os.readlink(entry.path))
        else:
            bind(entry.path, there)


def device_node(path, kind, mode, rdev):
    os.mknod(path, kind | mode, rdev)
    os.chmod(path, mode)


def clone_node(source, target):
    info = os.stat(source)
    device_node(target, stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode), info.st_rdev)
