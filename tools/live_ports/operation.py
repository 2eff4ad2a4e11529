#!/usr/bin/env python3
"""Warpline on network interfaces for a long time: stalled readers, full disks, renamed files.

    operation.py WARPLINE [CASE...]
"""

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

from lab import LIBC, soon
from live import STATS, WIRE, frames_of, main, wire
from talk import Server, query

CLONE_NEWNS = 0x00020000
SENSOR = WIRE.replace('functions = ["firewall"]', 'functions = ["firewall", "nids"]').replace(
    "[firewall]", '[nids]\nrules = "udp.rules"\n\n[firewall]'
)
ALERT = 'alert udp any any -> any 9 (msg:"discard"; dsize:8; sid:1;)\n'


def sensor(lab):
    wire(lab, SENSOR)
    lab.write("udp.rules", ALERT)


def discard(lan, count, pause_every=0, until=None):
    """Sends `count` numbered packets that each cause an alert, or fewer until an event."""
    with lan.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(count):
            if until and until.is_set():
                return
            try:
                sender.sendto(number.to_bytes(8, "big"), ("10.9.0.2", 9))
            except ConnectionRefusedError:
                pass
            if pause_every and number % pause_every == 0:
                time.sleep(0.001)


def alerts_in(text):
    """How many whole alerts `text` has; it may have nothing else."""
    lines = text.splitlines(keepends=True)
    assert all(line.endswith("\n") and json.loads(line)["alert"] for line in lines), "a torn line"
    return len(lines)


def ended(lab, child):
    """Ends Warpline. Returns its alerts, the counts of its outputs, and its messages."""
    chain, errors = lab.stop(child)
    with open(lab.path("stats.json"), encoding="utf-8") as file:
        outputs = json.load(file)["outputs"]
    nids = next(one for one in chain["functions"] if one["name"] == "nids")
    return nids["counters"]["alerts"], outputs, errors


def alerts_now(lab):
    """The alerts of a program that runs with the socket `ctl.sock`."""
    command = [lab.program, "ctl", "--socket", lab.path("ctl.sock"), "functions", "--json"]
    reported = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    functions = reported["chains"][0]["functions"]
    return next(one["counters"]["alerts"] for one in functions if one["name"] == "nids")


def read_all(reader, parts):
    with os.fdopen(reader, "rb") as file:
        while part := file.read(1 << 16):
            parts.append(part)


def case_stalled(lab):
    """A reader of alerts that reads nothing stops no traffic, and gets later alerts."""
    sensor(lab)
    os.mkfifo(lab.path("pipe"))
    reader = os.open(lab.path("pipe"), os.O_RDONLY | os.O_NONBLOCK)
    child = lab.start("wire.toml", *STATS, "--alerts", "pipe")
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    server = Server(wan)
    # More alerts than pipe and queue have room for.
    for _ in range(8):
        discard(lan, 5_000, pause_every=100)
        assert soon(lambda: query(lan, "10.9.0.2", 0.5)), "traffic continues"
    os.set_blocking(reader, True)
    read = []
    reading = threading.Thread(target=read_all, args=(reader, read))
    reading.start()
    assert soon(lambda: len(read) > 0)
    time.sleep(2.5)
    discard(lan, 10)
    alerts, [output], errors = ended(lab, child)
    reading.join(timeout=20)
    server.close()
    assert alerts_in(b"".join(read).decode()) == output["written"], output
    assert output["lost"] > 1_000, output
    assert output["written"] + output["lost"] == alerts, (output, alerts)
    assert "pipe loses records: its reader is too slow" in errors, errors
    assert "pipe is written again" in errors, errors


def case_absent(lab):
    """A pipe without a reader delays neither the start nor traffic."""
    sensor(lab)
    os.mkfifo(lab.path("pipe"))
    child = lab.start("wire.toml", *STATS, "--alerts", "pipe")
    lan = lab.spaces["lan"]
    server = Server(lab.spaces["wan"])
    discard(lan, 10)
    assert soon(lambda: query(lan, "10.9.0.2", 0.5)), "traffic continues"
    server.close()
    alerts, [output], _ = ended(lab, child)
    assert (output["written"], output["lost"]) == (0, alerts) == (0, 10), output


def long_frames(lan, count):
    """Sends numbered packets of 1400 bytes."""
    with lan.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(count):
            try:
                sender.sendto(number.to_bytes(4, "big") + bytes(1396), ("10.9.0.2", 9))
            except ConnectionRefusedError:
                pass
            if number % 20 == 0:
                time.sleep(0.001)


def some_of(reader, least=1):
    """Reads from a pipe until it is empty, at least `least` bytes."""
    read = b""

    def is_empty():
        nonlocal read
        try:
            while part := os.read(reader, 1 << 20):
                read += part
            return False
        except BlockingIOError:
            return len(read) >= least

    assert soon(is_empty), len(read)
    return read


def save(lab, data):
    with open(lab.path("read.pcap"), "wb") as file:
        file.write(data)
    return frames_of(lab.path("read.pcap"))


def case_pipes(lab):
    """A capture to a pipe whose reader is late, stalls, leaves and returns stops no traffic."""
    wire(lab, WIRE.replace("[firewall]", 'tap = "tap.pcap"\n\n[firewall]', 1))
    os.mkfifo(lab.path("tap.pcap"))
    child = lab.start("wire.toml", *STATS)
    lan = lab.spaces["lan"]
    server = Server(lab.spaces["wan"])
    reaches = lambda: query(lan, "10.9.0.2", 0.5)
    assert soon(reaches), "without a reader"
    reader = os.open(lab.path("tap.pcap"), os.O_RDONLY | os.O_NONBLOCK)
    time.sleep(1.3)
    for _ in range(4):
        long_frames(lan, 2_000)
        assert reaches(), "while the reader stalls"
    assert len(save(lab, some_of(reader, 1 << 20))) > 500
    os.close(reader)
    for _ in range(3):
        assert soon(reaches), "after the reader left"
        time.sleep(0.2)
    reader = os.open(lab.path("tap.pcap"), os.O_RDONLY | os.O_NONBLOCK)
    time.sleep(1.3)
    assert reaches(), "with a new reader"
    assert save(lab, some_of(reader)), "the new reader gets a whole capture"
    server.close()
    _, errors = lab.stop(child)
    os.close(reader)
    for why in ("it has no reader", "its reader is too slow", "its reader left"):
        assert f"tap.pcap loses packets: {why}" in errors, (why, errors)
    assert "tap.pcap is written again" in errors, errors


def case_output(lab):
    """The reader of a port's capture leaves and returns: the run continues, and all is counted."""
    wire(lab, WIRE + 'output = "out.pcap"\n')
    os.mkfifo(lab.path("out.pcap"))
    reader = os.open(lab.path("out.pcap"), os.O_RDONLY | os.O_NONBLOCK)
    child = lab.start("wire.toml", *STATS)
    lan = lab.spaces["lan"]
    discard(lan, 200, pause_every=1)
    seen = len(save(lab, some_of(reader, 200 * 66)))
    os.close(reader)
    discard(lan, 200, pause_every=1)
    reader = os.open(lab.path("out.pcap"), os.O_RDONLY | os.O_NONBLOCK)
    time.sleep(1.3)
    discard(lan, 200, pause_every=1)
    seen += len(save(lab, some_of(reader, 200 * 66)))
    chain, errors = lab.stop(child)
    os.close(reader)
    packets = chain["packets"]
    assert packets["unwritten"] >= 200, packets
    of_port = next(port for port in chain["ports"] if port["name"] == "wan")
    assert packets["sent"] == seen == of_port["packets"]["sent"], (seen, packets, of_port)
    assert "out.pcap loses packets: its reader left" in errors, errors


def fill(lab, ballast):
    own = '"nids", "flow_monitor"]\ntap = "disk/tap.pcap"'
    monitor = '[flow_monitor]\ncsv = "disk/flows.csv"\nidle_s = 1\n\n[firewall]'
    lab.write("wire.toml", SENSOR.replace('"nids"]', own).replace("[firewall]", monitor))
    child = lab.start("wire.toml", *STATS, "--alerts", "disk/alerts.json")
    lan = lab.spaces["lan"]
    server = Server(lab.spaces["wan"])
    with open(ballast, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    for _ in range(8):
        discard(lan, 5_000, pause_every=100)
        assert soon(lambda: query(lan, "10.9.0.2", 0.5)), "traffic continues"
    os.remove(ballast)
    path = lab.path("disk/alerts.json")
    before = os.path.getsize(path)
    assert soon(lambda: os.path.getsize(path) > before + (4 << 20), 8), "alerts are written again"
    # A capture that failed is tried again after a second.
    time.sleep(1.2)
    discard(lan, 10)
    time.sleep(0.3)
    server.close()
    alerts, outputs, errors = ended(lab, child)
    parts = sorted(name for name in os.listdir(lab.path("disk")) if name.startswith("tap"))
    taken = [len(frames_of(lab.path(f"disk/{part}"))) for part in parts]
    assert parts[-1] == "tap.pcap" and taken[-1] >= 10 and all(taken), (parts, taken)
    left_out = re.search(r"tap: (\d+) frames were left out: the capture can't be", errors)
    assert left_out, errors
    with open(lab.path("stats.json"), encoding="utf-8") as file:
        ports = json.load(file)["chains"][0]["ports"]
    read = sum(port["packets"]["read"] - port["packets"]["overload"] for port in ports)
    assert sum(taken) + int(left_out[1]) == read, (taken, left_out[0], read)
    assert "disk/tap.pcap loses packets: no space left on device" in errors, errors
    assert "disk/tap.pcap is written again" in errors, errors
    with open(path, encoding="utf-8") as file:
        whole = alerts_in(file.read())
    with open(lab.path("disk/flows.csv"), encoding="utf-8") as file:
        rows = file.readlines()
    counts = {os.path.basename(output["name"]): output for output in outputs}
    of_alerts, of_flows = counts["alerts.json"], counts["flows.csv"]
    assert whole == of_alerts["written"] and of_alerts["lost"] > 1_000, of_alerts
    assert of_alerts["written"] + of_alerts["lost"] == alerts, (of_alerts, alerts)
    assert len(rows) == of_flows["written"] > 8 and of_flows["lost"] == 0, of_flows
    assert len({row.count(",") for row in rows}) == 1, "a torn row"
    assert "disk/alerts.json loses records: no space left on device" in errors, errors


def case_disk(lab):
    """A full disk stops no traffic. Alerts and records are written again when it has room."""
    sensor(lab)
    assert LIBC.unshare(CLONE_NEWNS) == 0, ctypes.get_errno()
    disk, ballast = lab.path("disk"), lab.path("disk/ballast")
    os.mkdir(disk)
    mount = "mount --make-rprivate / && mount -t tmpfs -o size=24m tmpfs"
    subprocess.run(f"{mount} {disk}", shell=True, check=True)
    try:
        fill(lab, ballast)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def case_rotate(lab):
    """Files that are renamed are made anew at SIGUSR1; no line is lost or torn."""
    sensor(lab)
    child = lab.start("wire.toml", *STATS, "--alerts", "alerts.json")
    enough = threading.Event()
    arguments = (lab.spaces["lan"], 200_000, 50, enough)
    sending = threading.Thread(target=discard, args=arguments)
    sending.start()
    names = ["alerts.json"]
    size = lambda: os.path.exists(lab.path(names[0])) and os.path.getsize(lab.path(names[0]))
    for number in range(1, 6):
        assert soon(size), "alerts in a new file"
        names.append(f"alerts.json.{number}")
        os.rename(lab.path("alerts.json"), lab.path(names[-1]))
        child.send_signal(signal.SIGUSR1)
    enough.set()
    sending.join()
    time.sleep(0.2)
    alerts, [output], _ = ended(lab, child)
    texts = []
    for name in [*names[1:], names[0]]:
        with open(lab.path(name), encoding="utf-8") as file:
            texts.append(file.read())
        alerts_in(texts[-1])
    numbers = [json.loads(line)["pcap_cnt"] for line in "".join(texts).splitlines()]
    assert all(texts[:-1]), names
    assert numbers == sorted(set(numbers)) and len(numbers) == alerts == output["written"], output
    assert output["lost"] == 0, output


def case_sockets(lab):
    """Alerts reach a socket that is made later, and one that is made again."""
    sensor(lab)
    child = lab.start("wire.toml", *STATS, "--alerts", "unix:alerts.sock", "--socket", "ctl.sock")
    lan = lab.spaces["lan"]
    discard(lan, 100)
    texts = []
    for _ in range(2):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(lab.path("alerts.sock"))
            listener.listen()
            listener.settimeout(10)
            stream, _ = listener.accept()
        os.remove(lab.path("alerts.sock"))
        stream.settimeout(10)
        with stream, stream.makefile("r") as lines:
            texts.append([next(lines) for _ in range(100)])
        discard(lan, 100)
    # Frames that are in the port's ring at the end are not read.
    assert soon(lambda: alerts_now(lab) == 300), "alerts of the last packets"
    alerts, [output], errors = ended(lab, child)
    assert [alerts_in("".join(text)) for text in texts] == [100, 100]
    assert (alerts, output["written"], output["lost"]) == (300, 200, 100), (alerts, output)
    assert "wrote 200" in errors, errors


if __name__ == "__main__":
    main(globals())
