# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Where labs live on disk: one directory for each, by name, so that several run side by side."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil

from . import process
from .errors import LabError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
UNIX_PATH_MAX = 107  # unix(7), less the terminating zero


def base():
    return pathlib.Path(os.environ.get("LAB_DIR") or "/run/meshverbs-lab").absolute()


@contextlib.contextmanager
def locked(path):
    """Hold an exclusive lock on a file, which is made if missing; waits for other holders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def directory(name):
    if not NAME.fullmatch(name):
        raise LabError(f"bad lab name '{name}'; use letters, digits, '.', '_' and '-', at most 40")
    path = base() / name
    if len(str(path / "hosts" / ("x" * 31) / "console.sock")) > UNIX_PATH_MAX:
        raise LabError(f"{path} is too long for Unix sockets; set LAB_DIR to a shorter path")
    return path


def names():
    """Names of all labs on disk, living or not."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(p.parent.name for p in base().glob("*/lab.json"))
    return []


def idents(path):
    """Process identities recorded in a lab's directory: its QEMUs, and the `up` that builds it."""
    found = []
    for file in [path / "up.pid", *path.glob("hosts/*/pid")]:
        with contextlib.suppress(OSError):
            found.append(file.read_text().strip())
    return found


def living(path):
    return [ident for ident in idents(path) if process.alive(ident)]


def claim(name, description):
    """Make the directory of a new lab; a dead lab of that name is cleared away first.

    Returns (directory, whether a dead one was cleared).
    """
    path = directory(name)
    with locked(base() / ".lock"):
        stale = path.exists()
        if stale and living(path):
            raise LabError(f"lab '{name}' exists already; end it with 'lab down -n {name}' "
                           "or give the new one another name with --name")
        if stale:
            remove(path)
        path.mkdir(parents=True)
        (path / "up.pid").write_text(process.identity(os.getpid()))
        write(path / "lab.json", json.dumps(description, indent=1))
    return path, stale


def remove(path):
    """End what a lab left running and delete its directory."""
    own = process.identity(os.getpid())
    builders = [i for i in living(path) if i != own and not command(i).startswith("qemu")]
    for ident in builders:  # a running `lab up` cleans up by itself when asked to end
        process.kill(ident, grace_s=5.0)
    for ident in living(path):
        if ident != own:
            process.kill(ident)
    shutil.rmtree(path, ignore_errors=True)


def command(ident):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{ident.split()[0]}/comm").read_text()
    return ""


def write(path, text):
    """Write a file so that readers see the whole of it or none."""
    tmp = path.with_name(path.name + ".tmp")
    tmp.write_text(text)
    tmp.rename(path)
