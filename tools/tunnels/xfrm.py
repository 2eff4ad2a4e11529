"""Security associations and policies as `ip xfrm` takes them, for each transform, mode and IP
version.
"""

import itertools

KEY = "".join(f"{byte:02x}" for byte in range(0x11, 0x11 + 64))


def secret(length, seed):
    """A key of `length` bytes that depends on `seed`."""
    return "0x" + (KEY[2 * seed :] + KEY)[: 2 * length]


def transforms():
    """Names, and the arguments of `ip xfrm state add` for a seed."""
    sha1 = lambda seed: f"auth-trunc 'hmac(sha1)' {secret(20, seed)} 96"
    sha256 = lambda seed: f"auth-trunc 'hmac(sha256)' {secret(32, seed)} 128"
    enc = lambda name, length: lambda seed: f"enc '{name}' {secret(length, seed + 5)}"
    null = lambda seed: "enc 'ecb(cipher_null)' ''"
    aead = lambda length: lambda seed: f"aead 'rfc4106(gcm(aes))' {secret(length + 4, seed)} 128"
    both = lambda cipher, auth: lambda seed: f"{auth(seed)} {cipher(seed)}"
    return {
        "null-sha1": both(null, sha1),
        "cbc128-sha1": both(enc("cbc(aes)", 16), sha1),
        "cbc192-sha256": both(enc("cbc(aes)", 24), sha256),
        "cbc256-sha256": both(enc("cbc(aes)", 32), sha256),
        "ctr128-sha1": both(enc("rfc3686(ctr(aes))", 20), sha1),
        "ctr256-sha256": both(enc("rfc3686(ctr(aes))", 36), sha256),
        "gcm128": aead(16),
        "gcm192": aead(24),
        "gcm256": aead(32),
    }


class Case:
    """One pair of SAs: what they do, the commands that set them up, and what happens (`TRIALS`)."""

    def __init__(self, transform, mode, outer, inner, esn=False, encap=False, trial=None):
        self.transform, self.mode, self.outer, self.inner = transform, mode, outer, inner
        self.esn, self.encap, self.trial = esn, encap, trial

    def __str__(self):
        marks = (
            " esn" * self.esn + " in UDP" * self.encap + (f", {self.trial}" if self.trial else "")
        )
        carried = f"v{self.inner} in v{self.outer}" if self.mode == "tunnel" else f"v{self.outer}"
        return f"{self.transform} {self.mode} {carried}{marks}"

    def protected(self, end):
        """The address of an end whose packets are protected."""
        return end.inner[self.inner] if self.mode == "tunnel" else end.outer[self.outer]

    def states(self, near, far, spoil=False, generation=0):
        """`ip xfrm state add` from near to far and back, the same for both ends. 64-bit numbers
        start so that their low half wraps. Every generation has SPIs and keys of its own."""
        for spi, source, sink, seed in ((0x1001, near, far, 1), (0x2001, far, near, 9)):
            spi, seed = spi + generation, seed + 3 * generation
            keys = transforms()[self.transform](seed + (1 if spoil else 0))
            flags = ["af-unspec"] * (self.mode == "tunnel") + ["esn"] * self.esn
            flag = f"flag {' flag '.join(flags)}" if flags else ""
            encap = "encap espinudp 4500 4500 0.0.0.0" * self.encap
            start = "replay-seq 0xfffffff8 replay-oseq 0xfffffff8" if self.esn else ""
            yield (
                f"ip xfrm state add src {source.outer[self.outer]} dst {sink.outer[self.outer]}"
                f" proto esp spi {spi:#x}"
                f" reqid 1 mode {self.mode} replay-window 128 {flag} {start} {keys} {encap}"
            )

    def deletes(self, near, far):
        """`ip xfrm state delete` of the first generation, from near to far and back."""
        for spi, source, sink in ((0x1001, near, far), (0x2001, far, near)):
            ends = f"src {source.outer[self.outer]} dst {sink.outer[self.outer]}"
            yield f"ip xfrm state delete {ends} proto esp spi {spi:#x}"

    def policies(self, own, other):
        """`ip xfrm policy` commands of the end `own`."""
        directions = [("out", own, other), ("in", other, own)]
        if self.mode == "tunnel":
            directions.append(("fwd", other, own))
        for direction, source, sink in directions:
            ends = (
                f"src {source.outer[self.outer]} dst {sink.outer[self.outer]}"
                if self.mode == "tunnel"
                else ""
            )
            yield (
                f"ip xfrm policy add src {self.protected(source)} dst {self.protected(sink)}"
                f" dir {direction}"
                f" priority 100 tmpl {ends} proto esp reqid 1 mode {self.mode}"
            )
        if self.encap and self.mode == "transport":
            # The UDP around ESP is between the same two hosts, and comes without ESP of its own.
            yield (
                f"ip xfrm policy add src {self.protected(other)} dst {self.protected(own)}"
                " proto udp sport 4500 dport 4500"
                " dir in priority 1"
            )


CLEAR = "ip xfrm state flush; ip xfrm policy flush"


def cases(is_all):
    """Every transform with every mode and IP version; each with 64-bit numbers and without, or
    in turn.
    """
    ways = [
        ("tunnel", 4, 4),
        ("tunnel", 6, 6),
        ("tunnel", 4, 6),
        ("tunnel", 6, 4),
        ("transport", 4, 4),
        ("transport", 6, 6),
    ]
    for number, (transform, way) in enumerate(itertools.product(transforms(), ways)):
        row = number // len(ways)
        for esn in (False, True) if is_all else ((number + row) % 2 == 1,):
            yield Case(transform, *way, esn)


# Events besides plain traffic: the far end has other keys; what the near end sends comes
# twice; both SAs are replaced while packets flow; the far end stops and starts.
TRIALS = ANOTHER_KEY, TWICE, REKEY, RESTART = (
    "another key",
    "all comes twice",
    "rekey while pings run",
    "restarted",
)


def more_cases():
    """Trials, and UDP encapsulation."""
    yield Case("cbc128-sha1", "tunnel", 4, 4, trial=ANOTHER_KEY)
    yield Case("gcm128", "transport", 6, 6, trial=ANOTHER_KEY)
    for trial in (TWICE, REKEY):
        yield Case("cbc256-sha256", "transport", 6, 6, trial=trial)
        yield Case("gcm128", "tunnel", 4, 4, trial=trial)
        yield Case("ctr128-sha1", "tunnel", 6, 4, esn=True, trial=trial)
    yield Case("gcm256", "tunnel", 4, 4, trial=RESTART)
    yield Case("ctr256-sha256", "transport", 4, 4, trial=RESTART)
    yield Case("cbc128-sha1", "tunnel", 4, 4, encap=True)
    yield Case("gcm128", "tunnel", 4, 6, esn=True, encap=True)
    yield Case("cbc256-sha256", "transport", 4, 4, encap=True)
    yield Case("ctr128-sha1", "tunnel", 6, 6, encap=True)
    yield Case("gcm256", "transport", 6, 6, encap=True)
    yield Case("null-sha1", "tunnel", 4, 4, encap=True, trial=TWICE)
