# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs over librdmacm: the kernel looks the index up afresh for each connection, so there is nothing to mend."""
from .case import WORKS, Case, kept
from .programs import A, B
from .world import at

# What listens keeps its old slot from being used again, so the address moves on at once.
READDED = [f"del {B}/24", "free 1", f"add {B}/24", at(2, B)]

RPING = {"server": f"rping -s -a {B} -p {{port}} -C 10 -S 256 -V", "client": f"rping -c -a {B} -p {{port}} -C 10 -S 256 -V"}
UCMATOSE = {"server": f"ucmatose -b {B} -p {{port}} -c 2 -C 10 -S 1024", "client": f"ucmatose -s {B} -p {{port}} -c 2 -C 10 -S 1024"}
UDADDY = {"server": f"udaddy -b {B} -c 2 -C 10 -S 512", "client": f"udaddy -s {B} -c 2 -C 10 -S 512"}
UDADDY_PORT = 7174  # it has no option for it


def cases():
    for name, commands, port, server in (("rping", RPING, "{port}", kept(A, 2)), ("ucmatose", UCMATOSE, "{port}", kept(A, 2)),
                                         ("udaddy", UDADDY, UDADDY_PORT, "context:rxe0")):
        yield Case(f"{name}: moved between listen and connect", bare=WORKS, stacked=WORKS, **commands,
                   ready=f"cm_listens {port}", move={"b": READDED}, log={"b": server, "a": kept(B, 1)})
    again = {**RPING, "server": RPING["server"].replace("rping -s", "rping -s -P")}
    yield Case("rping: moved between two connections to one listener", bare=WORKS, stacked=WORKS, **again,
               ready="cm_listens {port}", again=READDED, stays=True, log={"b": [kept(A, 1), kept(A, 2)], "a": kept(B, 1)})
    group = "mckey -m 239.7.7.7 -C 10 -S 256 -b"
    yield Case("mckey: multicast", bare=WORKS, stacked=WORKS, server=f"stdbuf -oL {group} {B}", client=f"{group} {A} -s",
               ready="said joined", log={"a": "kept"})
