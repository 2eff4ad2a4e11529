"""Random TCP conversations by a seed: handshakes, data, faults of networks, and attacks.

A conversation is a list of segments. Whether a middlebox lets one pass does not change the next.
"""

import random

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
WORD = 1 << 32
NOP, TIMESTAMPS = b"\x01", b"\x08\x0a\0\0\0\1\0\0\0\2"


class Segment:
    """One segment; `forth` is true from the client to the server."""

    def __init__(self, forth, flags, seq, ack, window, length, options):
        self.forth, self.flags, self.length = forth, flags, length
        self.seq, self.ack, self.window = seq % WORD, ack % WORD, window & 0xFFFF
        self.options = options + NOP * (-len(options) % 4)

    def text(self, passes):
        way, end = ">" if self.forth else "<", "pass" if passes else "drop"
        options = self.options.hex() or "-"
        numbers = f"{self.seq} {self.ack} {self.window} {self.length}"
        return f"{way} {self.flags:02x} {numbers} {options} {end}"


class End:
    def __init__(self, draw):
        self.seq = draw.choice([0, 1, 1000, WORD - 1, WORD - 3000, WORD // 2, draw.randrange(WORD)])
        self.first = self.seq
        self.window = draw.choice([0, 1, 500, 5000, 29200, 29200, 65535, 65535])
        self.scale = draw.choice([None, None, 0, 2, 7, 14, 15])
        self.has_sack = draw.random() < 0.5
        self.sent = []

    def syn_options(self, draw):
        options = draw.choice([b"", b"\x02\x04\x05\xb4"])
        options += b"" if self.scale is None else NOP + bytes([3, 3, self.scale])
        options += NOP * 2 + b"\x04\x02" if self.has_sack else b""
        return options


class Conversation:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.ends = [End(self.draw), End(self.draw)]
        self.segments = []
        self.has_timestamps = self.draw.random() < 0.3
        self.open()
        for _ in range(self.draw.randrange(3, 22)):
            self.step()

    def send(self, who, flags, seq=None, ack=None, length=0, options=None, window=None):
        own, other = self.ends[who], self.ends[1 - who]
        seq = own.seq if seq is None else seq
        ack = (other.seq if flags & ACK else 0) if ack is None else ack
        if options is None:
            options = NOP * 2 + TIMESTAMPS if self.has_timestamps else b""
        window = own.window if window is None else window
        self.segments.append(Segment(who == 0, flags, seq, ack, window, length, options))
        return self.segments[-1]

    def syn(self, who, flags):
        own = self.ends[who]
        length = self.draw.choice([0] * 9 + [100])
        self.send(who, flags, seq=own.first, length=length, options=own.syn_options(self.draw))
        own.seq = own.first + 1 + length

    def open(self):
        draw = self.draw
        kind = draw.random()
        if kind < 0.6:
            self.syn(0, SYN)
            if draw.random() < 0.1:
                self.syn(0, SYN)
            self.syn(1, SYN | ACK)
            if draw.random() < 0.9:
                self.send(0, ACK)
        elif kind < 0.7:
            self.syn(0, SYN)
        elif kind < 0.8:
            for who, flags in ((0, SYN), (1, SYN), (0, SYN | ACK), (1, SYN | ACK)):
                if draw.random() < 0.85:
                    self.syn(who, flags)
            for who in (0, 1):
                if draw.random() < 0.5:
                    self.send(who, ACK)
        elif kind < 0.9:
            flags = draw.choice([ACK, ACK, ACK | PSH, SYN | ACK, FIN | ACK, RST])
            self.send(0, flags, length=draw.choice([0, 10]))

    def step(self):
        draw, who = self.draw, self.draw.randrange(2)
        actions = {
            self.data: 30,
            self.acknowledge: 16,
            self.again: 6,
            self.keep_alive: 5,
            self.resize: 4,
            self.block: 5,
            self.finish: 6,
            self.reset: 8,
            self.stray_syn: 5,
            self.odd: 4,
            self.renew: 3,
        }
        action = draw.choices(list(actions), list(actions.values()))[0]
        before = len(self.segments)
        action(who)
        if draw.random() < 0.12:
            for segment in self.segments[before:]:
                self.disturb(segment)

    def data(self, who):
        own = self.ends[who]
        for _ in range(self.draw.choice([1, 1, 2, 4])):
            length = self.draw.choice([1, 100, 1000, 1400])
            segment = self.send(who, ACK | self.draw.choice([0, PSH]), length=length)
            own.sent.append((own.seq, length))
            own.seq += length
            if self.draw.random() < 0.05:
                self.segments.remove(segment)

    def acknowledge(self, who):
        other = self.ends[1 - who]
        lag = self.draw.choice([0, 0, 0, 1, 1000, 60000, 66000, 66001, 70000])
        self.send(who, ACK, ack=other.seq - lag)

    def again(self, who):
        own = self.ends[who]
        seq, length = self.draw.choice(own.sent or [(own.first, 0)])
        self.send(who, ACK, seq=seq, length=length)

    def keep_alive(self, who):
        self.send(who, ACK, seq=self.ends[who].seq - 1, length=self.draw.choice([0, 1]))

    def resize(self, who):
        self.ends[who].window = self.draw.choice([0, 0, 1, 100, 3000, 65535])
        self.send(who, ACK)

    def block(self, who):
        other = self.ends[1 - who]
        blocks = b""
        for _ in range(self.draw.choice([1, 2])):
            end = other.seq + self.draw.choice([-500, -100, 0, 500, 70000])
            blocks += b"".join((edge % WORD).to_bytes(4, "big") for edge in (end - 100, end))
        options = NOP * 2 + bytes([5, 2 + len(blocks)]) + blocks
        self.send(who, ACK, ack=other.seq - self.draw.choice([1000, 0, 70000]), options=options)

    def finish(self, who):
        own = self.ends[who]
        self.send(who, FIN | ACK | self.draw.choice([0, PSH]))
        if self.draw.random() < 0.8:
            own.seq += 1
        if self.draw.random() < 0.6:
            self.send(1 - who, ACK)

    def reset(self, who):
        own, other = self.ends[who], self.ends[1 - who]
        offsets = [0, 0, 0, 1, -1, 100, other.window, -1000, 70000, -70000, WORD // 2]
        offset = self.draw.choice(offsets)
        seq = self.draw.choice([own.seq + offset] * 6 + [0, self.draw.randrange(WORD)])
        flags = self.draw.choice([RST, RST | ACK])
        any_ack = self.draw.randrange(WORD)
        ack = self.draw.choice([other.seq, other.seq, 0, other.first + 1, any_ack])
        if not flags & ACK and self.draw.random() >= 0.1:
            ack = 0
        self.send(who, flags, seq=seq, ack=ack, options=b"")

    def stray_syn(self, who):
        own, other = self.ends[who], self.ends[1 - who]
        any_seq = self.draw.randrange(WORD)
        own.first = self.draw.choice([own.first, own.seq, own.seq + 1000, any_seq])
        flags = self.draw.choice([SYN, SYN, SYN | ACK])
        self.send(who, flags, seq=own.first, options=own.syn_options(self.draw))
        for answer in self.draw.choice([[], [SYN | ACK], [ACK], [RST | ACK], [SYN | ACK, None]]):
            if answer is None:
                own.seq = own.first + 1
                self.send(who, ACK)
            elif answer & SYN:
                self.syn(1 - who, answer)
                self.segments[-1].ack = (own.first + 1) % WORD
            else:
                ack = self.draw.choice([own.first + 1, own.seq])
                self.send(1 - who, answer, ack=ack, seq=other.seq)

    def odd(self, who):
        flags = [0, FIN, SYN | FIN, SYN | RST, PSH, URG, ACK | URG, FIN | PSH | URG, RST | URG]
        flags += [SYN | ACK | URG, FIN | ACK | URG, SYN | PSH, 0xC2, 0xD0, RST | FIN]
        self.send(who, self.draw.choice(flags + [RST | PSH | ACK]))

    def renew(self, who):
        """The same ports again."""
        own, other = self.ends[who], self.ends[1 - who]
        own.first = self.draw.choice([own.seq + 1, own.seq + 100000, self.draw.randrange(WORD)])
        other.first = self.draw.randrange(WORD)
        self.syn(who, SYN)
        self.syn(1 - who, SYN | ACK)
        self.send(who, ACK)

    def disturb(self, segment):
        offsets = [1, -1, 500, -500, 5000, 65535, -65535, 66001, -66001, 1 << 20, -(1 << 20)]
        offset = self.draw.choice(offsets + [1 << 31])
        kind = self.draw.randrange(4)
        if kind == 0:
            segment.seq = (segment.seq + offset) % WORD
        elif kind == 1 and segment.flags & ACK:
            segment.ack = (segment.ack + offset) % WORD
        elif kind == 2:
            segment.window = self.draw.choice([0, 1, 65535])
        else:
            segment.length = self.draw.choice([0, 1, 500])
