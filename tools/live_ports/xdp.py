#!/usr/bin/env python3
"""Interfaces that AF_XDP sockets cannot have, and those of killed processes.

    xdp.py WARPLINE [af_xdp:CASE...]
"""

import ctypes
import json
import os
import pwd
import resource
import socket
import struct
import time

from lab import LIBC, soon
from live import STATS, WIRE, main, wire
from talk import Server, query

# The number of bpf(2) on x86-64.
BPF = 321
PROGRAM_LOAD, LINK_CREATE = 5, 28


def attach(space, interface):
    """Attaches an XDP program that passes all frames, as another tool would. Returns its link."""
    passes = struct.pack("<BBhi", 0xB7, 0, 0, 2) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    code, license = ctypes.create_string_buffer(passes), ctypes.create_string_buffer(b"GPL")
    pointers = map(ctypes.addressof, (code, license))
    load = struct.pack("IIQQ", 6, len(passes) // 8, *pointers)
    program = bpf(PROGRAM_LOAD, load.ljust(48, b"\0"))
    with space.entered():
        index = socket.if_nametoindex(interface)
        link = bpf(LINK_CREATE, struct.pack("IIII", program, index, 37, 0))
    os.close(program)
    return link


def bpf(command, attributes):
    fd = LIBC.syscall(BPF, command, attributes, len(attributes))
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd


def attached(lab):
    """The interfaces of the machine with XDP programs."""
    links = json.loads(lab.spaces["machine"].run("ip -j link"))
    return [link["ifname"] for link in links if "xdp" in link]


def case_programs(lab):
    """XDP ports that can't be opened are named, and leave nothing open or attached."""
    wire(lab)
    machine = lab.spaces["machine"]

    def refused(text, at, *expected, prefix=()):
        lab.write("bad.toml", text)
        messages = lab.refused("bad.toml", prefix=prefix)
        for part in (f"bad.toml:{at}", *expected):
            assert part in messages, (part, messages)
        assert not attached(lab), attached(lab)

    refused(f'{WIRE}mode = "fast"\n', "17:8", "`mode` must be", "zerocopy")
    refused(f'{WIRE}mode = "zerocopy"\n', "16:10", 'driver "veth" has no zero-copy mode')
    refused(f"{WIRE}queue = 7\n", "16:10", "only queue 0")
    twice = WIRE.replace("af_packet:wan", "af_packet:lan,queue=0")
    refused(twice, "16:10", "af_xdp:lan is both the input")
    for rights, missing in (
        ("-net_raw", "CAP_NET_RAW"),
        ("-bpf,-sys_admin", "CAP_BPF"),
        ("-net_admin,-sys_admin", "CAP_NET_ADMIN"),
    ):
        refused(WIRE, "11:10", missing, prefix=("setpriv", f"--bounding-set={rights}"))
    machine.run("ip link set wan mtu 9000")
    refused(WIRE, "16:10", "MTU 9000", "af_packet")
    machine.run("ip link set wan mtu 1500")
    link = attach(machine, "wan")
    lab.write("bad.toml", WIRE)
    messages = lab.refused("bad.toml")
    assert "bad.toml:16:10" in messages and "ip link set dev wan xdp off" in messages, messages
    assert attached(lab) == ["wan"], attached(lab)
    os.close(link)


def case_killed(lab):
    """A killed process leaves no program, and its successor gets the queues at once."""
    wire(lab)
    for _ in range(2):
        child = lab.start("wire.toml", *STATS)
        assert sorted(attached(lab)) == ["lan", "wan"], attached(lab)
        messages = lab.refused("wire.toml")
        assert "wire.toml:11:10" in messages and "has queue 0" in messages, messages
        child.kill()
        child.communicate()
        assert not attached(lab), attached(lab)
    child = lab.start("wire.toml", *STATS)
    server = Server(lab.spaces["wan"])
    assert query(lab.spaces["lan"], "10.9.0.2"), "after the last start"
    server.close()
    lab.stop(child)


def case_user(lab):
    """Another user gets sockets whatever its limit of locked memory. It cannot open them again."""
    wire(lab)
    daemon = pwd.getpwnam("daemon")
    os.chown(lab.folder.name, daemon.pw_uid, daemon.pw_gid)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    child = lab.start("wire.toml", *STATS, "--user", "daemon")
    server = Server(lab.spaces["wan"])
    assert soon(lambda: query(lab.spaces["lan"], "10.9.0.2", 0.5)), "traffic"
    server.close()
    lab.spaces["machine"].run("ip link del wan")
    time.sleep(0.3)
    lab.link("wan")
    time.sleep(0.5)
    _, errors = lab.stop(child)
    assert "interface wan cannot be opened again: not permitted: AF_XDP" in errors, errors


if __name__ == "__main__":
    main(globals())
