"""Thousands of clients lose their connections at once and come back at once: how long it takes until each has been told all it missed.

Each client has three observers: a place of its own, the children of a place that all watch, and a query of them with a condition.
Once the network is cut, and commits follow before they come back: each must be told exactly these. Once the hub is killed: each must begin
anew and be told all. Nobody may be refused or dropped.

  Tests/Clients/reconnect_storm.py [--clients 5000] [--commits 100]

The figures include what this program itself takes, on the same machine.
"""

import argparse
import base64
import json
import os
import resource
import select
import socket
import struct
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Python"))
from hub import Hub  # noqa: E402

RULES = json.dumps({"rules": {".read": True, ".write": True, "feed": {".indexOn": ["kind"]}}})
AT_ONCE = 500        # connections being opened


def frame(message):
    """A text of a client, masked with zeros."""
    text = json.dumps(message).encode()
    size = struct.pack("!B", 0x80 | len(text)) if len(text) < 126 else struct.pack("!BH", 0x80 | 126, len(text))
    return b"\x81" + size + bytes(4) + text


class Peer:
    def __init__(self, number):
        self.number = number
        self.since = {1: None, 2: None, 3: None}
        self.socket = None

    def connect(self, port):
        self.socket = socket.socket()
        self.socket.setblocking(False)
        # From many addresses, as the number of connections of one is bounded.
        self.socket.bind((f"127.0.{1 + self.number // 250 % 200}.{1 + self.number % 250}", 0))
        self.socket.connect_ex(("127.0.0.1", port))
        self.is_open, self.buffer = False, bytearray()
        self.ready, self.anew, self.events = set(), 0, {1: 0, 2: 0, 3: 0}

    def hello(self, port):
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.send(f"GET /.observe HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                         f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())

    def observe(self):
        own = {"id": 1, "op": "observe", "path": f"/own/{self.number}", "events": ["value", "ready"], "since": self.since[1]}
        children = ["added", "changed", "removed", "ready"]
        feed = {"id": 2, "op": "observe", "path": "/feed", "events": children, "since": self.since[2]}
        some = {"id": 3, "op": "observe", "path": "/feed", "events": children, "since": self.since[3],
                "query": {"where": [["kind", "==", "a"]]}}
        self.socket.send(b"".join(map(frame, (own, feed, some))))

    def receive(self):
        """Whether all has been told."""
        piece = self.socket.recv(1 << 18)
        assert piece, f"client {self.number} is dropped: {bytes(self.buffer[:200])}"
        self.buffer += piece
        if not self.is_open:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            assert self.buffer.startswith(b"HTTP/1.1 101"), f"client {self.number} is refused: {bytes(self.buffer[:200])}"
            del self.buffer[:end + 4]
            self.is_open = True
            self.observe()
        at = 0
        while len(self.buffer) >= at + 2:
            size, head = self.buffer[at + 1], 2
            if size == 126:
                size, head = struct.unpack_from("!H", self.buffer, at + 2)[0] if len(self.buffer) >= at + 4 else 1 << 62, 4
            elif size == 127:
                size, head = struct.unpack_from("!Q", self.buffer, at + 2)[0] if len(self.buffer) >= at + 10 else 1 << 62, 10
            if len(self.buffer) < at + head + size:
                break
            assert self.buffer[at] == 0x81, f"client {self.number} is told {bytes(self.buffer[at:at + 200])}"
            self.told(json.loads(self.buffer[at + head:at + head + size]))
            at += head + size
        del self.buffer[:at]
        return len(self.ready) == 3

    def told(self, message):
        assert "error" not in message, f"client {self.number} is told {message}"
        if "ok" in message:
            self.epoch = message["ok"]["epoch"]
            self.anew += message["ok"].get("reset", False)
            return
        sub = message["sub"]
        if message["event"] == "ready":
            self.ready.add(sub)
        else:
            self.events[sub] += 1
        if "more" not in message:
            self.since[sub] = {"epoch": self.epoch, "seq": message["seq"]}


def come(peers, port):
    """All connect and are told; the seconds until half of them and until all were."""
    begun, poll = time.monotonic(), select.epoll()
    waiting, by_descriptor, done = list(reversed(peers)), {}, []
    while len(done) < len(peers):
        while waiting and len(by_descriptor) - len(done) < AT_ONCE:
            peer = waiting.pop()
            peer.connect(port)
            by_descriptor[peer.socket.fileno()] = peer
            peer.is_hailed = False
            poll.register(peer.socket, select.EPOLLOUT)
        answered = poll.poll(30)
        assert answered, f"{len(peers) - len(done)} clients are told nothing for 30 s"
        for descriptor, _ in answered:
            peer = by_descriptor[descriptor]
            if not peer.is_hailed:
                assert peer.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, f"client {peer.number} is not let in"
                peer.is_hailed = True
                peer.hello(port)
                poll.modify(peer.socket, select.EPOLLIN)
            elif peer.receive():
                poll.unregister(peer.socket)
                done.append(time.monotonic() - begun)
    return done[len(done) // 2], done[-1]


def write(hub, path, value, method="PATCH"):
    body = json.dumps(value).encode()
    urllib.request.urlopen(urllib.request.Request(f"{hub.url}{path}.json", body, method=method), timeout=60).close()


def main(options, hub):
    write(hub, "/", {"own": {str(n): n for n in range(options.clients)},
                    "feed": {f"k{n}": {"kind": "ab"[n % 2], "text": "x" * 40} for n in range(20)}})
    peers = [Peer(number) for number in range(options.clients)]
    print("first     %.2f s for half, %.2f s for all" % come(peers, hub.port))
    for peer in peers:
        peer.socket.close()
    for number in range(options.commits):
        write(hub, "/feed", {f"k{number % 20}": {"kind": "ab"[number % 2], "text": str(number)}})
    figures = come(peers, hub.port)
    for peer in peers:
        assert peer.anew == 0, f"client {peer.number} begins anew"
        seen = [peer.events[2], peer.events[3]]
        assert seen == [options.commits, (options.commits + 1) // 2], f"client {peer.number} is told {seen} changes"
    print("cut       %.2f s for half, %.2f s for all: %d commits each, all told, none twice" % (*figures, options.commits))
    hub.kill()
    for peer in peers:
        peer.socket.close()
    started = time.monotonic()
    hub.start()
    print("killed    the hub serves again after %.2f s" % (time.monotonic() - started))
    figures = come(peers, hub.port)
    for peer in peers:
        assert peer.anew == 3, f"client {peer.number} does not begin anew"
        assert peer.events == {1: 1, 2: 20, 3: 10}, f"client {peer.number} is told {peer.events}"
    print("killed    %.2f s for half, %.2f s for all: all anew" % figures)
    # All are still connected, and get the next commit.
    write(hub, "/feed", {"k0": None})
    for peer in peers:
        peer.socket.setblocking(True)
        peer.socket.settimeout(30)
        peer.events[2] = 0
        while peer.events[2] == 0:
            peer.receive()
    print("reconnect storm: %d clients with 3 observers each, nobody refused or dropped" % options.clients)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=5000)
    parser.add_argument("--commits", type=int, default=100)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * options.clients + 1000), hard))
    with tempfile.TemporaryDirectory(prefix="vigla-storm-") as data:
        hub = Hub("--data", data, rules=RULES)
        try:
            main(options, hub)
        finally:
            hub.stop()
