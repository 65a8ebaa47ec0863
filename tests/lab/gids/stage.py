# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is laid over the guests' root: meshverbs as its package would install it, and the tests' own programs."""
import os
import pathlib
import shutil
import subprocess

LIBRARY = pathlib.Path("/usr/lib/x86_64-linux-gnu/libibverbs.so.1")
HERE = pathlib.Path(__file__).resolve().parent
PLACE = "usr/libexec/meshverbs-lab"  # of the tests' programs in a guest
CONF = "[meshverbs]\nbase = mlx5 rxe\n[log]\ntarget = /var/log/meshverbs.log\nlevel = debug\n"


def build(build_dir, stage):
    """Fill the directory `stage` from a build tree."""
    done = subprocess.run(["cmake", "--install", str(build_dir)], env={**os.environ, "DESTDIR": str(stage)},
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"cmake --install {build_dir} failed:\n{done.stdout}{done.stderr}")
    stage = pathlib.Path(stage)
    (stage / "etc/libibverbs.d/mesh/mesh.conf").write_text(CONF)
    place = stage / PLACE
    place.mkdir(parents=True)
    for name in ("guest.sh", "nosys", "broken.conf"):
        shutil.copy(HERE / name, place / name)
    shutil.copy(HERE.parent / "bare", place / "bare")
    shutil.copy(pathlib.Path(build_dir) / "tests/lab/lab-ud", place / "ud")
    for name, (old, new) in STRANGE.items():
        strange(place / name, old, new)


# Copies of libibverbs that differ in something the plugin needs and the programs do not.
STRANGE = {
    # verbs_set_ops() does not fill the public place of async_event: mov %rsi,0x240(%rcx) becomes a nop
    "unmeasurable": (bytes.fromhex("4889b140020000"), bytes.fromhex("0f1f8000000000")),
    # the GID table cannot be read
    "tableless": (b"_ibv_query_gid_table", b"_ibv_query_gid_tablE"),
}


def strange(directory, old, new):
    """A copy of libibverbs with one place changed, in a directory for LD_LIBRARY_PATH."""
    content = LIBRARY.read_bytes()
    if content.count(old) != 1:
        raise RuntimeError(f"{LIBRARY} is not the one this test knows how to break: {content.count(old)} of {old!r}")
    directory.mkdir()
    (directory / LIBRARY.name).write_bytes(content.replace(old, new))
