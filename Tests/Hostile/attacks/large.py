"""Reads and observers of much content."""

import threading
import time

import wire
from attack import attack, leaves, records, text_leaves

OPEN = {".read": True, ".write": True}
READ = {".read": True}


@attack("value-observer", "a `value` observer of /.observe on 22 MB, and five small writes a second below it", rules=OPEN, seconds=12)
def value_observer(a):
    a.seed(a.root, records(a.size(430_000)))
    observer = a.observe(timeout=60)
    writer = a.realtime()
    yield
    observer.tell(op="observe", path=a.root, events=["value"])
    seen = wire.Drain(observer, needle=b'"event":"value"')
    taken = []
    while not a.over(0.9):
        started = time.monotonic()
        writer.put(f"{a.root}/k0000005/score", str(len(taken)))
        taken.append((time.monotonic() - started) * 1000)
        time.sleep(0.2)
    taken.sort()
    return {"writes": len(taken), "own_write_ms_p50": round(taken[len(taken) // 2], 1), "events": seen.count, "read_MB": seen.bytes >> 20,
            "closed": seen.closed}


def _seed_200(a):
    for part in range(4):
        a.seed(f"{a.root}/p{part}", text_leaves(a.size(50 << 20)))


@attack("read-too-big", "reading 200 MB over a socket, which is answered with too_big, five times", rules=READ)
def read_too_big(a):
    _seed_200(a)
    yield
    peer, other = a.realtime(timeout=60), a.observe(timeout=60)
    answers, slowest = [], 0.0
    while len(answers) < 6 and not a.over(0.8):
        started = time.monotonic()
        if len(answers) % 2 == 0:
            answers.append(peer.ask("g", {"p": a.root, "q": {}})[0])
        else:
            other.tell(op="get", path=a.root)
            answers.append("too_big" if b"too_big" in other.frame()[1][:200] else "ok")
        slowest = max(slowest, time.monotonic() - started)
    return {"answers": answers, "slowest_s": round(slowest, 2)}


@attack("listen-too-big", "listening to 200 MB, which is answered with too_big, and a REST stream of it", rules=READ)
def listen_too_big(a):
    _seed_200(a)
    yield
    answers = []
    for number in range(3):
        if a.over(0.8):
            break
        peer = a.realtime(timeout=60)
        answers.append(peer.ask("q", {"p": a.root, "h": "another" if number == 1 else ""})[0])
        peer.close()
    stream = wire.connect(a.port)
    stream.sendall(f"GET /{a.root}.json HTTP/1.1\r\nHost: {wire.HOST}:{a.port}\r\nAccept: text/event-stream\r\n\r\n".encode())
    answers.append(int(stream.recv(64).split(b" ", 2)[1]))
    return {"answers": answers}


@attack("big-get", "`g` of 32 MB, one after the other", rules=READ, seconds=10)
def big_get(a):
    a.seed(a.root, records(a.size(620_000)))
    yield
    peer = a.realtime(timeout=60)
    taken = []
    while len(taken) < 8 and not a.over(0.8):
        started = time.monotonic()
        status, message = peer.ask("g", {"p": a.root, "q": {}})
        taken.append(time.monotonic() - started)
        if status != "ok":
            break
    return {"reads": len(taken), "status": status, "MB": len(message) >> 20, "slowest_s": round(max(taken), 2)}


@attack("listen-with-hash", "first listens with another hash on three places of 30 MB", rules=READ, seconds=10)
def listen_with_hash(a):
    for part in range(3):
        a.seed(f"{a.root}/p{part}", records(a.size(580_000)))
    yield
    peer = a.realtime(timeout=60)
    taken, statuses = [], set()
    for part in range(3):
        started = time.monotonic()
        status, _ = peer.ask("q", {"p": f"{a.root}/p{part}", "h": "another"})
        statuses.add(status)
        taken.append(round(time.monotonic() - started, 2))
    return {"seconds": taken, "status": sorted(statuses)}


@attack("same-observe", "1,000 observes of one client on one place of 30 KB, and five writes a second to it", rules=OPEN, seconds=10)
def same_observe(a):
    value = leaves(a.size(2_000, 100))
    a.seed(a.root, value)
    writer = a.realtime()
    yield
    observer = a.observe()
    answers = wire.Drain(observer, needle=b'"event":"value"')
    for _ in range(a.size(1_000, 20)):
        observer.tell(op="observe", path=a.root, events=["value"])
    writes = 0
    while not a.over(0.9):
        writer.put(f"{a.root}/k0000005", str(writes))
        writes += 1
        time.sleep(0.2)
    a.wait()
    return {"writes": writes, "events": answers.count, "read_MB": answers.bytes >> 20, "closed": answers.closed}


@attack("stalled-downloads", "REST downloads of a tree of 40 MB that are never read, while it is rewritten 12 times", rules=OPEN, seconds=18)
def stalled_downloads(a):
    body = records(a.size(800_000))
    a.seed(a.root, body)
    yield
    stalled, statuses, rewrites, slowest = [], [], [], 0.0
    for _ in range(12):
        if a.over(0.8):
            break
        for _ in range(3):
            peer = wire.connect(a.port, receive_buffer=4096)
            peer.sendall(f"GET /{a.root}.json HTTP/1.1\r\nHost: {wire.HOST}:{a.port}\r\n\r\n".encode())
            stalled.append(peer)
        # The head of the answer has arrived, so the version is pinned.
        for peer in stalled[-3:]:
            try:
                statuses.append(int(peer.recv(64).split(b" ", 2)[1]))
            except (OSError, IndexError, ValueError):
                statuses.append(0)
        started = time.monotonic()
        rewrites.append(wire.http(a.port, "PUT", f"/{a.root}.json?print=silent", body)[0])
        slowest = max(slowest, time.monotonic() - started)
    a.wait()
    return {"downloads": len(stalled), "rewrites": {code: rewrites.count(code) for code in sorted(set(rewrites))}, "slowest_rewrite_s": round(slowest, 2),
            "status": {code: statuses.count(code) for code in sorted(set(statuses))}}
