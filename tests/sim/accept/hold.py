#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A TCP proxy that stops a perftest connection where it counts.

    hold.py PORT HOST HOSTPORT

A client's message that looks like its address (QPN, PSN, GID as hexadecimal numbers with colons) is held: "held" is
printed, and a line on stdin lets it go on.  By then the server has read its own GID, but has not connected its QP.
"""
import re
import select
import socket
import sys

ADDRESS = re.compile(rb"([0-9a-f]{2,}:){8}")


def main():
    port, host, target = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    listener = socket.create_server(("", port))
    client, _ = listener.accept()
    server = socket.create_connection((host, target))
    other, held = {client: server, server: client}, False
    while True:
        for one in select.select(list(other), [], [])[0]:
            data = one.recv(65536)
            if not data:
                return
            if one is client and not held and ADDRESS.search(data):
                held = True
                print("held", flush=True)
                sys.stdin.readline()
            other[one].sendall(data)


main()
