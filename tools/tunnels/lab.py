"""Network namespaces of one run, their interfaces and addresses; all of it goes when the run ends.

Two ends, `near` and `far`, each with an outer and an inner address of both IP versions, and between
them a wire namespace in which the bridge runs. Nothing of the host's own network is touched.
"""

import os
import signal
import subprocess
import sys

ROUTER_MAC = "02:00:00:00:00:fe"
# Bytes of the longest packet that a host sends that doesn't know what ESP will add.
HOST_MTU = 1400
PAIR_MTU = 9000


class End:
    """The addresses of one end."""

    def __init__(self, name, number):
        self.name = name
        self.mac = f"02:00:00:00:00:0{number}"
        self.outer = {4: f"10.99.{number}.2", 6: f"fd99:{number}::2"}
        self.inner = {4: f"10.99.1{number}.1", 6: f"fd99:1{number}::1"}
        self.gateway = {4: f"10.99.{number}.1", 6: f"fd99:{number}::1"}

    def setup(self, device, mtu=1500):
        """Commands that give a Linux these addresses; no neighbour is ever asked for. It sends
        no packet over `mtu`.
        """
        yield "ip link set lo up"
        yield f"ip link set {device} up"
        for version, outer_len, host_len in ((4, 24, 32), (6, 64, 128)):
            nodad = "nodad" if version == 6 else ""
            yield f"ip addr add {self.outer[version]}/{outer_len} dev {device} {nodad}"
            yield f"ip addr add {self.inner[version]}/{host_len} dev lo {nodad}"
            gateway = self.gateway[version]
            yield f"ip neigh replace {gateway} lladdr {ROUTER_MAC} dev {device} nud permanent"
            yield f"ip -{version} route add default via {gateway} dev {device} mtu {mtu}"

    def routes(self):
        """Packets that the bridge sends to this end."""
        for address in [*self.outer.values(), *self.inner.values()]:
            yield f"{address}={self.name},{self.mac}"


NEAR, FAR = End("near", 1), End("far", 2)


def call(command, **options):
    return subprocess.run(
        command, shell=True, check=True, text=True, capture_output=True, **options
    )


def end_orderly():
    """Signals unwind what runs, so that what was started ends and namespaces go."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


class Namespaces:
    """Namespaces with names of this process; a context manager."""

    def __init__(self, *names):
        self.names = {name: f"wl{os.getpid()}-{name}" for name in names}

    def __enter__(self):
        for name in self.names.values():
            call(f"ip netns add {name}")
        return self

    def __exit__(self, *_):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def __getitem__(self, name):
        return self.names[name]

    def run(self, name, command, timeout=60):
        return call(f"ip netns exec {self.names[name]} {command}", timeout=timeout)

    def try_run(self, name, command, timeout=60):
        done = subprocess.run(
            f"ip netns exec {self.names[name]} {command}",
            shell=True,
            text=True,
            capture_output=True,
            timeout=timeout,
        )
        return done.returncode, done.stdout + done.stderr

    def quiet(self, name):
        """Nothing in the namespace speaks IPv6 by itself."""
        for which in ("all", "default"):
            path = f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6"
            self.run(name, f"sh -c 'echo 1 >{path}'")

    def add_tap(self, name, device):
        self.run(name, f"ip tuntap add {device} mode tap")
        self.run(name, f"ip link set {device} up")

    def add_veth(self, name, device, peer, peer_device, mac):
        """A pair whose ends send what would be on a wire: whole checksums, no large segments.
        Routes have the MTU of what hosts send; the pair takes more, as what was fragmented
        around ESP comes out of it whole."""
        call(
            f"ip -n {self[name]} link add {device} type veth"
            f" peer name {peer_device} netns {self[peer]} address {mac}"
        )
        for namespace, end in ((name, device), (peer, peer_device)):
            self.run(namespace, f"ethtool -K {end} tx off tso off gso off gro off")
            self.run(namespace, f"ip link set {end} mtu {PAIR_MTU} up")
