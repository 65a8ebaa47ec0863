# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The life of the Debian packages on a host: programs before, with and after them, an upgrade under traffic, a purge."""
import json
import pathlib
import re
import shutil
import subprocess
import threading
import time

from . import Failed, check, debs, roots, simulated

PROGRAMS = ["perftest", "ucx-utils", "ibverbs-utils", "ibverbs-providers", "python3-pyverbs", "iproute2", "util-linux"]
# What the packages depend on: a Debian host has systemd and udev, and the rest stays as any other library.
NEEDED = ["systemd", "udev", "libsodium23", "libjson-c5", "libnl-route-3-200"]
# Not compared: shadow's files of what was there before the last change to the users.
BACKUPS = tuple(f"/etc/{name}-" for name in ("passwd", "group", "shadow", "gshadow"))
TREES = ["/etc", "/usr", "/boot", "/opt", "/srv"]


def host(path, more=()):
    """A root as the host of somebody who runs RDMA programs."""
    parent = roots.with_packages("host", roots.base(), "1", PROGRAMS + NEEDED)
    if more:
        parent = roots.with_packages("-".join(["host", *more]), parent, "1", list(more))
    shutil.rmtree(path, ignore_errors=True)
    root = roots.copy(parent, path)
    for name, text in (("hosts", "127.0.0.1 localhost\n"), ("machine-id", "0" * 32 + "\n")):
        (root.path / "etc" / name).write_text(text)
    return root


def snapshot(root):
    return root.snapshot(*TREES, skip=BACKUPS)


def install(root, files):
    """By apt, and nothing else comes along."""
    there = root.take(files, "/debs")
    said = root.apt("install", *there)
    new = re.search(r"The following NEW packages will be installed:\n((?:  .*\n)*)", said)
    names = sorted(pathlib.Path(file).name.split("_")[0] for file in files)
    check(not new or sorted(new[1].split()) == names, f"apt installs {', '.join(names)} and nothing else" if new else said[-500:])
    check("meshverbs-front:" not in said, "the front's maker had nothing to complain of" if "meshverbs-front:" not in said else said)
    return said


def repacked(files, work, version):
    """The same packages under another version: what an upgrade replaces and runs is the same."""
    made = []
    work.mkdir(exist_ok=True)
    for file in files:
        tree = work / pathlib.Path(file).name.split("_")[0]
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["dpkg-deb", "-R", file, str(tree)], check=True)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"(Version: |meshverbs-provider \(= )[0-9][^)\n]*", rf"\g<1>{version}", control.read_text()))
        made.append(str(work / f"{tree.name}_{version}_amd64.deb"))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(tree), made[-1]], check=True, stdout=subprocess.DEVNULL)
    return made


def status_of(hosts):
    status, said = hosts.run("a", "meshverbs", "status", "--json")
    check(status == 0, f"meshverbs status has nothing that needs attention{'' if status == 0 else f': {said}'}")
    return json.loads(said)


def reports(hosts, *command):
    """What the plugin reported in a program: {step: state}."""
    path = hosts.root.path / "exchange/report"
    path.write_text("")
    hosts.run("a", "env", "MESHVERBS_REPORT=/exchange/report", *command)
    return {line.split()[1]: line.split()[2] for line in path.read_text().splitlines()}


def programs_meet_the_plugin(hosts):
    for name, command in {"perftest": ["ib_write_bw", "-d", "mlx5_9"], "libibverbs' examples": ["ibv_devinfo"], "UCX": ["ucx_info", "-d"],
                          "pyverbs": ["python3", "-c", "import pyverbs.device as d; d.Context(name='mlx5_0')"]}.items():
        said = reports(hosts, *command)
        check(said.get("base:mlx5") == "ok", f"{name}: the plugin stacks over mlx5" if said.get("base:mlx5") == "ok" else f"{name}: {said}")


def wait_for_moved(hosts):
    """Until a connection of host a has been moved, as its agent has it."""
    end = time.monotonic() + simulated.SECONDS
    while True:
        status, said = hosts.run("a", "meshverbs", "qps", "--json")
        if status == 0 and any(qp["state"] == "moved" for qp in json.loads(said)["qps"]):
            return
        if time.monotonic() > end:
            raise Failed(f"no connection has been moved: {said}")
        time.sleep(0.05)


class Meanwhile(threading.Thread):
    """Runs something again and again; what it gives back is what was wrong."""

    def __init__(self, hosts, once):
        super().__init__()
        self.hosts, self.once, self.wrong, self.count, self.over = hosts, once, [], 0, threading.Event()

    def run(self):
        while True:
            self.wrong += self.once(self.hosts)
            self.count += 1
            if self.over.is_set():
                break

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def transfers(hosts):
    """A connection that was moved when it was made, with data whose every byte is checked."""
    program, words = f"{hosts.build}/{simulated.NCCLISH}", ["b", "a", "-n", "500", "-g", "3", "-p", "18700", "-t", "50"]
    with hosts.start("b", program, "0", *words, "-d", "mlx5_0") as other:
        here = hosts.run("a", program, "1", *words, "-d", "mlx5_1")
        said = other.communicate(timeout=120)[0]
    return [] if here[0] == other.returncode == 0 else [f"{here[0]}, {other.returncode}: {here[1]}{said}"]


def starts(hosts):
    """Programs that have to say what they always say."""
    wrong = []
    for command in (["ibv_devinfo", "-d", "mlx5_0"], ["ib_write_bw", "-d", "mlx5_9"]):
        said = hosts.run("a", *command)[1]
        if not re.search("hca_id:\tmlx5_0|IB device mlx5_9 not found", said) or re.search("error while|couldn't load|version info", said):
            wrong.append(said)
    return wrong


def upgrade_under_traffic(hosts, files):
    there = hosts.root.take(files, "/debs")
    with Meanwhile(hosts, transfers) as carrying, Meanwhile(hosts, starts) as starting:
        said = hosts.root.apt("install", *there)
    # systemd's part of an upgrade. A connection that is made while there is no agent is as without meshverbs; those that are
    # there go on.
    with Meanwhile(hosts, transfers) as last:
        last.over.set()  # one run
        wait_for_moved(hosts)
        hosts.stop_agents()
        hosts.start_agents()
    carrying.count, carrying.wrong = carrying.count + last.count, carrying.wrong + last.wrong
    check("Setting up meshverbs-provider" in said, "apt upgrades both packages and the agents restart")
    for what, text in ((carrying, "runs of moved connections carried data meanwhile, of which no byte was lost or wrong"),
                       (starting, "times programs started meanwhile, and did not notice")):
        check(what.count > 0 and not what.wrong, "\n".join([f"... {what.count} {text}", *what.wrong]))


def pulled(hosts):
    """ib_write_bw between the first NICs, under which their cable is pulled: (it ended well, what both ends said)."""
    words = ["ib_write_bw", "-d", "mlx5_0", "-x", "3", "-D", "8", "-f", "1", "-p", "18610"]
    with hosts.start("b", *words) as server:
        if not hosts.listening("b", 18610, server):
            raise Failed(f"ib_write_bw does not listen: {server.communicate()[0]}")
        with hosts.start("a", *words, "b") as client:
            time.sleep(3)
            hosts.link("l0", "off")
            time.sleep(2)
            said = client.communicate()[0]
            if client.returncode != 0:
                server.terminate()
            said += server.communicate()[0]
    hosts.link("l0", "on")
    return client.returncode == server.returncode == 0, said


def survival(hosts):
    """The settings as installed: the agents have all NICs tried out, and a pulled cable is survived."""
    hosts.wait_qualified({"mlx5_0", "mlx5_1"})
    check(True, "the agents have had all NICs of both hosts tried out by the installed meshverbs")
    well, said = pulled(hosts)
    check(well, "a cable is pulled under ib_write_bw, which does not notice; no setting was touched" if well else said[-3000:])


def autopkgtests(out):
    files = debs.packages(sorted((out / "deb").glob("*.deb")))
    root = host(out / "autopkgtest", ["autopkgtest"])
    there = root.take(files, "/debs")
    subprocess.run(["tar", "-xf", str(debs.source_archive(out / "src")), "-C", str(root.path / "srv")], check=True)
    tree = f"/srv/meshverbs-{debs.version()}"
    # 2: a test was left out, the one that does to this root what cannot be undone
    said = root.run("sh", "-c", 'autopkgtest "$@" -- null || test $? = 2', "sh", *there, tree)
    passed = set(re.findall(r"^(\S+) +PASS", said, re.M))
    check(passed == {"front", "agent"}, f"autopkgtest: {', '.join(sorted(passed))} pass" if passed == {"front", "agent"} else said[-3000:])
    said = root.run(f"{tree}/debian/tests/upkeep")
    check(said.count("ok: ") == 3, f"upkeep: {' '.join(re.findall('ok: .*', said))}")
    shutil.rmtree(root.path)


def life(out, build):
    files = debs.packages(sorted((out / "deb").glob("*.deb")))
    if len(files) != 2:
        raise Failed(f"no packages in {out / 'deb'}: run the step deb first")
    root = host(out / "root")
    before = snapshot(root)
    with simulated.Hosts(root, build) as hosts:
        print("  -- bare")
        simulated.expect(hosts, works=False)
        well, said = pulled(hosts)
        check(not well, "a cable is pulled under ib_write_bw, which fails" if not well else f"it should have failed:\n{said[-3000:]}")
        print("  -- apt install")
        install(root, files)
        changed = {line.split(":")[0] for line in roots.differences(before, snapshot(root))}
        expected = {"/etc/passwd", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf.d/00-meshverbs.conf", "/etc/libibverbs.d/mesh.driver"}
        check(expected <= changed, f"... which shows in {', '.join(sorted(expected))}")
        hosts.start_agents()
        said = status_of(hosts)
        (out / "status.json").write_text(json.dumps(said, indent=2))
        programs_meet_the_plugin(hosts)
        simulated.expect(hosts, works=True)
        survival(hosts)
        print("  -- upgrade")
        upgrade_under_traffic(hosts, repacked(files, out / "upgrade", f"{debs.version()}+upgrade"))
        simulated.expect(hosts, works=True)
        print("  -- remove")
        hosts.stop_agents()
        root.apt("remove", "meshverbs", "meshverbs-provider")
        status, text = hosts.run("a", "ibv_devinfo", "-d", "mlx5_0")
        check(status == 0 and "libibverbs" not in text, "libibverbs has nothing to warn of" if "libibverbs" not in text else text)
        print("  -- purge")
        root.apt("purge", "meshverbs", "meshverbs-provider")
    left = [line for line in roots.differences(before, snapshot(root)) if not re.match("/etc/(hosts|machine-id)", line)]
    check(not left, f"all of {' '.join(TREES)} is as it was, byte for byte, ld.so's cache included" if not left else "\n".join(left))
    shutil.rmtree(root.path)
