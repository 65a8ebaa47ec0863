# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The `gids` command: programs with every pair of GID indexes of a port.

perftest compares the GIDs that both ends exchanged and ends by itself when one is IPv4 and the other IPv6; so it gets
all other pairs, and ibv_rc_pingpong, which takes what it is told, gets every pair.
"""
import argparse
import concurrent.futures
import contextlib
import functools
import ipaddress
import queue
import random
import re
import sys
import threading

from . import HERE, report
from .drive import talk
from .programs import UNREACHED
from .world import World, need, staged

PROGRAMS = {  # command, what a client says that worked
    "ib_write_bw": (["ib_write_bw", "-d", "mlx5_0", "-F", "-n", "100", "-s", "4096", "-p", "{port}", "-x", "{index}"],
                    r"\n *4096 +100 "),
    "ibv_rc_pingpong": (["ibv_rc_pingpong", "-d", "mlx5_0", "-n", "100", "-c", "-p", "{port}", "-g", "{index}"],
                        r"\b100 iters in "),
}
REFUSES = "Found Incompatibility issue with GID types"
SECONDS = {False: 12, True: 30}
EMPTY = ipaddress.IPv6Address(0)


def family(gid):
    address = ipaddress.IPv6Address(gid)
    return 4 if address.ipv4_mapped else 6


def local(entry):
    return ipaddress.IPv6Address(entry[0]).is_link_local


def entries(world, host, device):
    """{index: (GID, type, netdev)} of the port's table, empty ones left out."""
    base, found = f"/sys/class/infiniband/{device}/ports/1", {}
    for index in range(64):
        gid = world.file(host, f"{base}/gids/{index}").strip()
        if gid and ipaddress.IPv6Address(gid) != EMPTY:
            found[index] = (str(ipaddress.IPv6Address(gid)), world.file(host, f"{base}/gid_attrs/types/{index}").strip(),
                            world.file(host, f"{base}/gid_attrs/ndevs/{index}").strip())
    return found


def must_fail(one, other):
    """Whether these two entries cannot talk whatever the network does; anything else may work bare or not."""
    if one[1] != other[1]:
        return True  # RoCE v1 and v2
    if one[2:] != other[2:] and not (local(one) and local(other)):
        return True  # a VLAN and another; but a port has the same link-local address in all of them
    return one[1] == "RoCE v2" and family(one[0]) != family(other[0])


def refuses(program, one, other):
    """perftest's own check, before it touches the device: nothing that meshverbs could mend."""
    return program == "ib_write_bw" and family(one[0]) != family(other[0])


def run(world, program, server_index, client_index):
    port, (words, sane) = world.fresh_port(), PROGRAMS[program]

    def command(index):
        return [word.format(port=port, index=index) for word in words]
    result = talk(world, "b", "a", command(server_index), [*command(client_index), "b"], port, SECONDS[world.stacked],
                  f"{UNREACHED}|{re.escape(REFUSES)}")
    said = result["output"]["client"]
    result["ok"] = (result["client"], result["server"]) == (0, 0) and bool(re.search(sane, said))
    result["refused"] = REFUSES in said
    result["reached"] = bool(re.search(UNREACHED, said + result["output"]["server"]))
    return result


def judge(one, other, same, stacked, result):
    """What is wrong; "" when nothing."""
    if result["refused"]:
        return "the program refuses: it should not have been asked"
    if stacked or same:
        return "" if result["ok"] else "fails"
    if result["ok"]:
        return "works bare, although it cannot" if must_fail(one, other) else ""
    return "" if result["reached"] else "fails bare, but for another reason than the path"


def everything(tables):
    """[(program, server's index, client's)]"""
    return [(program, i, j) for program in PROGRAMS for i in tables["b"] for j in tables["a"]
            if not refuses(program, tables["b"][i], tables["a"][j])]


def run_all(cases, build, stage, jobs):
    """{(program, server's index, client's): (result, what is wrong)} and the tables of both hosts."""
    todo, outcomes, tables, lock = queue.SimpleQueue(), {}, {}, threading.Lock()

    def work(number):
        with World.up(HERE / "gids.topo", build, stage, f"gids{number}") as world:
            with lock:
                if not tables:
                    tables.update({host: entries(world, host, "mlx5_0") for host in "ab"})
                    for case in cases(tables):
                        todo.put(case)
            with contextlib.suppress(queue.Empty):
                while True:
                    program, i, j = case = todo.get_nowait()
                    result = run(world, program, i, j)
                    outcomes[case] = result, judge(tables["b"][i], tables["a"][j], i == j, world.stacked, result)
                    show(world, case, *outcomes[case])

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work, number) for number in range(jobs)]:
            done.result()
    return outcomes, tables


def show(world, case, result, wrong):
    if wrong:
        print(f"WRONG: {case[0]}, index {case[1]} at the server, {case[2]} at the client: {wrong}")
        for role in ("server", "client"):
            print(f"  {role} ended with {result[role]}:", *result["output"][role].strip().splitlines()[-6:], sep="\n    ")
        for host in "ab":
            print(f"  log of {host}:", world.told(host, 6), sep="\n    ")
        sys.stdout.flush()


def text_of(entry):
    gid, kind, netdev = entry
    address = ipaddress.IPv6Address(gid)
    return f"{'v2' if kind == 'RoCE v2' else 'v1'} {address.ipv4_mapped or address}{'' if netdev == 'eth0' else ' ' + netdev}"


def show_tables(title, outcomes, tables):
    for program in PROGRAMS:
        rows = {f"{i:2} {text_of(tables['b'][i])}": i for i in sorted({i for _, i, _ in outcomes})}
        columns = {str(j): j for j in sorted({j for _, _, j in outcomes})}

        def cell(row, column, program=program, rows=rows, columns=columns):
            i, j = rows[row], columns[column]
            outcome = outcomes.get((program, i, j))
            if not outcome:
                return "/" if refuses(program, tables["b"][i], tables["a"][j]) else "."
            return "WRONG" if outcome[1] else "ok" if outcome[0]["ok"] else "-"
        print(f"\n{program}, {title} (server's index down, client's across; '-' fails, '/' the program refuses)\n"
              + report.table(rows, columns, cell))


def sample(seed, tables):
    """Pairs of indexes that any table of gids.topo has: every kind of mismatch, and others."""
    rng, kinds = random.Random(seed), [(3, 2), (3, 7), (1, 3), (3, 5), (7, 1), (3, 3)]
    cases = everything(tables)
    for kind in kinds:  # version, family, link-local, subnet, IPv6 scope, same
        yield rng.choice([case for case in cases if case[1:] == kind])
    yield from rng.sample([case for case in cases if case[1:] not in kinds], 6)


def parse(words):
    top = argparse.ArgumentParser(prog="gids", description=__doc__)
    top.add_argument("build", metavar="BUILD")
    top.add_argument("--short", action="store_true", help="each kind of mismatch once, and some others")
    top.add_argument("--seed", type=int, help="of the sample (default: a new one, printed)")
    top.add_argument("--half", choices=("bare", "stacked"), help="only this half of the proof")
    top.add_argument("--jobs", type=int, default=2, help="simulations side by side")
    top.add_argument("-o", dest="out", metavar="FILE", help="all results as JSON")
    return top.parse_args(words)


def main(words=None):
    args = parse(words)
    need("ib_write_bw", "ibv_rc_pingpong", "ip")
    cases = everything
    if args.short:
        args.seed = args.seed if args.seed is not None else random.randrange(1 << 16)
        print(f"gids: seed {args.seed}")
        cases = functools.partial(sample, args.seed)
    kept, bad = [], 0
    with staged(args.build) as stage:
        for stacked in [half for half in (False, True) if args.half in (None, "stacked" if half else "bare")]:
            outcomes, tables = run_all(cases, args.build, stage if stacked else None, args.jobs)
            title = "meshverbs at both ends" if stacked else "bare"
            show_tables(title, outcomes, tables)
            wrong = sum(bool(text) for _, text in outcomes.values())
            ok = sum(result["ok"] for result, _ in outcomes.values())
            print(f"{title}: {len(outcomes)} cases, {ok} worked; {wrong} not as they have to be", flush=True)
            bad += wrong
            if not stacked and not args.short and ok * 2 >= len(outcomes):
                print("WRONG: bare, most pairs have to fail")
                bad += 1
            kept += [{"program": program, "server_index": i, "client_index": j, "server_entry": tables["b"][i],
                      "client_entry": tables["a"][j], "stacked": stacked, "wrong": text, **result}
                     for (program, i, j), (result, text) in sorted(outcomes.items())]
    if args.out:
        report.write_json(args.out, kept)
    return 1 if bad or not kept else 0
