"""What the rules have follow from a write, and what is remembered of writes."""

import json
import time

from attack import attack, leaves
from wire import http

OPEN = {".read": True, ".write": True}


def copied(root):
    """Rules of posts that are copied to their author's friends."""
    copies = [{"to": f"{root}/timeline/$f/$p", "each": f"{root}/friends/{{author}}/$f"}]
    return {".read": True, "timeline": {".write": True}, "posts": {"$p": {".write": True, ".copy": copies}}}


def counted(root):
    counters = {"votes": f"count({root}/votes/$e)", "likes": f"count({root}/votes/$e, each.val() > 0)", "sum": f"sum({root}/votes/$e)"}
    return {".read": True, "votes": {".write": True}, "events": {"$e": {".write": True, ".counts": counters}}}


def ask(observer, **members):
    """The answer to a request of the observe protocol; events before it are dropped."""
    number = observer.tell(**members)
    while True:
        _, text = observer.frame()
        if text.startswith(b'{"id":%d,' % number):
            return json.loads(text)


@attack("large-copies", "a post of 1 MB with 990 friends, then small changes of it", rules=copied("large-copies"), seconds=20)
def large_copies(a):
    a.seed(f"{a.root}/friends/ada", ("{" + ",".join(f'"f{i:04}":true' for i in range(990)) + "}").encode())
    writer = a.realtime(timeout=60)
    body = json.dumps({"author": "ada", "text": "x" * a.size(1 << 20), "n": 0}).encode()
    yield
    answers = {}
    status, _ = http(a.port, "PUT", f"/{a.root}/posts/p.json?print=silent", body)
    answers[status] = 1
    a.seed(f"{a.root}/posts/q", b'{"author":"ada","n":0}')
    number = 0
    while not a.over():
        number += 1
        status, _ = writer.put(f"{a.root}/posts/{'pq'[number % 2]}/n", number)
        answers[status] = answers.get(status, 0) + 1
    return {"answers": answers}


@attack("many-copies", "3 million entries in an own timeline, which is cleared and written again", rules=copied("many-copies"), seconds=30, tail=5)
def many_copies(a):
    body = leaves(a.size(3_000_000, 5_000))
    yield
    answers = []
    while not a.over():
        answers.append(http(a.port, "PUT", f"/{a.root}/timeline/me.json?print=silent", body)[0])
        answers.append(http(a.port, "DELETE", f"/{a.root}/timeline/me.json?print=silent")[0])
    return {"answers": len(answers), "last": answers[-2:]}


@attack("counted-update", "updates of 99,000 votes of one event with three counters", rules=counted("counted-update"), seconds=15)
def counted_update(a):
    a.seed(f"{a.root}/events/e", b'{"x":1}')
    count = a.size(99_000, 1_000)
    bodies = [("{" + ",".join(f'"e/u{i:06}":{value}' for i in range(count)) + "}").encode() for value in (1, -1)]
    yield
    answers = {}
    for number in range(1_000):
        if a.over():
            break
        status, _ = http(a.port, "PATCH", f"/{a.root}/votes.json?print=silent", bodies[number % 2])
        answers[status] = answers.get(status, 0) + 1
    return {"answers": answers}


@attack("long-places", "updates that remove 1,000 places with 30 keys of 760 bytes where nothing is, while an observer may come back", rules=OPEN, seconds=30)
def long_places(a):
    above = "/".join(f"{i:02}" + "k" * 758 for i in range(29))
    places = a.size(1_000, 10)
    body = ("{" + ",".join(f'"{above}/{i:05}{"z" * 755}":null' for i in range(places)) + "}").encode()
    watcher = a.observe()
    ask(watcher, op="observe", path=f"/{a.root}/x", events=["added"], since=None)
    yield
    answers = {}
    while not a.over():
        status, _ = http(a.port, "PATCH", f"/{a.root}.json?print=silent", body)
        answers[status] = answers.get(status, 0) + 1
    return {"answers": answers, "sent_mb": sum(answers.values()) * len(body) >> 20}


@attack("missed-window", "900 updates of 900 children that a query does not show, then its observer comes back", rules={**OPEN, ".indexOn": "n"}, seconds=25, tail=3)
def missed_window(a):
    a.seed(a.root, ('{"a":{"n":0},' + ",".join(f'"k{i:03}":{{"n":1}}' for i in range(950)) + "}").encode())
    query = {"orderBy": "n", "limitToFirst": 1}
    writer, watcher = a.observe(), a.observe()
    known = ask(watcher, op="observe", path=f"/{a.root}", events=["added"], query=query, since=None)["ok"]
    since = {"epoch": known["epoch"], "seq": known["seq"]}
    yield
    commits = 0
    while not a.over(0.7) and commits < 900:
        commits += 1
        ask(writer, op="update", path=f"/{a.root}", value={f"k{i:03}/n": commits + i for i in range(900)})
    slowest = back = 0
    while not a.over():
        again = a.observe()
        begin = time.monotonic()
        ask(again, op="observe", path=f"/{a.root}", events=["added"], query=query, since=since)
        slowest, back = max(slowest, time.monotonic() - begin), back + 1
        again.close()
    return {"commits": commits, "came_back": back, "slowest_ms": round(slowest * 1000)}
