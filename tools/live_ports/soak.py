#!/usr/bin/env python3
"""A firewall, a sensor and a flow monitor under traffic, with reloads and rotation: memory and
descriptors stay flat, and no packet is unaccounted for.

    soak.py WARPLINE SECONDS
"""

import itertools
import os
import random
import signal
import socket
import statistics
import sys
import threading
import time

from lab import Lab
from live import STATS, wire
from operation import ALERT, SENSOR, ended
from service import ctl, memory_of
from talk import Server, query, transfer

MONITOR = '[flow_monitor]\ncsv = "flows.csv"\nidle_s = 5\n\n[firewall]'
CHAIN = SENSOR.replace('"nids"]', '"nids", "flow_monitor"]').replace("[firewall]", MONITOR)
# Memory must not grow after this share of the time, nor before these seconds: timeouts fill tables.
WARM, WARM_S = 0.4, 24
# Kilobytes that it may grow from one reload to the next, by the median: a leak grows each time, a
# queue that fills once under load does not. And in total.
GROWTH, TOTAL = 512, 8192
# Between reloads: the median needs many.
PAUSE_S = 0.3


def talk(lan, ends, seed):
    """New flows of all kinds, one after the other."""
    choose = random.Random(seed)
    while not ends.is_set():
        try:
            kind = choose.randrange(4)
            if kind == 0:
                query(lan, "10.9.0.2", 0.5)
            elif kind == 1:
                transfer(lan, "10.9.0.2", choose.randrange(1, 200_000))
            else:
                with lan.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    for _ in range(choose.randrange(1, 200)):
                        sender.sendto(bytes(choose.randrange(4, 12)), ("10.9.0.2", 9))
        except OSError:
            pass
        time.sleep(0.002)


def disturb(lab, child, number):
    """A reload of other rules, and a rotation."""
    other = f"accept from 10.{number % 256}.0.1 to any\n"
    lab.write("wire.rules", "accept from 10.9.0.1 to any\n" + other)
    child.send_signal(signal.SIGHUP)
    for name in ("alerts.json", "flows.csv"):
        os.replace(lab.path(name), lab.path(f"{name}.1"))
    child.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    ctl(lab, "stats")


def soak(lab, seconds):
    wire(lab, CHAIN)
    lab.write("udp.rules", ALERT)
    child = lab.start("wire.toml", *STATS, "--alerts", "alerts.json", "--socket", "ctl.sock")
    server, ends, seed = Server(lab.spaces["wan"]), threading.Event(), time.time_ns()
    print(f"seed {seed}", flush=True)
    talkers = [
        threading.Thread(target=talk, args=(lab.spaces["lan"], ends, seed + number))
        for number in range(4)
    ]
    for talker in talkers:
        talker.start()
    started, sizes = time.monotonic(), []
    while (elapsed := time.monotonic() - started) < seconds:
        disturb(lab, child, len(sizes))
        sizes.append((elapsed, *memory_of(child.pid)))
        time.sleep(PAUSE_S)
    ends.set()
    for talker in talkers:
        talker.join()
    server.close()
    alerts, outputs, _ = ended(lab, child)
    warm = max(WARM * seconds, WARM_S)
    late = [size for size in sizes if size[0] >= warm]
    for at, size, files in (sizes[0], late[0], sizes[-1]):
        print(f"after {at:.0f} s: {size} kB in memory, {files} descriptors")
    print(f"{alerts} alerts, {len(sizes)} reloads and rotations, outputs {outputs}")
    growth = statistics.median(b[1] - a[1] for a, b in itertools.pairwise(late))
    assert growth <= GROWTH and max(size for _, size, _ in late) <= late[0][1] + TOTAL, late
    # A client may be connected.
    assert max(files for *_, files in late) <= late[0][2] + 2, late
    assert all(output["lost"] == 0 for output in outputs), outputs


if __name__ == "__main__":
    with Lab(os.path.abspath(sys.argv[1])) as laboratory:
        soak(laboratory, float(sys.argv[2]))
