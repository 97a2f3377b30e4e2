"""What is sent and never finished: frames, messages, polls, bodies."""

import re
import select
import time
import zlib

import wire
from attack import attack


def inflating(size):
    """The beginning of a compressed message that inflates to `size` bytes; its end never comes."""
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = b" " * (1 << 20)
    data = b"".join(made.compress(block) for _ in range(size >> 20)) + made.compress(block[: size & 0xFFFFF])
    return data + made.flush(zlib.Z_SYNC_FLUSH)


def hold(a, peers, every=3):
    """Keeps sockets alive by pings until the time is over; how many the hub has ended."""
    ended = set()
    while True:
        for number, peer in enumerate(peers):
            if number in ended:
                continue
            try:
                peer.socket.setblocking(False)
                if peer.socket.recv(1 << 16) == b"":
                    ended.add(number)
                    continue
            except BlockingIOError:
                pass
            except OSError:
                ended.add(number)
                continue
            try:
                peer.socket.send(wire.frame(b"", wire.PING))
            except BlockingIOError:
                pass
            except OSError:
                ended.add(number)
        if a.over():
            return len(ended)
        time.sleep(min(every, max(0.05, a.end - time.monotonic())))


@attack("compressed-fragments", "200 non-final compressed frames of 32 KB on /.observe, 33 MB inflated each, kept alive by pings; deny-all", seconds=20)
def compressed_fragments(a):
    data = wire.frame(inflating((32 << 20) - 4096), final=False, compressed=True)
    yield
    peers, refused = [], 0
    for _ in range(a.size(200, 4)):
        try:
            peers.append(a.observe(deflate=True))
        except (wire.Closed, OSError):
            refused += 1
    for peer in peers:
        try:
            peer.sendall(data)
        except (wire.Closed, OSError):
            refused += 1
    opened = len(peers)
    return {"frame_bytes": len(data), "connections": opened, "refused": refused, "ended_by_hub": hold(a, peers)}


@attack("plain-fragments", "140 unfinished plain messages of 31 MB, on /.observe and /.ws in turn; deny-all")
def plain_fragments(a):
    piece = b" " * (1 << 20)
    yield
    peers, refused, sent = [], 0, 0
    for number in range(a.size(140, 4)):
        if a.over(0.8):
            break
        try:
            peer = a.observe() if number % 2 else a.realtime()
            peer.socket.settimeout(3)
            peers.append(peer)
            for part in range(31):
                peer.send(piece, wire.TEXT if part == 0 else 0, final=False)
                sent += len(piece)
        except TimeoutError:
            refused += 1
        except wire.Closed:
            refused += 1
    opened = len(peers)
    return {"connections": opened, "refused": refused, "sent_MB": sent >> 20, "ended_by_hub": hold(a, peers)}


class Poller:
    """One long-polling session on two sockets in turn: each poll has the one before it answered."""

    def __init__(self, port):
        status, body = wire.http(port, "GET", "/.lp?start=t&ser=1&cb=3&v=5")
        if status != 200:
            raise wire.Closed(status)
        id, password = re.search(rb"pLPCommand\('start',\"([^\"]*)\",\"([^\"]*)\"", body).groups()
        self.key = f"id={id.decode()}&pw={password.decode()}"
        self.sockets = [wire.connect(port), wire.connect(port)]
        for made in self.sockets:
            made.setblocking(False)
        self.waiting = [b"", b""]
        self.turn = self.polls = self.answers = 0
        self.ended = False

    def poll(self, port, data, pieces):
        self.waiting[self.turn] += (
            f"GET /.lp?{self.key}&ser={self.polls}&seg0={self.polls}&ts0={pieces}&d0={data} HTTP/1.1\r\nHost: {wire.HOST}:{port}\r\n\r\n").encode()
        self.turn ^= 1
        self.polls += 1

    def move(self):
        """Sends and reads what can be now."""
        for number, made in enumerate(self.sockets):
            try:
                while piece := made.recv(1 << 16):
                    self.answers += piece.count(b"HTTP/1.1 ")
                self.ended = True
            except BlockingIOError:
                pass
            except OSError:
                self.ended = True
            if self.waiting[number]:
                try:
                    self.waiting[number] = self.waiting[number][made.send(self.waiting[number]) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self.ended = True


@attack("longpoll-fragments", "100 long-polling sessions that each send up to 15 MB of a message in segments, and not the last one; deny-all", seconds=20)
def longpoll_fragments(a):
    data = "QUFB" * 3900
    wanted = (15 << 20) // (len(data) * 3 // 4)
    yield
    peers, refused = [], 0
    for _ in range(a.size(100, 2)):
        try:
            peers.append(Poller(a.port))
        except (wire.Closed, OSError):
            refused += 1
    moving = list(peers)
    while moving and not a.over():
        for peer in moving:
            # The hub holds one poll until the next arrives, so no more than that is in the system's buffers.
            if peer.polls - peer.answers < 4 and not any(peer.waiting):
                peer.poll(a.port, data, 999_999)
            peer.move()
        moving = [peer for peer in moving if peer.answers < wanted and not peer.ended]
    a.wait()
    return {"sessions": len(peers), "refused": refused, "taken_MB": sum(peer.answers for peer in peers) * len(data) * 3 // 4 >> 20,
            "ended_by_hub": sum(peer.ended for peer in peers)}


@attack("http-bodies", "16 PUTs with a Content-Length of 250 MB of which 240 MB come, by a stranger; deny-all")
def http_bodies(a):
    piece = b"[" + b"1," * (1 << 19)
    yield
    made, sent, refused = [], 0, 0
    for number in range(a.size(16, 2)):
        if a.over(0.8):
            break
        peer = wire.connect(a.port, timeout=3)
        peer.sendall(f"PUT /x{number}.json HTTP/1.1\r\nHost: {wire.HOST}:{a.port}\r\nContent-Length: {250 << 20}\r\n\r\n".encode())
        try:
            for _ in range(a.size(240, 8)):
                peer.sendall(piece)
                sent += len(piece)
                if select.select([peer], [], [], 0)[0]:
                    refused += 1
                    break
        except OSError:
            refused += 1
        made.append(peer)
    a.wait()
    return {"connections": len(made), "refused_early": refused, "sent_MB": sent >> 20}


def _for_ever_fault(figures):
    if figures.get("seconds", 0) >= 60 and figures.get("ended_by_hub", 0) < figures.get("connections", 0):
        return f"{figures['connections'] - figures['ended_by_hub']} of {figures['connections']} unfinished messages still held"


@attack("unfinished-for-ever", "messages of 999,999 chunks that get a chunk of 16 bytes now and then, with pings; held for ever?", seconds=70, fault=_for_ever_fault)
def unfinished_for_ever(a):
    yield
    peers = []
    for _ in range(a.size(40, 4)):
        peer = a.realtime()
        peer.send(b"999999")
        peer.send(b" " * (1 << 20))
        peers.append(peer)
        slow = a.observe()
        slow.send(b"{" + b" " * (1 << 20), final=False)
        peers.append(slow)
    ended = set()
    while not a.over():
        for number, peer in enumerate(peers):
            if number in ended:
                continue
            try:
                if number % 2:
                    peer.socket.sendall(wire.frame(b" " * 16, 0, final=False) + wire.frame(b"", wire.PING))
                else:
                    peer.socket.sendall(wire.frame(b" " * 16))
                peer.socket.setblocking(False)
                try:
                    data = peer.socket.recv(1 << 16)
                    if not data or 0x88 in data[:1]:
                        ended.add(number)
                except BlockingIOError:
                    pass
                peer.socket.settimeout(3)
            except OSError:
                ended.add(number)
        time.sleep(min(1.0, max(0.05, a.end - time.monotonic())))
    return {"connections": len(peers), "ended_by_hub": len(ended), "seconds": round(a.seconds)}
