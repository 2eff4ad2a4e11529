#!/usr/bin/env python3
"""Compares Warpline as a gateway with the Linux kernel as one.

    compare.py WARPLINE [--packets N] [--seed S] [--lanes L] [--keep FOLDER]

Needs root, iproute2 and iptables. Both gateways have the same rules and get the same packets in
rounds. Each chooses its own outside ports, and packets from outside go to those. For each packet
the tool compares what left: forwarded bytes apart from the chosen port, ICMP errors, or nothing.
It counts packets by kind, and names the reason of each known difference. These are failures: a
difference without a reason, a wrong checksum from a gateway, and an inside address that leaves.
"""

import argparse
import collections
import ipaddress
import json
import os
import random
import struct
import sys
import tempfile

from gateways import Kernel, Warpline, marker, new_network
from packets import Seen, without_port
from reasons import reason
from odd import ODD
from talks import Talk
from usual import USUAL

TALKS_AT_ONCE = 150
INSIDE = ipaddress.ip_network("10.1.0.0/16")


class Comparison:
    def __init__(self, gateways, seed, keep):
        self.gateways, self.rng, self.keep = gateways, random.Random(seed), keep
        self.counts = collections.Counter()
        self.differences = collections.Counter()
        self.examples, self.leaks, self.wrong = {}, collections.Counter(), collections.Counter()
        self.number = self.ident = self.sent = 0

    def run(self, count):
        all_kinds = {**USUAL, **ODD}
        kinds, weights = list(all_kinds), list(all_kinds.values())
        talks = []
        while self.sent < count or talks:
            while self.sent < count and len(talks) < TALKS_AT_ONCE:
                talk = Talk(self.rng, [gateway.name for gateway in self.gateways])
                talks.append(self.rng.choices(kinds, weights)[0](talk))
            rounds = [(talk, next(talk, None)) for talk in talks]
            talks = [talk for talk, packets in rounds if packets is not None]
            self.round([packet for _, packets in rounds for packet in packets or []])

    def next_ident(self):
        self.ident = self.ident % 65_535 + 1
        return self.ident

    def round(self, packets):
        self.number += 1
        named = {self.next_ident(): packet for packet in packets}
        last = marker(self.number, self.next_ident())
        outcomes = [self.through(gateway, named, last) for gateway in self.gateways]
        for ident, packet in named.items():
            self.judge(packet, *(outcome[ident] for outcome in outcomes))

    def through(self, gateway, named, last):
        """The outcome of each packet at `gateway`."""
        outcomes, flat = {}, []
        for ident, packet in named.items():
            built = packet.build(packet.talk.views[gateway.name], ident)
            built = [] if built is None else built if isinstance(built, list) else [built]
            outcomes[ident] = Outcome(packet, built)
            flat += [(packet.port, one) for one in built]
        left = gateway.exchange(self.number, [*flat, ("lan", last)])
        for port, frame in left:
            self.keep_frame(gateway, port, frame)
            packet = frame[14:]
            seen = Seen(packet)
            if seen.ident == Seen(last).ident and port == "wan" and seen.dst == Seen(last).dst:
                continue
            ident = cause(seen, port, named)
            if ident is None:
                self.differences[("no packet of ours", gateway.name, f"left by {port}")] += 1
                continue
            self.look(gateway, port, seen, outcomes[ident])
            outcomes[ident].add(port, frame, seen)
        for ident, outcome in outcomes.items():
            outcome.learn(named[ident], gateway.name)
        return outcomes

    def look(self, gateway, port, seen, outcome):
        """Counts inside addresses that leave, unless outside named them, and wrong checksums."""
        if port == "wan":
            shown = [seen.src] + (
                [seen.quote().src, seen.quote().dst] if seen.is_icmp_error() else []
            )
            known = outcome.built[0] if outcome.port == "wan" else b""
            for address in map(ipaddress.ip_address, shown):
                if address in INSIDE and address.packed not in known:
                    self.leaks[(gateway.name, outcome.kind)] += 1
        came_wrong = Seen(outcome.built[0]).bad_checksums()
        for which in set(seen.bad_checksums()) - set(came_wrong):
            self.wrong[(gateway.name, which, outcome.kind)] += 1

    def judge(self, packet, linux, warpline):
        if not linux.built or not warpline.built:
            missing = "linux" if not linux.built else "warpline"
            missing = "both" if not linux.built and not warpline.built else missing
            self.counts[(packet.kind, f"not sent: its cause did not pass {missing}")] += 1
            return
        self.sent += len(warpline.built)
        one, other = linux.summary(), warpline.summary()
        if one == other:
            fields = differing(linux, warpline)
            self.counts[(packet.kind, one)] += 1
            if not fields:
                return
            one, other = one, "other " + ", ".join(fields)
        else:
            self.counts[(packet.kind, f"linux {one}, warpline {other}")] += 1
        difference = (packet.kind, one, other)
        self.differences[difference] += 1
        self.examples.setdefault(difference, (linux, warpline))

    def keep_frame(self, gateway, port, frame):
        if self.keep:
            self.keep[gateway.name, port].write(
                struct.pack("<IIII", self.number, 0, len(frame), len(frame)) + frame
            )


class Outcome:
    """The outcome of a packet in one gateway."""

    def __init__(self, packet, built):
        self.kind, self.port, self.built, self.passed, self.errors = (
            packet.kind,
            packet.port,
            built,
            [],
            [],
        )

    def add(self, port, frame, seen):
        own = Seen(self.built[0]).ident
        is_own = seen.ident == own and not (seen.is_icmp_error() and seen.quote().ident == own)
        # A packet that leaves where it came in was sent back by an outside address.
        plain = without_port(seen.bytes, "wan" if is_own and port == self.port else port)
        if is_own:
            self.passed.append((seen.offset, frame[:14], plain, seen.bytes))
        else:
            self.errors.append((frame[:14], plain, seen.bytes))

    def learn(self, packet, name):
        if not self.passed:
            return
        view, whole = packet.talk.views[name], min(self.passed)[3]
        if packet.port == "wan":
            view.got[packet.flow] = whole
        elif not Seen(whole).is_icmp_error():
            view.sent[packet.flow] = whole
            port = Seen(whole).port(0)
            if port is not None:
                view.port[packet.flow] = port

    def summary(self):
        done = []
        if self.passed:
            passed, built = len(self.passed), len(self.built)
            is_first = passed == 1 and self.passed[0][0] == 0
            some = " the first fragment" if is_first else f" {passed} of {built} fragments"
            done.append("forwards" + (some if passed != built else ""))
        done += [
            f"answers {Seen(error).payload[0]}/{Seen(error).payload[1]}"
            for _, error, _ in self.errors
        ]
        return " and ".join(done) or "drops"


def cause(seen, port, named):
    """The identification of the packet that one which left by `port` comes from."""
    if seen.is_icmp_error():
        quoted = named.get(seen.quote().ident)
        if quoted is not None and quoted.port == port:
            return seen.quote().ident
    return seen.ident if seen.ident in named else None


def differing(linux, warpline):
    """The fields in which what left differs, apart from the port that each gateway chose."""
    found = []
    for one, other in zip(sorted(linux.passed), sorted(warpline.passed)):
        found += fields("", one[1], other[1], one[2], other[2])
    for one, other in zip(linux.errors, warpline.errors):
        found += fields("error's ", one[0], other[0], one[1], other[1])
    return sorted(set(found))


def fields(prefix, link, other_link, one, other):
    a, b = Seen(one), Seen(other)
    names = ["tos", "ident", "fragment", "ttl", "src", "dst"]
    found = [] if link == other_link else [prefix + "ethernet"]
    found += [prefix + name for name in names if getattr(a, name) != getattr(b, name)]
    if a.bytes[20 : a.header_len] != b.bytes[20 : b.header_len]:
        found.append(prefix + "options")
    if not a.is_icmp_error() or not b.is_icmp_error():
        return found + ([prefix + "payload"] if a.payload != b.payload else [])
    if a.payload[4:8] != b.payload[4:8]:
        found.append(prefix + "rest of header")
    return found + quoted_fields(prefix + "quote's ", a.payload[8:], b.payload[8:])


def quoted_fields(prefix, one, other):
    found = [] if len(one) == len(other) else [prefix + "length"]
    a, b = Seen(one), Seen(other)
    names = ["tos", "ident", "fragment", "ttl", "src", "dst"]
    found += [prefix + name for name in names if getattr(a, name) != getattr(b, name)]
    if one[10:12] != other[10:12] and not found:
        found.append(prefix + "ip checksum")
    length = min(len(one), len(other))
    if one[a.header_len : length] != other[b.header_len : length]:
        found.append(prefix + "payload")
    return found


def report(comparison, stats, out):
    unexplained = 0
    print(f"{comparison.sent} packets in {comparison.number} rounds\n", file=out)
    for (kind, outcome), count in sorted(comparison.counts.items()):
        print(f"{count:8} {kind}: {outcome}", file=out)
    print("\ndifferences:", file=out)
    for (kind, one, other), count in sorted(comparison.differences.items()):
        why = reason(kind, one, other)
        unexplained += why is None
        print(f"{count:8} {kind}: linux {one}, warpline {other}: {why or 'NO REASON'}", file=out)
        if why is None and (kind, one, other) in comparison.examples:
            show(comparison.examples[kind, one, other], out)
    for title, found in (
        ("inside addresses outside", comparison.leaks),
        ("wrong checksums", comparison.wrong),
    ):
        print(f"\n{title}:", file=out)
        for key, count in sorted(found.items()):
            print(f"{count:8} {' '.join(key)}", file=out)
    print("\nwarpline's drops:", file=out)
    for function in stats["chains"][0]["functions"]:
        drops = {name: count for name, count in function["drops"].items() if count}
        print(f"  {function['name']}: {drops}", file=out)
    return unexplained


def show(example, out):
    for name, outcome in zip(("linux", "warpline"), example):
        for way, packets in (
            ("in", outcome.built),
            ("out", [one[3] for one in outcome.passed]),
            ("error", [one[2] for one in outcome.errors]),
        ):
            for packet in packets[:3]:
                print(f"           {name} {way}: {packet[:92].hex()}", file=out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("warpline")
    parser.add_argument("--packets", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--keep", help="a folder for captures of packets that left")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.warpline)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    new_network()
    keep = {}
    if arguments.keep:
        head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_600, 1)
        for name in ("linux", "warpline"):
            for port in ("lan", "wan"):
                keep[name, port] = open(f"{arguments.keep}/{name}-{port}.pcap", "wb")
                keep[name, port].write(head)
    with tempfile.TemporaryDirectory() as folder:
        kernel, warpline = Kernel(), Warpline(program, folder, arguments.lanes)
        try:
            comparison = Comparison([kernel, warpline], arguments.seed, keep)
            comparison.run(arguments.packets)
        finally:
            kernel.close()
            warpline.close()
        with open(f"{folder}/stats.json") as file:
            stats = json.load(file)
    for file in keep.values():
        file.close()
    print(f"seed {arguments.seed}, ", end="")
    unexplained = report(comparison, stats, sys.stdout)
    leaks = sum(count for (name, _), count in comparison.leaks.items() if name == "warpline")
    wrong = sum(count for (name, *_), count in comparison.wrong.items() if name == "warpline")
    if unexplained or leaks or wrong:
        sys.exit(
            f"{unexplained} differences without a reason, {leaks} inside addresses, "
            f"{wrong} wrong checksums"
        )


if __name__ == "__main__":
    main()
