#!/usr/bin/env python3
"""Warpline as a service on network interfaces: rights, notices, restarts, reloads, many ports.

    service.py WARPLINE [CASE...]
"""

import json
import os
import pwd
import signal
import socket
import subprocess
import threading
import time

from lab import MACS, Namespace, soon
from live import STATS, gateway, main, wire
from operation import SENSOR, sensor
from talk import Server, query

NONSENSE = (b"", b"GET /v1/stats HTTP/1.1\r\n", os.urandom(512), b"A" * 65536)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def filters_of(status):
    """System call filters; kernels before 5.11 show no count."""
    return int(status.get("Seccomp_filters", status["Seccomp"] == "2"))


def case_user(lab):
    """Without any right that it had at the start, it reloads, rotates, and serves interfaces."""
    sensor(lab)
    daemon = pwd.getpwnam("daemon")
    os.chown(lab.folder.name, daemon.pw_uid, daemon.pw_gid)
    child = lab.start(
        "wire.toml", *STATS, "--user", "daemon", "--alerts", "alerts.json", "--socket", "ctl.sock"
    )
    threads = os.listdir(f"/proc/{child.pid}/task")
    for status in map(status_of, (f"{child.pid}/task/{thread}" for thread in threads)):
        assert status["Uid"].split() == [str(daemon.pw_uid)] * 4, status["Uid"]
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status
        assert filters_of(status) == filters_of(status_of("self")) + 1, status
    assert status_of(child.pid)["NoNewPrivs"] == "1"
    assert os.stat(lab.path("alerts.json")).st_uid == daemon.pw_uid
    lan, machine = lab.spaces["lan"], lab.spaces["machine"]
    server = Server(lab.spaces["wan"])
    assert soon(lambda: query(lan, "10.9.0.2", 0.5)), "traffic"
    machine.run("ip link del wan")
    time.sleep(0.3)
    server.close()
    lab.link("wan")
    wire(lab, SENSOR)
    server = Server(lab.spaces["wan"])
    assert soon(lambda: query(lan, "10.9.0.2", 0.3)), "an interface that returns"
    lab.write("wire.rules", "drop from any to any\n")
    messages = ctl(lab, "reload")
    assert "firewall" in messages, messages
    assert not query(lan, "10.9.0.2", 0.3), "the new rules hold"
    os.rename(lab.path("alerts.json"), lab.path("alerts.1"))
    child.send_signal(signal.SIGUSR1)
    assert soon(lambda: os.path.exists(lab.path("alerts.json"))), "a new file"
    server.close()
    lab.stop(child)
    child = lab.start("wire.toml", *STATS, "--set", "process.system_call_filter=false")
    assert filters_of(status_of(child.pid)) == filters_of(status_of("self"))
    lab.stop(child)
    wait_for_no_reader(lab)
    messages = lab.refused("wire.toml", "--user", "no-such-user")
    assert "no-such-user" in messages and "useradd" in messages, messages
    without = ("setpriv", "--bounding-set=-setuid")
    messages = lab.refused("wire.toml", "--user", "daemon", prefix=without)
    assert "CAP_SETUID" in messages, messages


def wait_for_no_reader(lab):
    """A pipe of records without a reader delays neither the start nor packets."""
    sensor(lab)
    os.mkfifo(lab.path("flows.csv"))
    os.chmod(lab.path("flows.csv"), 0o666)
    monitor = '[flow_monitor]\ncsv = "flows.csv"\n\n[firewall]'
    chain = SENSOR.replace('"nids"]', '"nids", "flow_monitor"]').replace("[firewall]", monitor)
    lab.write("piped.toml", chain)
    child = lab.start("piped.toml", *STATS, "--user", "daemon")
    server = Server(lab.spaces["wan"])
    assert soon(lambda: query(lab.spaces["lan"], "10.9.0.2", 0.5)), "traffic"
    server.close()
    _, messages = lab.stop(child)
    assert "reload" not in messages, messages


def ctl(lab, *request):
    command = [lab.program, "ctl", *request, "--socket", "ctl.sock"]
    done = subprocess.run(
        command, cwd=lab.folder.name, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def case_traces(lab):
    """`ctl trace` shows the way of packets through a gateway while they pass."""
    gateway(lab)
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    child = lab.start("gateway.toml", *STATS, "--socket", "ctl.sock")
    server, ends = Server(wan), threading.Event()

    def talk():
        while not ends.is_set():
            query(lan, "203.0.113.9", 0.2)
            query(wan, "203.0.113.1", 0.05)

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        for filters, came, left, changed in (
            ("udp and src host 10.1.0.9", "lan", "wan", "src-addr"),
            ("udp and src port 53 and dst host 203.0.113.1", "wan", "lan", "dst-addr"),
            ("udp and dst port 53 and dst host 203.0.113.1", "wan", None, None),
        ):
            trace = json.loads(ctl(lab, "trace", filters, "--count", "3", "--json"))
            for packet in trace["chains"][0]["packets"]:
                way = packet["ways"][0]
                assert (packet["port"], way["port"]) == (came, left), packet
                assert (way["end"] == "sent") == (left is not None), packet
                changes = [one["field"] for hop in way["hops"] for one in hop["changes"]]
                assert changed is None or changed in changes, packet
                assert left is None or way["hops"][-1]["next_hop"], packet
    finally:
        ends.set()
        talker.join()
        server.close()
    lab.stop(child)


def case_notices(lab):
    """The service manager hears of the start, a reload, the end, and every second of life."""
    wire(lab)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(lab.path("notify"))
        manager.settimeout(10)
        os.environ.update(NOTIFY_SOCKET=lab.path("notify"), WATCHDOG_USEC="1000000")
        try:
            child = lab.start("wire.toml", *STATS)
        finally:
            del os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"]
        heard = [manager.recv(4096).decode().split("\n")[0] for _ in range(5)]
        # A slow start gives a sign of life before it is ready.
        assert "READY=1" in heard[:2] and heard.count("WATCHDOG=1") == 4, heard
        child.send_signal(signal.SIGHUP)
        heard = [manager.recv(4096).decode() for _ in range(6)]
        begins = "RELOADING=1\nMONOTONIC_USEC="
        begun = next(at for at, text in enumerate(heard) if text.startswith(begins))
        assert any(text.startswith("READY=1") for text in heard[begun:]), heard
        # A process that hangs gives no signs of life.
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        manager.setblocking(False)
        while True:
            try:
                manager.recv(4096)
            except BlockingIOError:
                break
        manager.settimeout(1)
        try:
            raise AssertionError(manager.recv(4096))
        except TimeoutError:
            pass
        child.send_signal(signal.SIGCONT)
        manager.settimeout(10)
        assert manager.recv(4096).startswith(b"WATCHDOG=1")
        lab.stop(child)
        heard = []
        manager.setblocking(False)
        try:
            while True:
                heard.append(manager.recv(4096).decode())
        except BlockingIOError:
            assert any(text.startswith("STOPPING=1") for text in heard), heard


def memory_of(pid):
    """Kilobytes in memory, and descriptors."""
    return int(status_of(pid)["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd"))


def case_restart(lab):
    """After kill -9 the next process has the same ports and socket at once."""
    wire(lab)
    lan = lab.spaces["lan"]
    server = Server(lab.spaces["wan"])
    for _ in range(3):
        child = lab.start("wire.toml", "--socket", "ctl.sock")
        assert child.poll() is None and soon(lambda: query(lan, "10.9.0.2", 0.5))
        assert "running" in ctl(lab, "status")
        child.kill()
        child.wait()
    server.close()
    lab.stop(lab.start("wire.toml", *STATS, "--socket", "ctl.sock"))


def case_reloads(lab):
    """200 reloads under traffic lose no packet, and memory stays flat."""
    wire(lab)
    child = lab.start("wire.toml", *STATS, "--socket", "ctl.sock")
    lan, wan = lab.spaces["lan"], lab.spaces["wan"]
    receiver = wan.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)
    receiver.bind(("", 9))
    receiver.settimeout(0.5)
    received, ends = set(), threading.Event()

    def receive():
        while True:
            try:
                received.add(int.from_bytes(receiver.recv(64), "big"))
            except TimeoutError:
                if ends.is_set():
                    return

    receiving = threading.Thread(target=receive)
    receiving.start()
    sent, sizes = 0, []
    with lan.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(200):
            rule = f"accept from 10.9.0.1 to any\naccept from 10.10.{number}.1 to any\n"
            lab.write("wire.rules", rule)
            child.send_signal(signal.SIGHUP)
            for _ in range(20):
                for _ in range(5):
                    sender.sendto(sent.to_bytes(8, "big"), ("10.9.0.2", 9))
                    sent += 1
                time.sleep(0.0005)
            if number % 20 == 0:
                sizes.append(memory_of(child.pid))
    ends.set()
    receiving.join()
    receiver.close()
    chain, errors = lab.stop(child)
    assert len(received) == sent, (len(received), sent)
    assert errors.count("reload: [firewall] in place") > 20, errors
    assert max(size for size, _ in sizes[2:]) < sizes[2][0] + 8192, sizes
    # A reload may have a file open at the moment.
    files = [files for _, files in sizes]
    assert min(files[-3:]) <= min(files[1:4]), sizes
    print(f"  kB in memory and descriptors {sizes[0]} to {sizes[-1]}")


def case_clients(lab):
    """Clients of the control socket that stall or send nonsense change nothing."""
    wire(lab)
    child = lab.start("wire.toml", *STATS, "--socket", "ctl.sock")
    lan = lab.spaces["lan"]
    server = Server(lab.spaces["wan"])
    clients = []
    # More than are served at once.
    for number in range(40):
        client = socket.socket(socket.AF_UNIX)
        client.connect(lab.path("ctl.sock"))
        client.setblocking(False)
        clients.append(client)
        try:
            client.send(NONSENSE[number % len(NONSENSE)])
        except OSError:
            pass
        assert soon(lambda: query(lan, "10.9.0.2", 0.5)), "traffic continues"
    for client in clients:
        client.close()
    assert soon(lambda: "running" in ctl(lab, "status")), "others are served"
    server.close()
    lab.stop(child)


def case_many(lab):
    """20 namespaces, two on each wire of one process."""
    pairs = [(f"h{number}", f"h{number + 1}") for number in range(0, 20, 2)]
    chains, ports, macs = [], [], []
    for near, far in pairs:
        for number, name in enumerate((near, far), 1):
            lab.spaces[name] = Namespace()
            MACS[name] = f"02:00:00:00:01:{len(ports):02x}"
            lab.link(name)
            lab.spaces[name].run(f"ip addr add 10.9.0.{number}/24 dev eth0")
            other = ["", far, near][number]
            macs.append((name, 3 - number, other))
            side = "inside" if name == near else "outside"
            table = f'[[port]]\nname = "{name}"\nside = "{side}"\ndevice = "af_packet:{name}"\n'
            ports.append(table)
        own = f'functions = ["firewall"]\nports = ["{near}", "{far}"]\narena_mib = 16'
        chains.append(f'[[chain]]\nname = "{near}"\n{own}\n')
    for name, number, other in macs:
        neighbour = f"10.9.0.{number} lladdr {MACS[other]} dev eth0 nud permanent"
        lab.spaces[name].run(f"ip neigh replace {neighbour}")
    table = '[firewall]\nrules = "all.rules"\n'
    lab.write("many.toml", "\n".join([*chains, table, *ports]))
    lab.write("all.rules", "accept from any to any\n")
    child = lab.start("many.toml", "--quiet", sockets=len(ports))
    servers = [Server(lab.spaces[far]) for _, far in pairs]
    for near, _ in pairs:
        asked = lab.spaces[near]
        assert soon(lambda: query(asked, "10.9.0.2", 1.0)), near
    for server in servers:
        server.close()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=20)
    assert child.returncode == 143, child.returncode


if __name__ == "__main__":
    main(globals())
