"""What a client learns, and what it writes into the log."""

import base64
import hashlib
import time

import wire
from attack import attack


@attack("guessed-pin", "a 4-digit PIN guessed by puts with a compare hash: .write without .read", rules={".write": True}, seconds=12,
        fault=lambda figures: figures.get("guessed") and f"the PIN was found in {figures['seconds']} s")
def guessed_pin(a):
    a.seed(f"{a.root}/pin", b'"7294"')
    guesses = [f"{n:04}" for n in range(10_000)]
    hashes = [base64.b64encode(hashlib.sha1(f"string:{guess}".encode()).digest()).decode() for guess in guesses]
    yield
    peer = a.realtime()
    started = time.monotonic()
    statuses, found = {}, None
    for first in range(0, 10_000, 200):
        if a.over() or found:
            break
        asked = {}
        for at in range(first, first + 200):
            number = peer.ask_later("p", {"p": f"{a.root}/pin", "d": guesses[at], "h": hashes[at]})
            asked[number] = guesses[at]
        for _ in asked:
            number, status, _ = peer.answer()
            statuses[status] = statuses.get(status, 0) + 1
            if status == "ok":
                found = asked[number]
    return {"guessed": found, "seconds": round(time.monotonic() - started, 2), "status": statuses}


@attack("unknown-namespaces", "20,000 requests for namespaces that do not exist: bytes of log each", seconds=12,
        fault=lambda figures: figures.get("log_bytes_each", 0) > 20 and figures.get("requests", 0) >= 1000
        and f"{figures['log_bytes_each']} bytes of log a request")
def unknown_namespaces(a):
    count = a.size(20_000, 500)
    batch = 100
    yield
    before = a.log.stat().st_size
    sent, peer, answers = 0, None, None
    while sent < count and not a.over(0.9):
        if peer is None or answers.closed:
            peer = wire.connect(a.port)
            answers = wire.Drain(peer, needle=b"HTTP/1.1 ")
            mine = 0
        text = "".join(
            f"GET /x.json?ns=nobody{sent + i} HTTP/1.1\r\nHost: {wire.HOST}:{a.port}\r\n\r\n" for i in range(batch))
        try:
            peer.sendall(text.encode())
        except OSError:
            peer = None
            continue
        sent += batch
        mine += batch
        while answers.count < mine and not answers.closed and not a.over():
            time.sleep(0.001)
    for number in range(min(200, count)):
        if a.over():
            break
        try:
            wire.WebSocket(a.port, f"/.ws?v=5&ns=nobody{number}")
        except wire.Closed:
            sent += 1
    time.sleep(0.2)
    grown = a.log.stat().st_size - before
    return {"requests": sent, "log_KB": grown >> 10, "log_bytes_each": round(grown / max(1, sent), 1)}


@attack("slow-disk", "fdatasync takes 870 ms (shim), somebody writes; the probe only reads", rules={".read": True, ".write": True}, seconds=10,
        shim={"sync_delay_ms": 870}, probe_mode="read", probe_path="probe/r")
def slow_disk(a):
    yield
    peer = a.realtime(timeout=60)
    taken = []
    while not a.over(0.85):
        started = time.monotonic()
        peer.put(f"{a.root}/n", str(len(taken)))
        taken.append(time.monotonic() - started)
    taken.sort()
    return {"writes": len(taken), "write_s_p50": round(taken[len(taken) // 2], 2)}
