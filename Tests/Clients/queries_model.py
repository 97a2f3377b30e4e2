"""Live queries against a model, over real sockets: children are written at random while connections break and the hub is killed.

Each observer keeps what it is told. Behind the last event of each commit that must be what its query selects of the place as that commit
left it, computed anew from all children; no commit that changes this may go untold, and none may be told twice. Behind a restart of the
hub an observer may begin anew, which the hub must say.

  Tests/Clients/queries_model.py [--seconds 20] [--seed N] [--observers 12]
"""

import argparse
import asyncio
import json
import math
import random
import sys
import tempfile
from pathlib import Path

import websockets

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Python"))
from hub import Hub  # noqa: E402

RULES = json.dumps({"rules": {".read": True, ".write": True, "places": {
    ".indexOn": ["status", "rating"], ".geoIndex": {"lat": "at/lat", "lng": "at/lng"}}}})
EARTH = 6_371_009
HOME = (37.975, 23.735)
KEYS = [f"k{number}" for number in range(40)]


# Random writes.

def some_place(chance):
    place = {"status": chance.choice(["open", "shut", "new"]), "note": chance.randrange(1_000_000)}
    if chance.random() < 0.9:
        place["rating"] = chance.choice([1, 2, 3, 3.5, 4, "none", True])
    if chance.random() < 0.6:
        place["tags"] = {tag: True for tag in chance.sample(["food", "bar", "quiet"], chance.randrange(1, 4))}
    if chance.random() < 0.9:
        place["at"] = some_point(chance)
    return place


def some_point(chance):
    if chance.random() < 0.05:
        return {"lat": 123.0, "lng": 23.7}
    return {"lat": HOME[0] + chance.uniform(-0.02, 0.02), "lng": HOME[1] + chance.uniform(-0.02, 0.02)}


def some_change(chance, places):
    """Paths below the place, with their new values; and the places as that leaves them."""
    change, after = {}, dict(places)
    for key in chance.sample(KEYS, chance.choice([1, 1, 1, 2, 5])):
        old = places.get(key)
        draw = chance.random()
        if old is None or draw < 0.2:
            new = some_place(chance)
            change[key] = new
        elif draw < 0.35:
            new = None
            change[key] = None
        else:
            field = chance.choice(["status", "rating", "at", "tags/food", "note"])
            value = {"tags/food": chance.choice([True, None])}[field] if field == "tags/food" else some_place(chance).get(field)
            change[f"{key}/{field}"] = value
            new = json.loads(json.dumps(old))
            if field == "tags/food":
                tags = {**new.get("tags", {}), "food": value}
                new["tags"] = {tag: held for tag, held in tags.items() if held is not None}
            else:
                new[field] = value
            new = {name: held for name, held in new.items() if held not in (None, {})}
        after[key] = new
    return change, {key: value for key, value in after.items() if value}


# Random queries.

def some_query(chance):
    query = {}
    if chance.random() < 0.6:
        query["where"] = chance.sample([
            ["status", "==", "open"], ["status", "!=", "shut"], ["status", "in", ["new", "shut"]], ["status", "prefix", "o"],
            ["rating", ">=", 3], ["rating", "<", 3.5], ["rating", "==", None], ["tags", "has", "food"], ["rating", ">", "a"],
        ], chance.choice([1, 1, 2, 3]))
    if chance.random() < 0.5:
        query["near"] = {"lat": HOME[0], "lng": HOME[1]}
        if chance.random() < 0.75:
            query["near"]["radius"] = chance.choice([300, 1000, 2000])
        if "radius" not in query["near"] or chance.random() < 0.3:
            query["near"]["limit"] = chance.choice([1, 3, 10])
    elif chance.random() < 0.5:
        query["within"] = some_box(chance)
    near = query.get("near")
    if chance.random() < 0.5 and (near is None or ("radius" in near and "limit" not in near)):
        query["orderBy"] = chance.choice(["rating", "status", "$key"])
    if near is None or "orderBy" in query:
        if chance.random() < 0.5:
            query[chance.choice(["limitToFirst", "limitToLast"])] = chance.choice([1, 3, 10])
    return query


def some_box(chance):
    south, west = (round(axis + chance.uniform(-0.02, 0), 4) for axis in HOME)
    return {"south": south, "west": west, "north": round(south + chance.uniform(0, 0.03), 4), "east": round(west + chance.uniform(0, 0.03), 4)}


def at(place, path):
    for part in path.split("/"):
        place = place.get(part) if isinstance(place, dict) else None
    return place


def rank(value):
    if value is None:
        return (0, 0)
    if value is False:
        return (1, 0)
    if value is True:
        return (2, 0)
    if isinstance(value, (int, float)):
        return (3, value)
    if isinstance(value, str):
        return (4, value.encode())
    return (5, 0)


def holds(place, condition):
    path, operator, wanted = condition
    value = at(place, path)
    return {
        "==": lambda: rank(value) == rank(wanted), "!=": lambda: rank(value) != rank(wanted),
        "<": lambda: rank(value) < rank(wanted), "<=": lambda: rank(value) <= rank(wanted),
        ">": lambda: rank(value) > rank(wanted), ">=": lambda: rank(value) >= rank(wanted),
        "in": lambda: any(rank(value) == rank(one) for one in wanted),
        "has": lambda: isinstance(value, dict) and wanted in value,
        "prefix": lambda: isinstance(value, str) and value.startswith(wanted),
    }[operator]()


def distance(near, place):
    """Metres along the great circle; None where the child has no position."""
    lat, lng = at(place, "at/lat"), at(place, "at/lng")
    if lat is None or lng is None or not -90 <= lat <= 90:
        return None
    a, b, across = math.radians(near["lat"]), math.radians(lat), math.radians(lng - near["lng"])
    half = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(across / 2) ** 2
    return 2 * EARTH * math.asin(math.sqrt(half))


def is_within(box, place):
    lat, lng = at(place, "at/lat"), at(place, "at/lng")
    return lat is not None and lng is not None and -90 <= lat <= 90 and box["south"] <= lat <= box["north"] and box["west"] <= lng <= box["east"]


def is_unordered(query):
    """Events of such a query name no previous child."""
    if "orderBy" in query:
        return False
    return "near" in query or "within" in query and not {"limitToFirst", "limitToLast"} & set(query)


def selected(query, places):
    """The keys in their order, with their distances."""
    found = [(key, place) for key, place in places.items() if all(holds(place, one) for one in query.get("where", []))]
    if "within" in query:
        found = [one for one in found if is_within(query["within"], one[1])]
    near = query.get("near")
    far = {}
    if near:
        far = {key: distance(near, place) for key, place in found}
        found = [one for one in found if far[one[0]] is not None and far[one[0]] <= near.get("radius", math.inf)]
    if near and "orderBy" not in query:
        found.sort(key=lambda one: (far[one[0]], one[0].encode()))
        found = found[:near.get("limit")]
    else:
        order = query.get("orderBy", "$key")
        found.sort(key=lambda one: key_rank(one[0]) if order == "$key" else (rank(at(one[1], order)), key_rank(one[0])))
        if "limitToFirst" in query:
            found = found[:query["limitToFirst"]]
        if "limitToLast" in query:
            found = found[-query["limitToLast"]:]
    return [(key, place, far.get(key)) for key, place in found]


def key_rank(key):
    return key.encode()


# Observers.

class ObserverState:
    """What an observer has received up to the end of a commit."""

    def __init__(self, seq, rows, query, starts_over, skips):
        self.seq, self.rows, self.query, self.starts_over = seq, rows, query, starts_over
        self.skips = skips         # a count that reconnects is sent the current state, without the changes in between


class Observer:
    """One query over a connection that breaks. `states` is verified, and emptied, while nothing is written."""

    def __init__(self, number, query, counts):
        self.number, self.query, self.counts = number, query, counts
        self.rows, self.order = {}, []
        self.states, self.since, self.held = [], None, []
        self.last = None           # the newest verified state
        # From a move until its difference arrives after the answer, it is unknown which circle the hub sent last.
        self.moves, self.is_moving = {}, False
        self.fault = None
        self.resumed = self.anew = self.commits = 0

    def request(self):
        events = ["count"] if self.counts else ["added", "changed", "moved", "removed", "ready"]
        return {"id": 1, "op": "observe", "path": "/places", "events": events, "query": self.query,
                "since": None if self.is_moving else self.since}

    def begin(self, ok):
        self.held, self.epoch = [], ok["epoch"]
        self.starts_over = self.since is None or self.is_moving or ok.get("reset", False)
        self.moves = {}
        if self.starts_over:
            self.rows, self.order = {}, []
            self.anew += 1
        else:
            self.resumed += 1
        self.is_back = True

    def receive(self, event):
        """Of an event; those of one commit count when the last has come."""
        self.held.append(event)
        if event.get("more"):
            return
        # The first events are complete with `ready`.
        if self.starts_over and not self.counts and event["event"] != "ready":
            return
        for one in self.held:
            self.apply(one)
        self.held = []
        self.since = {"epoch": self.epoch, "seq": event["seq"]}
        rows = self.rows.get("count") if self.counts else [(key, *self.rows[key]) for key in self.order]
        self.states.append(ObserverState(event["seq"], rows, json.loads(json.dumps(self.query)), self.starts_over, self.counts and self.is_back))
        self.is_back = False
        self.commits += 1
        self.starts_over, self.is_moving = False, bool(self.moves)

    def apply(self, event):
        kind, key = event["event"], event.get("key")
        if kind == "count":
            self.rows["count"] = event["count"]
        elif kind == "added":
            assert key not in self.rows, f"{key} is added twice"
            self.rows[key] = (event["value"], event.get("distance"))
            self.put(event)
        elif kind == "removed":
            assert key in self.rows, f"{key} is removed and was not there"
            del self.rows[key]
            self.order.remove(key)
        elif kind in ("changed", "moved"):
            assert key in self.rows, f"{key} has {kind} and was not there"
            self.rows[key] = (event.get("value", self.rows[key][0]), event.get("distance", self.rows[key][1]))
            if kind == "moved":
                self.order.remove(key)
                self.put(event)

    def put(self, event):
        if is_unordered(self.query):
            assert "prev" not in event and ("distance" in event) == ("near" in self.query), event
            self.order.append(event["key"])
        else:
            self.order.insert(0 if event["prev"] is None else self.order.index(event["prev"]) + 1, event["key"])

    def verify(self, history):
        """`history` has the places of each commit by its number."""
        for state in self.states:
            expected = self.expected(state.query, history[state.seq])
            assert self.same(state.rows, expected), f"at {state.seq} told {state.rows}, expected {expected}"
            if self.last and not state.starts_over:
                moved = state.query != self.last.query
                assert state.seq > self.last.seq or moved or state.seq == self.last.seq and self.same(state.rows, self.last.rows), \
                    f"{state.seq} is told behind {self.last.seq}"
                for between in range(self.last.seq + 1, state.seq):
                    result = self.expected(self.last.query, history[between])
                    assert moved or state.skips or self.same(self.last.rows, result), f"commit {between} is not told; it leaves {result}"
            self.last = state
        self.states = []

    def expected(self, query, places):
        rows = selected(query, places)
        return len(rows) if self.counts else rows

    def same(self, told, expected):
        if self.counts:
            return told == expected
        if is_unordered(self.query):
            # Children within a circle have no order except by distance, and those in a region have none.
            told, expected = sorted(told, key=lambda row: row[0]), sorted(expected, key=lambda row: row[0])
        return len(told) == len(expected) and all(
            one[0] == other[0] and one[1] == other[1] and (other[2] is None or abs(one[2] - other[2]) < 0.02)
            for one, other in zip(told, expected))


async def listen(observer, world):
    """Connects again and again until the world ends."""
    chance = random.Random(f"{world.seed} {observer.number}")
    while not world.is_over:
        try:
            socket = await websockets.connect(f"ws://{world.hub.address}/.observe", ping_interval=None, max_size=None)
        except (OSError, websockets.WebSocketException):
            await asyncio.sleep(0.02)
            continue
        left = chance.randrange(1, 80)
        try:
            await socket.send(json.dumps(observer.request()))
            while not world.is_over:
                message = json.loads(await socket.recv())
                assert "error" not in message, message
                if message.get("id") == 1:
                    observer.begin(message["ok"])
                elif "ok" in message:
                    moved = observer.moves.pop(message["id"])
                    if "within" in observer.query:
                        observer.query["within"] = moved
                    else:
                        observer.query["near"].update(moved)
                else:
                    observer.receive(message)
                left -= 1
                if world.is_writing and left <= 0:
                    socket.transport.abort()
                    await asyncio.sleep(chance.uniform(0, 0.03))
                    break
                area = next((name for name in ("near", "within") if name in observer.query), None)
                if world.is_writing and area and not observer.moves and not observer.starts_over and chance.random() < 0.1:
                    number, target = 2 + left, some_box(chance)
                    if area == "near":
                        target = {axis: near + chance.uniform(-0.01, 0.01) for axis, near in zip(("lat", "lng"), HOME)}
                    observer.moves[number], observer.is_moving = target, True
                    await socket.send(json.dumps({"id": number, "op": "move", "sub": 1, area: target}))
        except (OSError, websockets.WebSocketException):
            pass
        except (AssertionError, KeyError, ValueError) as fault:
            observer.fault = f"{type(fault).__name__}: {fault}"
            return
        finally:
            socket.transport.abort()


class World:
    def __init__(self, hub, seed):
        self.hub, self.seed = hub, seed
        self.is_over = self.is_writing = False
        self.history = {0: {}}
        self.kills = 0

    async def write(self, chance, times, is_killed):
        """Commits, one after the other; with the last in flight the hub is killed, and what became of it is asked."""
        socket = await websockets.connect(f"ws://{self.hub.address}/.observe", ping_interval=None, max_size=None)
        try:
            for number in range(times):
                last = max(self.history)
                change, after = some_change(chance, self.history[last])
                await socket.send(json.dumps({"id": number, "op": "update", "path": "/places", "value": change}))
                if is_killed and number == times - 1:
                    await asyncio.sleep(chance.uniform(0, 0.004))
                    self.hub.kill()
                    self.kills += 1
                    self.hub.start()
                    await self.ask(last, after)
                    return
                answer = json.loads(await socket.recv())
                assert answer["ok"]["seq"] == last + 1, f"{answer} behind {last}"
                self.history[last + 1] = after
                if chance.random() < 0.1:
                    await asyncio.sleep(0)
        finally:
            socket.transport.abort()

    async def ask(self, last, after):
        async with websockets.connect(f"ws://{self.hub.address}/.observe", max_size=None) as socket:
            await socket.send(json.dumps({"id": 1, "op": "get", "path": "/places"}))
            now = json.loads(await socket.recv())["ok"]["value"] or {}
            await socket.send(json.dumps({"id": 2, "op": "observe", "path": "/nothing"}))
            seq = json.loads(await socket.recv())["ok"]["seq"]
        assert seq in (last, last + 1), f"after the kill the hub is at {seq}, behind {last}"
        assert now == (after if seq > last else self.history[last]), f"after the kill the place is not as commit {seq} left it"
        self.history[seq] = now


async def run(options, hub):
    world = World(hub, options.seed)
    chance = random.Random(options.seed)
    observers = [Observer(number, some_query(chance), chance.random() < 0.2) for number in range(options.observers)]
    tasks = [asyncio.create_task(listen(one, world)) for one in observers]
    ends = asyncio.get_running_loop().time() + options.seconds
    while asyncio.get_running_loop().time() < ends:
        world.is_writing = True
        await world.write(chance, chance.randrange(5, 120), chance.random() < 0.1)
        world.is_writing = False
        await settle(world, observers)
        newest = max(world.history)
        for number in [number for number in world.history if number < newest - 20_000]:
            del world.history[number]
    world.is_over = True
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(f"queries model: seed {options.seed}, {max(world.history)} commits, {sum(one.commits for one in observers)} told and compared, "
          f"{world.kills} kills, {sum(one.resumed for one in observers)} resumed, {sum(one.anew for one in observers)} begun anew")


async def settle(world, observers):
    """All have been told of the newest commit that concerns them, and nothing else."""
    newest = max(world.history)
    for _ in range(3000):
        for one in observers:
            assert one.fault is None, f"seed {world.seed}: {one.request()}: {one.fault}"
            try:
                one.verify(world.history)
            except AssertionError as fault:
                raise AssertionError(f"seed {world.seed}: {one.request()}: {fault}") from None
        late = [one for one in observers if one.last is None or not one.same(one.last.rows, one.expected(one.query, world.history[newest]))]
        if not late:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"seed {world.seed}: not told of commit {newest}: {[one.request() for one in late]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--observers", type=int, default=12)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vigla-queries-") as data:
        hub = Hub("--data", data, rules=RULES)
        try:
            asyncio.run(run(options, hub))
        finally:
            hub.stop()
