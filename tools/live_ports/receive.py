#!/usr/bin/env python3
"""How interfaces are read: several queues, VLAN tags, and rings that follow the MTU.

    receive.py WARPLINE [CASE...]
"""

import os
import socket
import struct
import time

from lab import Sniffer, soon
from live import STATS, TAPPED, frames_of, main, replay, wire
from talk import Server, query, transfer


def queues_used(lab, name):
    """The queues of the machine's interface that received frames by XDP."""
    counts = lab.spaces["machine"].run(f"ethtool -S {name}").splitlines()
    pairs = [line.split(":") for line in counts if "_xdp_packets:" in line]
    return sum("rx_queue" in count and int(number) > 0 for count, number in pairs)


def case_queues(lab):
    """Interfaces with several queues: all are read, packets balance, and a replay agrees. Packet
    sockets share their frames."""
    for name in ("lan", "wan"):
        lab.spaces["machine"].run(f"ip link del {name}")
        lab.link(name, queues=4)
    is_shared = lab.kind == "af_packet"
    queues = "\nqueues = 4\nside" if is_shared else "\nside"
    wire(lab, TAPPED.replace("\nside", queues))
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    child = lab.start("wire.toml", *STATS, sockets=8 if is_shared else 2)
    sniffers = {name: Sniffer(lab.spaces[name], "eth0") for name in ("lan", "wan")}
    server, flows, each = Server(wan), 64, 20
    for flow in range(flows):
        with lan.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("", 20_000 + flow))
            for number in range(each):
                sender.sendto(number.to_bytes(8, "big"), ("10.9.0.2", 9))
    assert transfer(lan, "10.9.0.2", 1_000_000), "TCP"
    assert query(lan, "10.9.0.2"), "UDP"
    server.close()
    if lab.kind == "af_xdp":
        assert queues_used(lab, "lan") > 1, "the flows are on one queue"
    seen = {name: sniffer.close() for name, sniffer in sniffers.items()}
    chain, _ = lab.stop(child)
    assert chain["packets"]["read"] > flows * each, chain["packets"]
    replay(lab, chain, seen)
    orders = {}
    for frame in seen["wan"]:
        if frame[23] == 17 and frame[36:38] == b"\0\x09":
            orders.setdefault(frame[34:36], []).append(int.from_bytes(frame[42:50], "big"))
    assert len(orders) == flows, f"{len(orders)} flows"
    assert all(order == list(range(each)) for order in orders.values()), "the order of a flow"


def case_tags(lab):
    """VLAN tags arrive, though the kernel removes them from frames. Frames of the machine don't."""
    ends = 'input = "af_packet:lan"\noutput = "out.pcap"\n'
    lab.write("tags.toml", f"[chain]\nfunctions = []\n{ends}")
    child = lab.start("tags.toml", *STATS, sockets=1)
    addresses = bytes.fromhex("02000000000f020000000010")
    tags = [b"", b"\x81\x00\x60\x07", b"\x88\xa8\x00\x08\x81\x00\x00\x09"]
    sent = [addresses + tag + b"\x88\xb5" + os.urandom(60) for tag in tags]
    for space, interface, frames in (("machine", "lan", sent[:1]), ("lan", "eth0", sent)):
        with lab.spaces[space].socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind((interface, 0))
            for frame in frames:
                raw.send(frame)
    time.sleep(0.3)
    lab.stop(child)
    assert frames_of(lab.path("out.pcap")) == sent


def case_replaced(lab):
    """An interface that has another name now is neither read nor written, and one that has its
    name is, whether the former is up or down."""
    wire(lab)
    lan, wan, machine = lab.spaces["lan"], lab.spaces["wan"], lab.spaces["machine"]
    child = lab.start("wire.toml", *STATS)
    server = Server(wan)
    assert query(lan, "10.9.0.2"), "before"
    for state in ("up", "down"):
        far = f"was-{state}"
        wan.run(f"ip link set eth0 down; ip link set eth0 name {far}; ip link set {far} up")
        machine.run(f"ip link set wan down; ip link set wan name old; ip link set old {state}")
        time.sleep(0.5)
        sniffer = Sniffer(wan, far)
        assert not query(lan, "10.9.0.2", 0.3), "no interface has the name"
        server.close()
        wan.run(f"ip addr flush dev {far}")
        lab.link("wan")
        wire(lab)
        server = Server(wan)
        assert soon(lambda: query(lan, "10.9.0.2", 0.3)), f"the former interface is {state}"
        sent = [frame for frame in sniffer.close() if frame[12:14] == b"\x08\0"]
        assert not sent, "by the former interface"
        machine.run("ip link del old")
    server.close()
    lab.stop(child)


def case_written(lab):
    """An interface that is only written is the one that has the name, at any time."""
    wan, machine = lab.spaces["wan"], lab.spaces["machine"]
    traffic = "generate:packets=100000000,size=100,rate_gbps=0.001"
    ends = f'input = "{traffic}"\noutput = "af_packet:wan"\n'
    lab.write("written.toml", f"[chain]\nfunctions = []\n{ends}")
    child = lab.start("written.toml", *STATS, sockets=0)
    sent_by = lambda name: any(frame[12:14] == b"\x08\0" for frame in Sniffer(wan, name).close())
    assert soon(lambda: sent_by("eth0")), "before"
    wan.run("ip link set eth0 down; ip link set eth0 name former; ip link set former up")
    machine.run("ip link set wan down; ip link set wan name old; ip link set old up")
    lab.link("wan")
    assert soon(lambda: sent_by("eth0")), "by the interface that has the name now"
    assert not sent_by("former"), "by the former one"
    lab.stop(child)


def case_ring(lab):
    """The memory of a ring bounds the frames that wait. Others count as lost. Frames that are only
    captured wait in blocks, where they take less room."""
    for busy, mib, count, is_full in (
        ("true", 1, 1000, True),
        ("true", 8, 1000, False),
        ("false", 1, 9000, True),
        ("false", 8, 9000, False),
    ):
        ends = f'busy = {busy}\ninput = "af_packet:lan,queue_mib={mib}"\noutput = "none"\n'
        lab.write("ring.toml", f"[chain]\nfunctions = []\n{ends}")
        child = lab.start("ring.toml", *STATS, sockets=1)
        sender = lab.spaces["lan"].socket(socket.AF_PACKET, socket.SOCK_RAW)
        with sender as raw, lab.paused(child):
            raw.bind(("eth0", 0))
            for _ in range(count):
                raw.send(bytes(60))
        time.sleep(0.5)
        chain, _ = lab.stop(child)
        packets = chain["packets"]
        assert packets["read"] >= count and (packets["overload"] > 400) == is_full, packets
        assert is_full or packets["overload"] == 0, packets


def case_captured(lab):
    """A capture has each frame once, in order: one alone, many beyond the ring's memory, longer
    ones after the MTU grew, and those of an interface that was made anew."""
    capture(lab, "queue_mib=1", 1)


def case_shared(lab):
    """The same with several rings, which keep the order of each flow."""
    capture(lab, "queue_mib=4,queues=4", 31)


def capture(lab, settings, flows):
    ends = f'input = "af_packet:lan,{settings}"\noutput = "out.pcap"\n'
    lab.write("captured.toml", f"[chain]\nfunctions = []\n{ends}")
    child = lab.start("captured.toml", *STATS, sockets=4 if "queues" in settings else 1)
    lan, machine = lab.spaces["lan"], lab.spaces["machine"]
    sent = []

    def frame(length):
        """UDP of one of the flows, which takes turns."""
        number = len(sent)
        addresses = bytes.fromhex("02000000000f020000000010")
        lengths = struct.pack(">H", length - 14), struct.pack(">HH", length - 34, 0)
        ip = b"\x45\0" + lengths[0] + bytes(4) + b"\x40\x11\0\0" + bytes([10, 9, 1, 1, 10, 9, 1, 2])
        ports = struct.pack(">HH", 20_000 + number % flows, 9)
        head = addresses + b"\x08\0" + ip + ports + lengths[1] + number.to_bytes(4, "big")
        return head.ljust(length, b".")

    def send(lengths):
        """Sends frames, and waits until they are in the file."""
        with lan.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("eth0", 0))
            for length in lengths:
                sent.append(frame(length))
                raw.send(sent[-1])
        return soon(lambda: by_flow(captured()) == by_flow(sent))

    def by_flow(frames):
        found = {}
        for one in frames:
            found.setdefault(one[34:36], []).append(one)
        return found

    def captured():
        try:
            frames = frames_of(lab.path("out.pcap"))
        except struct.error:
            # The last one is not whole yet.
            return []
        return [frame for frame in frames if frame[26:29] == b"\x0a\x09\x01"]

    assert send([60]), "one alone"
    for _ in range(10):
        assert send([60 + 7 * number % 1455 for number in range(500)]), "many"
    machine.run("ip link set lan mtu 9000")
    lan.run("ip link set eth0 mtu 9000")
    time.sleep(0.5)
    assert send([9014] * 20 + [60]), "after the MTU grew"
    machine.run("ip link del lan")
    time.sleep(0.3)
    lab.link("lan")
    time.sleep(0.5)
    assert send([60, 1514]), "made anew"
    for there, back in (
        ("down", "up"),
        ("down; ip link set lan name other", "up name lan"),
    ):
        machine.run(f"ip link set lan {there}")
        time.sleep(0.3)
        other = "other" if "other" in there else "lan"
        machine.run(f"ip link set {other} {back}")
        time.sleep(0.5)
        assert send([60, 1514]), f"after {there}"
    chain, _ = lab.stop(child)
    assert chain["packets"]["overload"] == 0, chain["packets"]


def case_mtu(lab):
    """A ring gets longer slots after the MTU grew. Frames that were cut before are reported with
    this cause, and no offload."""
    wire(lab)
    child = lab.start("wire.toml", *STATS)
    lan, wan, machine = lab.spaces["lan"], lab.spaces["wan"], lab.spaces["machine"]

    def grow(mtu):
        machine.run(f"ip link set lan mtu {mtu}; ip link set wan mtu {mtu}")
        for host in (lan, wan):
            host.run(f"ip link set eth0 mtu {mtu}")

    def send(length):
        with lan.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(bytes(length), ("10.9.0.2", 9))

    # The frame is in the ring before the chain sees the MTU.
    with lab.paused(child):
        grow(3000)
        send(2500)
    time.sleep(0.5)
    sniffer, server = Sniffer(wan, "eth0"), Server(wan)
    send(2501)
    grow(9000)
    assert transfer(lan, "10.9.0.2", 1_000_000), "TCP while the ring is made anew"
    time.sleep(0.5)
    send(8900)
    assert transfer(lan, "10.9.0.2", 1_000_000), "TCP with long frames"
    server.close()
    lengths = {len(frame) for frame in sniffer.close()}
    _, errors = lab.stop(child)
    assert {2501 + 42, 8900 + 42, 9014} <= lengths and 2542 not in lengths, lengths
    for part in ("lan: the MTU grew from 1500 to 3000, and 1 frames were cut", "from 3000 to 9000"):
        assert part in errors, errors
    assert "tso" not in errors and "start the run again" not in errors, errors


if __name__ == "__main__":
    main(globals())
