# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""arm64: packages cross-built in a root of their own; what they contain runs under qemu's user emulation with Debian's arm64 rdma-core."""
import json
import re
import shutil
import subprocess

from . import REPO, Failed, check, debs, roots, simulated

QEMU = "/usr/bin/qemu-aarch64-static"
GUEST = ["perftest:arm64", "ibverbs-utils:arm64", "ibverbs-providers:arm64"]
LIBDIR = "/usr/lib/aarch64-linux-gnu"
TREE = "/home/builder/arm64"
LDCONFIG = "/usr/local/arm64/run-ldconfig"
# Cases that need what qemu 7.2 takes and does not do, MADV_WIPEONFORK and MADV_DONTFORK; one in which a message has more descriptors than
# there is room for: qemu doubles the room, and does not close what is too many; and two of a child that cannot be executed: qemu does
# vfork() as fork(), so posix_spawn() learns no error.
BY_QEMU = {"mesh-stack": ["test_child_of_fork_is_bare_until_it_opens"], "mesh-counts": ["test_fork"], "mesh-counts_taken": ["test_many_descriptors"],
           "test_agent_qualify": ["test_run_fails", "test_run_ended"]}
# They fork, or end, while other threads are at work: children and programs hang in qemu 7.2.
NOT_BY_QEMU = {"mesh-fork", "mesh-ourthreads"}


def build_root():
    """The build root, with arm64 as foreign architecture: the machine's own dpkg does not hear of it."""
    control = (REPO / "debian/control").read_text()

    def make(path):
        root = roots.copy(debs.build_root(), path)
        root.run("dpkg", "--add-architecture", "arm64")
        there = root.path / "tmp-src/debian"
        there.mkdir(parents=True)
        for name in ("control", "changelog"):
            shutil.copy(REPO / "debian" / name, there)
        root.apt("update")
        root.apt("install", "crossbuild-essential-arm64", "qemu-user-static", "iproute2")
        root.apt("build-dep", "--host-architecture", "arm64", "/tmp-src")
        root.apt("install", *GUEST)
        root.apt("clean")
        shutil.rmtree(root.path / "tmp-src")
    needs = re.search(r"^Build-Depends:.*?(?=^\S)", control, re.M | re.S)[0]
    return roots.cached("cross", " ".join([needs, *debs.TOOLS, *GUEST]), make)


def unit_tests(root):
    """Those that are programs of arm64, each under qemu; built as the packages are."""
    tree = f"{TREE}/meshverbs-{debs.version()}"
    environment = {"HOME": "/home/builder", "PKG_CONFIG": "/usr/bin/aarch64-linux-gnu-pkg-config"}

    def build(*argv):
        return root.run(*argv, user="builder", cwd=tree, env=environment)
    build("cmake", "-S", ".", "-B", "units", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_SYSTEM_NAME=Linux",
          "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc", f"-DCMAKE_CROSSCOMPILING_EMULATOR={QEMU}",
          "-DMESHVERBS_WERROR=ON", "-DCMAKE_INSTALL_PREFIX=/usr")
    build("cmake", "--build", "units")
    listed = json.loads(build("ctest", "--test-dir", "units", "-L", "^unit$", "--show-only=json-v1"))["tests"]
    # Not those in Python: they run programs of arm64 by themselves, without qemu.
    commands = {test["name"]: test["command"] for test in listed if test["command"][0] == QEMU}
    whole = "|".join(sorted(commands.keys() - BY_QEMU.keys() - NOT_BY_QEMU))
    said = build("ctest", "--test-dir", "units", "-R", f"^({whole})$", "-j2", "--output-on-failure", "--no-tests=error", "--timeout", "600")
    check("100% tests passed" in said, re.search(r"\d+% tests passed.*", said)[0])
    for name, cases in BY_QEMU.items():
        said = build("sh", "-c", f"{' '.join(commands[name])} || :")
        failed = re.findall(r"FAILED  . (test_\w+)", said[said.rindex("PASSED"):])
        # A later qemu may do more.
        good = set(failed) <= set(cases)
        check(good, f"{name}: all pass but {', '.join(failed) or 'none'}" if good else f"{name}: {failed}\n{said[-2000:]}")


class Cache:
    """While it is entered, ld.so's cache of the root is arm64's, made by arm64's ldconfig, and so is the front."""

    def __init__(self, root):
        self.root = root

    def front(self, verb):
        # /sbin/ldconfig is the other architecture's: arm64's lies over it for this command
        return self.root.run("unshare", "--mount", "--propagation", "unchanged", "sh", "-c", f"mount --bind {LDCONFIG} /sbin/ldconfig && {QEMU} /usr/sbin/meshverbs-front {verb}")

    def __enter__(self):
        self.root.run("sh", "-c", "cd /tmp && apt-get -qq download libc-bin:arm64 && dpkg-deb -x libc-bin_*.deb x && "
                      f"mkdir -p /usr/local/arm64 && cp x/sbin/ldconfig /usr/local/arm64/ && printf '#!/bin/sh\\nexec {QEMU} "
                      f"/usr/local/arm64/ldconfig \"$@\"\\n' >{LDCONFIG} && chmod +x {LDCONFIG}")
        check("now stands before" in self.front("--cache update"), "arm64's meshverbs-front makes the front, which arm64's ld.so prefers")
        return self

    def __exit__(self, *_):
        self.front("remove")
        self.root.run("ldconfig")


def overlay(root, build):
    """ib_write_bw and ibv_devinfo of arm64, on a simulated host whose HCA library is built for arm64, too."""
    hca = f"{TREE}/meshverbs-{debs.version()}/units/sim/libsimhca.so"
    with Cache(root), simulated.Hosts(root, build) as hosts:
        def program(*argv, settings=()):
            words = [word for setting in (f"LD_PRELOAD={hca}", *settings) for word in ("-E", setting)]
            return ["env", "-u", "LD_PRELOAD", QEMU, *words, *argv]
        report = root.path / "exchange/report"
        settings = ["MESHVERBS_REPORT=/exchange/report"]
        for name, argv in (("ibv_devinfo, which knows libibverbs only,", ["/usr/bin/ibv_devinfo", "-d", "mlx5_0"]),
                           ("ib_write_bw, which is linked to libmlx5,", ["/usr/bin/ib_write_bw", "-d", "mlx5_0", "-x", "3", "-n", "5"])):
            report.write_text("")
            if "ib_write_bw" in argv[0]:
                # It ends when its queue pair is to know its peer, bare as well: qemu does not know netlink's neighbours, of
                # which the HCA's library asks the kernel.
                server, client = hosts.between(18515, program(*argv), program(*argv, "b", settings=settings))
                worked, said = "GID index       : 3" in client[1], server[1] + client[1]
            else:
                status, said = hosts.run("a", *program(*argv, settings=settings))
                worked = status == 0
            check(worked, f"arm64's {name} opens the device" if worked else f"{name}: {said}")
            check("context:mlx5_0 ok" in report.read_text(), "\n".join(["... and the plugin overlays its context", report.read_text()]).strip())


def step(args):
    root = build_root()
    out = args.out / "arm64"
    shutil.rmtree(out, ignore_errors=True)
    made = debs.build(root, debs.source_archive(args.out / "src"), out, TREE, {"DEB_BUILD_OPTIONS": "nocheck", "CONFIG_SITE": ""},
                      ["-b", "--host-arch", "arm64", "-Pnocheck"])
    packages = debs.packages(made)
    check(len(packages) == 2, f"cross-built: {', '.join(path.rsplit('/', 1)[1] for path in packages)}")
    debs.lint(root, out, "arm64")
    for path in packages:
        subprocess.run(["dpkg-deb", "-x", path, str(root.path)], check=True)
    kind = root.run("readelf", "-h", f"{LIBDIR}/libibverbs/meshverbs-provider.so")
    check("AArch64" in kind, "the plugin is for AArch64")
    unit_tests(root)
    made = root.run(QEMU, "/usr/sbin/meshverbs-front", "--help")
    check(LIBDIR in made, "meshverbs-front runs and knows its directories")
    overlay(root, args.build)
