# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What needs an NVIDIA GPU, in ten minutes: memory of the GPU registered with verbs, and NCCL by its own calls.

registrations: each step has to give the same answer bare and with meshverbs. Regions that could be registered carry data, which is checked,
also while a cable is pulled. NCCL: `nccl BUILD --gpu`, stacked, all its cases, those with a cable first. Exit status 77: there is no GPU,
no libcuda, no CUDA runtime, or no NCCL.
"""
import argparse
import ctypes
import pathlib
import random
import time

from nicmatrix.world import need, skip
from pulled.play import go_before

from . import cli, ranks, register

SECONDS = 500  # no case begins later; one that hangs is ended after a minute


def lacking():
    """What this machine lacks, "" when nothing."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no libcuda.so.1"
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "no GPU"
    if not ranks.library("NCCL_LIBRARY", "libnccl.so.2"):
        return "no libnccl.so.2; NCCL_LIBRARY says where it is"
    if not ranks.library("CUDART_LIBRARY", ranks.CUDART):
        return "no CUDA runtime library; CUDART_LIBRARY says where it is"
    return ""


def parse(words):
    top = argparse.ArgumentParser(prog="gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("build", metavar="BUILD")
    top.add_argument("--without-gpu", action="store_true", help="try the registrations with memory of the host in place of a GPU's; no NCCL")
    top.add_argument("--part", choices=("register", "nccl", "both"), default="both")
    top.add_argument("--short", action="store_true", help="of the registrations a cable is pulled under one run only")
    top.add_argument("--seconds", type=int, default=SECONDS, help=f"after which no case of NCCL begins (default: {SECONDS})")
    top.add_argument("--seed", type=int, help="when and where the cable is pulled; default: a new one, printed")
    return top.parse_args(words)


def main(words=None):
    args, begun = parse(words), time.monotonic()
    need("ip", "bridge", "nft")
    missing = "" if args.without_gpu else lacking()
    if missing:
        skip(missing)
    seed, right = args.seed if args.seed is not None else random.randrange(1 << 32), True
    print(f"gpu: seed {seed}", flush=True)
    if args.part != "nccl":
        go_before()
        right = register.run(pathlib.Path(args.build).resolve(), not args.without_gpu, seed, args.short)
    for part in ("cable", "connections") if args.part != "register" and not args.without_gpu else ():
        left = max(0, int(args.seconds - (time.monotonic() - begun)))
        right &= not cli.main([args.build, "--gpu", "--half", "stacked", "--part", part, "--seed", str(seed), "--seconds", str(left)])
    print(f"gpu: {'all as it has to be' if right else 'WRONG, or not all was done'}; {time.monotonic() - begun:.0f} s")
    return 0 if right else 1
