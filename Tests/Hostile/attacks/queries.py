"""One-shot queries."""

import threading
import time

import wire
from attack import attack, records


@attack("one-shot-queries", 'queries with .indexOn over 500,000 children, four readers at a time', seconds=12,
        rules={".read": True, ".indexOn": "score"})
def one_shot_queries(a):
    a.seed(a.root, records(a.size(500_000)))
    yield
    taken, statuses = [], set()

    def reader():
        peer = a.realtime()
        while not a.over(0.9):
            started = time.monotonic()
            status, _ = peer.ask("g", {"p": a.root, "q": {"i": "score", "l": 10, "vf": "l"}})
            taken.append((time.monotonic() - started) * 1000)
            statuses.add(status)

    threads = [threading.Thread(target=reader) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken.sort()
    return {"queries": len(taken), "query_ms_p50": round(taken[len(taken) // 2], 1), "status": sorted(statuses)}


@attack("rest-queries", "the same over REST, by four readers, a new connection each", seconds=12,
        rules={".read": True, ".indexOn": "score"})
def rest_queries(a):
    a.seed(a.root, records(a.size(500_000)))
    yield
    taken, statuses = [], set()

    def reader():
        while not a.over(0.9):
            started = time.monotonic()
            status, _ = wire.http(a.port, "GET", f'/{a.root}.json?orderBy=%22score%22&limitToFirst=10')
            taken.append((time.monotonic() - started) * 1000)
            statuses.add(status)

    threads = [threading.Thread(target=reader) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken.sort()
    return {"queries": len(taken), "query_ms_p50": round(taken[len(taken) // 2], 1), "status": sorted(statuses)}
