"""Single requests that are large once they are read."""

import threading
import time

import wire
from attack import attack, records

OPEN = {".read": True, ".write": True}


def ones(total):
    return b"[" + b"1," * (total // 2 - 1) + b"1]"


def put_all(a, count, target, body):
    """The same PUT `count` times at once: the answers' status and the seconds of the slowest."""
    answers = []

    def one():
        try:
            answers.append(wire.http(a.port, "PUT", target, body, timeout=a.seconds + 10)[0])
        except (wire.Closed, OSError) as error:
            answers.append(type(error).__name__)

    started = time.monotonic()
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"answers": answers, "body_MB": len(body) >> 20, "seconds": round(time.monotonic() - started, 2)}


@attack("array-put-stranger", "PUT of [1,1,1,…], 110 MB, by a stranger; deny-all")
def array_put_stranger(a):
    body = ones(a.size(110 << 20))
    yield
    return put_all(a, 1, "/x.json", body)


@attack("array-put-permitted", "PUT of [1,1,1,…], 110 MB, by somebody who may write there", rules=OPEN)
def array_put_permitted(a):
    body = ones(a.size(110 << 20))
    yield
    return put_all(a, 1, f"/{a.root}/x.json", body)


@attack("array-put-four", "the same by four strangers at once, 50 MB each; deny-all")
def array_put_four(a):
    body = ones(a.size(50 << 20))
    yield
    return put_all(a, 4, "/x.json", body)


@attack("array-message", "realtime puts of [1,1,1,…], 15 MB each, by six strangers at once; deny-all")
def array_message(a):
    payload = b'{"t":"d","d":{"r":9,"a":"p","b":{"p":"x","d":' + ones(a.size(15 << 20)) + b"}}}"
    yield
    peers = [a.realtime() for _ in range(6)]
    answers = []

    def one(peer):
        try:
            for _ in range(2):
                peer.send(payload)
                answers.append(peer.answer()[1])
                if a.over():
                    break
        except (wire.Closed, OSError) as error:
            answers.append(type(error).__name__)

    threads = [threading.Thread(target=one, args=(peer,)) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"answers": {text: answers.count(text) for text in set(answers)}}


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def short_names(count):
    for i in range(count):
        yield LETTERS[i // 238328 % 62] + LETTERS[i // 3844 % 62] + LETTERS[i // 62 % 62] + LETTERS[i % 62] + "z"


@attack("denied-merge", "a merge of 1.2 million keys, 12 MB, by a stranger, again and again; deny-all", seconds=12)
def denied_merge(a):
    names = short_names(a.size(1_200_000))
    payload = b'{"t":"d","d":{"r":9,"a":"m","b":{"p":"x","d":{' + ",".join(f'"{name}":1' for name in names).encode() + b"}}}}"
    yield
    peer = a.realtime()
    answers, slowest = [], 0.0
    while not a.over(0.8) and len(answers) < 10:
        started = time.monotonic()
        peer.send(payload)
        answers.append(peer.answer()[1])
        slowest = max(slowest, time.monotonic() - started)
    return {"answers": answers, "body_MB": len(payload) >> 20, "slowest_s": round(slowest, 2)}


@attack("other-namespace", "a PUT of 157 MB of records in one namespace; the probe is in another (a development hub: only that has two)",
        rules=OPEN, dev=True)
def other_namespace(a):
    # 89 bytes each.
    body = records(a.size(1_770_000), filler=45)
    yield
    return put_all(a, 1, f"/{a.root}/x.json?ns=other&print=silent", body)
