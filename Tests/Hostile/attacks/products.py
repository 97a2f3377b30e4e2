"""Where two numbers that a client chooses are multiplied."""

import re
import threading
import time

import wire
from attack import attack, leaves, text_leaves

OPEN = {".read": True, ".write": True}
READ = {".read": True}


def metric(a, name):
    """A number of /.metrics, of all namespaces."""
    text = wire.http(a.port, "GET", "/.metrics")[1].decode()
    return sum(int(float(value)) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def flood(a, peers, data, pause=0.0):
    """Each peer sends the data again and again, until the time is over or the hub ends the connection."""

    def send(peer):
        try:
            while not a.over():
                peer.sendall(data)
                time.sleep(pause)
        except (wire.Closed, OSError):
            pass

    threads = [threading.Thread(target=send, args=(peer,), daemon=True) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.1, a.end + 2 - time.monotonic()))


def merge_text(count, deep="", value="1"):
    return "{" + ",".join(f'"k{i:07}{deep}":{value}' for i in range(count)) + "}"


@attack("suspended-observer", "updates of 20,000 paths each while observers of the place are suspended, of readers that take nothing", rules=OPEN, seconds=15)
def suspended_observer(a):
    count = a.size(20_000, 500)
    a.seed(a.root, b'{"text":"-"}')
    writer = a.realtime(timeout=60)
    body = f'{{"p":"{a.root}/m","d":{merge_text(count, deep="/x")}}}'
    text = "x" * (1 << 20)
    yield
    taken, suspended, readers = [], [], []
    # The hub remembers an observer's missed changes up to a limit; beyond that they cost nothing more, so each round
    # has new readers.
    while not a.over(0.8) and len(taken) < 10:
        fresh = [a.realtime(receive_buffer=4096) for _ in range(2)]
        readers += fresh
        for reader in fresh:
            reader.ask("q", {"p": a.root, "h": ""})
        # Fills the system's buffers, and more than the soft limit after that.
        for number in range(8):
            writer.put(f"{a.root}/text", f'"{number}{text}"')
        # A loop notifies the database at the end of its turn.
        time.sleep(0.2)
        suspended.append(metric(a, "vigla_suspended_clients"))
        started = time.monotonic()
        writer.ask("m", body)
        taken.append(time.monotonic() - started)
        writer.put(f"{a.root}", '{"text":"-"}')
    return {"updates": len(taken), "paths": count, "suspended": suspended, "slowest_s": round(max(taken), 2)}


@attack("windowed-updates", "updates of 20,000 children of a place that is listened to with limitToLast(10,000)", rules=OPEN, seconds=12)
def windowed_updates(a):
    count = a.size(20_000, 500)
    a.seed(a.root, leaves(count))
    peer = a.realtime()
    peer.ask("q", {"p": a.root, "q": {"l": max(1, count // 2), "vf": "r", "i": ".key"}, "t": 1, "h": ""})
    answers = wire.Drain(peer)
    writer = a.realtime()
    yield
    taken = []
    while not a.over(0.8) and len(taken) < 20:
        body = f'{{"p":"{a.root}","d":{merge_text(count, value=str(len(taken) + 2))}}}'
        started = time.monotonic()
        writer.ask("m", body)
        taken.append(time.monotonic() - started)
    return {"updates": len(taken), "paths": count, "slowest_s": round(max(taken), 2), "read_MB": answers.bytes >> 20}


@attack("onDisconnect-bytes", "onDisconnects of 10 MB each, up to 200, then the client leaves", rules=OPEN, seconds=15, tail=5)
def on_disconnect_bytes(a):
    value = '"' + "x" * a.size(10_000_000) + '"'
    yield
    peer = a.realtime(timeout=60)
    statuses = []
    while not a.over(0.8) and len(statuses) < 200:
        statuses.append(peer.ask("o", f'{{"p":"{a.root}/n{len(statuses)}","d":{value}}}')[0])
    peer.close()
    return {"status": {text: statuses.count(text) for text in set(statuses)}, "accepted_MB": statuses.count("ok") * len(value) >> 20}


@attack("wrong-hash", "puts with a wrong compare hash on a place of 9,999 nodes, one after the other", rules=OPEN, seconds=10)
def wrong_hash(a):
    a.seed(a.root, leaves(9_998))
    yield
    peer = a.realtime()
    refused = sent = 0
    while not a.over(0.9):
        numbers = [peer.ask_later("p", {"p": a.root, "d": 1, "h": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}) for _ in range(50)]
        sent += len(numbers)
        for _ in numbers:
            refused += peer.answer()[1] == "datastale"
    return {"puts": sent, "datastale": refused}


@attack("onDisconnects-again", "two writers: 450 deep places that wait for their disconnect already, again and again", rules=OPEN, seconds=8, tail=5)
def on_disconnects_again(a):
    place = "/".join("abcdefghijklmnopqrst")
    peers = [a.realtime(timeout=60) for _ in range(2)]
    drains = [wire.Drain(peer) for peer in peers]
    merge = "{" + ",".join(f'"{place}/k{i}":{i}' for i in range(450)) + "}"
    batch = wire.frame(wire.request(1, "om", f'{{"p":"{a.root}","d":{merge}}}'))
    yield
    flood(a, peers, batch)
    return {"answers": sum(drain.count for drain in drains), "bytes": len(batch)}


@attack("wrong-hash-batches", "five readers: puts with a wrong compare hash on a place of 950 nodes, 500 at a time", rules=READ, seconds=8, tail=5)
def wrong_hash_batches(a):
    a.seed(a.root, leaves(950))
    put = {"p": a.root, "d": 1, "h": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    batch = b"".join(wire.frame(wire.request(i, "p", put)) for i in range(500))
    peers = [a.realtime(timeout=60) for _ in range(5)]
    drains = [wire.Drain(peer, needle=b'"permission_denied"') for peer in peers]
    yield
    flood(a, peers, batch)
    return {"refused": sum(drain.count for drain in drains)}


@attack("wrong-hash-text", "twenty readers: puts with a wrong compare hash on a text of 10 MB, one after the other", rules=READ, seconds=8, tail=5)
def wrong_hash_text(a):
    a.seed(a.root, b'"' + b"x" * a.size(10_000_000) + b'"')
    put = {"p": a.root, "d": 1, "h": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}
    batch = wire.frame(wire.request(1, "p", put))
    peers = [a.realtime(timeout=60) for _ in range(20)]
    drains = [wire.Drain(peer, needle=b'"permission_denied"') for peer in peers]
    yield
    flood(a, peers, batch, pause=0.2)
    return {"refused": sum(drain.count for drain in drains)}


@attack("hash-of-much", "puts with a compare hash on 500,000 children after each of them was changed", rules=OPEN, seconds=12)
def hash_of_much(a):
    count = a.size(500_000)
    a.seed(a.root, leaves(count))
    yield
    peer = a.realtime(timeout=60)
    taken, statuses = [], set()
    while not a.over(0.8):
        peer.put(f"{a.root}/k0000001", str(len(taken) + 5))
        started = time.monotonic()
        statuses.add(peer.put(a.root, "1", h="AAAAAAAAAAAAAAAAAAAAAAAAAAA=")[0])
        taken.append(time.monotonic() - started)
    return {"puts": len(taken), "slowest_s": round(max(taken), 2), "status": sorted(statuses)}


# 2^17 states as a deterministic automaton, so it is simulated.
PATTERN = "/(a|b)*a(a|b){16}$/"


@attack("simulated-regex", "13 MB of texts of 64 KB, each matched with a pattern that has to be simulated; then one text of 9 MB",
        rules={"$key": {".write": f"newData.val().matches({PATTERN})"}}, seconds=15)
def simulated_regex(a):
    part = a.size(65_000, 1_000)
    # Every unit keeps all states busy, and the text matches, so that each of them is visited.
    one = '"' + "a" * part + '"'
    many = "{" + ",".join(f'"{a.root}/t{i}":{one}' for i in range(200)) + "}"
    long = '"' + "a" * a.size(9_000_000) + '"'
    yield
    peer = a.realtime(timeout=60)
    statuses, slowest = [], 0.0
    while len(statuses) < 3 and not a.over(0.8):
        started = time.monotonic()
        statuses.append(peer.ask("m", f'{{"p":"/","d":{many}}}')[0])
        slowest = max(slowest, time.monotonic() - started)
    started = time.monotonic()
    statuses.append(peer.put(f"{a.root}/long", long)[0])
    return {"status": statuses, "merge_s": round(slowest, 2), "one_text_s": round(time.monotonic() - started, 2)}
