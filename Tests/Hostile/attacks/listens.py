"""Listens: many of them, and what their orders cost."""

import time

import wire
from attack import attack, leaves, records

READ = {".read": True}


def listens(queries, path, start=1):
    """Frames of many listens, ready to send. `queries` are texts of `q` objects, "" for a plain listen; a path may hold `%d`."""
    out = bytearray()
    for number, query in enumerate(queries, start):
        place = path % number if "%d" in path else path
        body = f'{{"p":"{place}","q":{query},"t":{number},"h":""}}' if query else f'{{"p":"{place}","h":""}}'
        out += wire.frame(wire.request(number + 100, "q", body))
    return bytes(out)


def send_in_pieces(a, peer, data, piece=1 << 18):
    """Sends until all is sent, the time is over or the hub takes no more; the share that was sent."""
    at = 0
    peer.socket.settimeout(2)
    while at < len(data) and not a.over():
        try:
            at += peer.socket.send(data[at : at + piece])
        except TimeoutError:
            continue
        except OSError:
            break
    return at / len(data)


@attack("odd-orders", "706 listens (92 KB) ordered by ever new child names over 200,000 children; .read only", rules=READ)
def odd_orders(a):
    a.seed(a.root, records(a.size(200_000)))
    data = listens((f'{{"i":"no-such-child-{n:06}/deeper/still","l":1,"vf":"l"}}' for n in range(a.size(706, 20))), a.root)
    yield
    peer = a.realtime()
    answers = wire.Drain(peer)
    peer.sendall(data)
    a.wait()
    return {"sent_KB": len(data) >> 10, "ok": answers.count, "closed": answers.closed}


@attack("tagged-listens", "20,000 listens with different queries on one place, which the probe then writes to",
        rules={".read": True, ".write": True}, probe_path="tagged-listens/probe", seconds=18)
def tagged_listens(a):
    a.seed(a.root + "/k0", b"1")
    data = listens((f'{{"sp":"a{n:06}","ep":"a{n:06}","i":".key"}}' for n in range(a.size(20_000, 200))), a.root)
    yield
    peer = a.realtime()
    answers = wire.Drain(peer)
    sent = send_in_pieces(a, peer, data)
    a.wait()
    return {"listens": int(a.size(20_000, 200) * sent), "ok": answers.count, "closed": answers.closed}


@attack("limited-listens", "20,000 windows (limitToLast 1 … 20,000) on one place of 1,000 children, which the probe writes to",
        rules={".read": True, ".write": True}, probe_path="limited-listens/probe", seconds=18)
def limited_listens(a):
    a.seed(a.root, leaves(a.size(1_000, 10)))
    data = listens((f'{{"l":{n + 1},"vf":"r","i":".key"}}' for n in range(a.size(20_000, 200))), a.root)
    yield
    peer = a.realtime()
    answers = wire.Drain(peer)
    sent = send_in_pieces(a, peer, data)
    a.wait()
    return {"listens": int(a.size(20_000, 200) * sent), "ok": answers.count, "closed": answers.closed}


@attack("million-listens", "a million listens of one client on as many places, then it leaves", rules=READ, seconds=18, tail=12)
def million_listens(a):
    count = a.size(1_000_000, 2_000)
    data = listens(("" for _ in range(count)), a.root + "/n%d")
    yield
    peer = a.realtime()
    answers = wire.Drain(peer)
    sent = int(count * send_in_pieces(a, peer, data))
    last = -1
    while answers.count != last and not answers.closed:
        last = answers.count
        time.sleep(0.3)
    peer.close()
    return {"sent": sent, "ok": answers.count, "closed_by_hub": answers.closed}
