"""One place and its queries, watched side by side while it is written at random: by streams of REST, vigla.js, vigla.py and `vigla watch`.

All of them must see the same states in the same order, and the clients the same events of the same commits; a stream with `count=true` must
see how many children these states have. Children come into the queries
and leave them, move in their order, are replaced with the whole place, and so on.

  Tests/Clients/side_by_side.py [--writes 400] [--seed N] [--also COMMAND]

COMMAND is another program to compare, such as one of an SDK: with the hub's URL, the path and the query as JSON behind it, it says what it
is told as `vigla watch` does, without `seq`: {"event":"added","key":"k1","value":1,"prev":null}. Queries with conditions or a circle are
not asked of it.
"""

import argparse
import http.client
import json
import os
import queue
import random
import shlex
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "Python"), str(HERE)]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402
from queries_model import KEYS, RULES, some_change, some_place  # noqa: E402

DEADLINE = int(os.environ.get("VIGLA_CLIENTS_SECONDS", 120))  # seconds after which a client counts as hanging
EVENTS = ["value", "added", "changed", "moved", "removed"]
QUERIES = {
    "last by rating": {"orderBy": "rating", "limitToLast": 4},
    "first by rating": {"orderBy": "rating", "limitToFirst": 5},
    "a range": {"orderBy": "rating", "startAt": 2, "endAt": "none"},
    "equal": {"orderBy": "status", "equalTo": "open", "limitToFirst": 6},
    "by key": {"orderBy": "$key", "startAt": "k2", "limitToFirst": 7},
    "conditions": {"where": [["status", "==", "open"], ["rating", ">=", 3]], "orderBy": "rating", "limitToLast": 4},
    "a circle": {"near": {"lat": 37.975, "lng": 23.735, "radius": 1500}},
    "the nearest": {"near": {"lat": 37.975, "lng": 23.735, "limit": 3}, "where": [["status", "!=", "shut"]]},
}
# The last state of all queries: only this child.
LAST = {"kz": {"status": "open", "rating": 4, "at": {"lat": 37.975, "lng": 23.735}}}


COUNT = "REST with count"


class Watcher:
    """What one client has seen of one query."""

    def __init__(self):
        self.states = []   # each once
        self.events = []   # child events, grouped by state
        self.held = []
        self.news = queue.Queue()

    def see(self, state):
        if not self.states or self.states[-1] != state:
            self.states.append(json.loads(json.dumps(state)))
        self.news.put(state)

    def take(self, event):
        """As an observer is told it: events of children, then the value that they lead to."""
        if event["event"] != "value":
            return self.held.append({name: event.get(name) for name in ("seq", "event", "key", "value", "prev", "distance", "why")})
        if self.held:
            self.events.append(self.held)
        self.held = []
        self.see(event["value"])

    def until(self, is_there):
        while not is_there(self.news.get(timeout=DEADLINE)):
            pass


def started(work):
    threading.Thread(target=work, daemon=True).start()


def lines_of(command, take):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read():
        for line in process.stdout:
            take(json.loads(line))

    started(read)
    return process


def stream(hub, query, watcher):
    """Follows a query as a stream of REST."""
    def read():
        state = event = None
        for line in response:
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = text
            elif name == "data" and event in ("put", "patch"):
                told = json.loads(text)
                for path, value in [("", told["data"])] if event == "put" else told["data"].items():
                    names = [name for name in f"{told['path']}/{path}".split("/") if name]
                    state = changed(state, names, value)
                watcher.see(state)

    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=DEADLINE)
    parameters = {name: json.dumps(value) for name, value in query.items()}
    connection.request("GET", "/places.json?" + urllib.parse.urlencode(parameters), headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    started(read)


def changed(node, names, value):
    """A tree with another value at a place; None for nothing."""
    if not names:
        return value
    children = dict(node) if isinstance(node, dict) else {}
    children[names[0]] = changed(children.get(names[0]), names[1:], value)
    return {name: child for name, child in children.items() if child is not None} or None


def arguments(query):
    """The options of `vigla watch`."""
    told = {"orderBy": "--order-by", "startAt": "--start", "endAt": "--end", "equalTo": "--equal", "limitToFirst": "--limit",
            "limitToLast": "--last"}
    given = []
    for name, value in query.items():
        if name == "where":
            for path, operator, constant in value:
                given += ["--where", f"{path} {operator} {json.dumps(constant)}"]
        elif name == "near":
            given += ["--near", ",".join(str(value.get(part, "")) for part in ("lat", "lng", "radius", "limit")).rstrip(",")]
        else:
            given += [told[name], value.removeprefix("$") if name == "orderBy" else json.dumps(value)]
    return given


def clients(hub, also, found, processes):
    """Starts all of them: query → name → watcher."""
    def watcher(query, name):
        return found.setdefault(query, {}).setdefault(name, Watcher())

    for name, command in [("vigla.js", ["node", str(HERE / "peer.mjs")]), ("vigla.py", [sys.executable, str(HERE / "peer.py")])]:
        def take(line, name=name):
            assert "error" not in line and line.get("event", {}).get("event") != "ended", f"{name}: {line}"
            if "observer" in line:
                watcher(line["observer"], name).take(line["event"])

        for query in QUERIES:
            watcher(query, name)
        process = lines_of([*command, f"ws://{hub.address}/.observe", "{}"], take)
        processes.append(process)
        for turn, (query, members) in enumerate(QUERIES.items()):
            asked = {"turn": turn, "call": "observe", "as": query, "path": "/places", "events": EVENTS, "query": members}
            print(json.dumps(asked), file=process.stdin, flush=True)
    for query, members in QUERIES.items():
        command = [os.environ.get("VIGLA_BIN", ".build/debug/vigla"), "watch", f"{hub.url}/places", "--events", ",".join(EVENTS)]
        processes.append(lines_of([*command, *arguments(members)], watcher(query, "vigla watch").take))
        stream(hub, members, watcher(query, "REST"))
        stream(hub, {**members, "count": True}, watcher(query, COUNT))
        if also and not {"where", "near"} & set(members):
            command = [*shlex.split(also), hub.url, "/places", json.dumps(members)]
            processes.append(lines_of(command, watcher(query, "also").take))
    return found


def write(hub, writes, seed):
    chance = random.Random(seed)
    places = {}

    def send(method, body):
        request = urllib.request.Request(f"{hub.url}/places.json?print=silent", json.dumps(body).encode(), method=method)
        urllib.request.urlopen(request, timeout=DEADLINE).close()

    for _ in range(writes):
        if chance.random() < 0.03:
            places = {key: some_place(chance) for key in chance.sample(KEYS, chance.randrange(1, 30))}
            send("PUT", places)
        else:
            change, places = some_change(chance, places)
            send("PATCH", change)
    send("PUT", LAST)


def unnumbered(events):
    """The events of each state without the number of the commit, and without the order among those of one: an SDK has its own."""
    ranks = ["removed", "added", "moved", "changed"]
    # An SDK sends a moved child's value again.
    told = [[{**event, "seq": None, "why": None, "value": None if event["event"] == "moved" else event["value"]} for event in group]
            for group in events]
    return [sorted(group, key=lambda event: (ranks.index(event["event"]), event["key"])) for group in told]


def compare(found):
    """- Returns: states and groups of events that were compared."""
    states = groups = 0
    for query, watchers in found.items():
        first = watchers["vigla.js"]
        assert len(first.states) > 20, f"{query}: {len(first.states)} states"
        numbers = [len(state or {}) for state in first.states]
        numbers = [number for at, number in enumerate(numbers) if at == 0 or numbers[at - 1] != number]
        counts = watchers.pop(COUNT)
        while len(counts.states) < len(numbers):
            counts.until(lambda _: True)
        assert_same(f"{query}: {COUNT}", counts.states, numbers)
        for name, one in watchers.items():
            assert_same(f"{query}: states of {name}", one.states, first.states)
            states += len(one.states)
            if name == "REST":
                continue
            assert not one.held, f"{query}: {name} holds {one.held}"
            if name == "also":
                assert_same(f"{query}: events of {name}", unnumbered(one.events), unnumbered(first.events))
            else:
                assert_same(f"{query}: events of {name}", one.events, first.events)
            groups += len(one.events)
    return states, groups


def assert_same(what, found, expected):
    for number, (one, other) in enumerate(zip(found, expected)):
        assert one == other, f"{what} differ at {number}:\n{json.dumps(one)}\nothers:\n{json.dumps(other)}"
    assert len(found) == len(expected), f"{what}: {len(found)} instead of {len(expected)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--writes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--also")
    options = parser.parse_args()
    hub = Hub("--memory", rules=RULES)
    found, processes = {}, []
    try:
        clients(hub, options.also, found, processes)
        watchers = [one for watched in found.values() for one in watched.values()]
        for one in watchers:
            one.until(lambda state: not state)
        write(hub, options.writes, options.seed)
        for one in watchers:
            one.until(lambda state: state in (LAST, 1))
        states, groups = compare(found)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        hub.stop()
    names = sorted({name for watched in found.values() for name in watched})
    print(f"side by side: seed {options.seed}, {options.writes} writes, {len(QUERIES)} queries, {', '.join(names)}: "
          f"{states} states and {groups} groups of events compared")


if __name__ == "__main__":
    main()
