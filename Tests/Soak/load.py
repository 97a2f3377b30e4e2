"""Who uses the hub during the soak: each actor is a thread that does its step again and again, at its pace."""

import json
import os
import random
import signal
import subprocess
import threading
import time

import wire

RULES = {"rules": {
    "walkers": {
        ".read": True, ".geoIndex": {"lat": "lat", "lng": "lng"}, ".indexOn": ["step"],
        "$walker": {".write": "auth.token.walker === true"},
    },
    "notes": {
        ".indexOn": ["at"],
        "$note": {".read": True, ".write": "auth != null", ".expire": "data.child('at').val() + 20000"},
    },
    "totals": {".read": True, ".counts": {"notes": "count(notes)"}},
    "own": {"$uid": {".read": "auth.uid === $uid", ".write": "auth.uid === $uid", ".account": True}},
    "large": {".read": True, ".write": "auth.token.walker === true"},
}}
# All users share this machine's address.
ACCOUNTS = {"throttle": {"sign-ups-per-network": "100000/h", "passwords-per-network": "100000/15min"}}
WALKERS = 40
LARGE = "x" * 2_000_000
ACCOUNT_ROUTES = "/identitytoolkit.googleapis.com/v1/accounts"


class Actor(threading.Thread):
    """`step` is done `pace` times a second; what goes wrong in it is a fault."""

    pace = 1.0

    def __init__(self, load, number=0):
        super().__init__(daemon=True)
        self.load, self.number = load, number
        self.count = self.refused = 0
        self.slowest = 0.0
        self.setUp()

    def setUp(self):
        pass

    def tearDown(self):
        pass

    def run(self):
        time.sleep(random.random() / self.pace)
        while not self.load.over.is_set():
            began = time.monotonic()
            try:
                self.step()
            except Exception as error:               # any error is the soak's result
                self.load.fault(f"{type(self).__name__}: {type(error).__name__} {error}")
                time.sleep(1)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.load.over.wait(max(0, 1 / self.pace - (time.monotonic() - began)))
        self.tearDown()

    def http(self, method, path, value=None, token=None, expect=(200,)):
        body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        fields = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        status, answer = wire.http(self.load.port, method, path, body, fields)
        if status not in expect:
            raise AssertionError(f"{method} {path}: {status} {answer[:200]}")
        self.count += 1
        return json.loads(answer or b"null")


class Walkers(Actor):
    """The vendor's protocol: positions of ten walkers, one after the other, each acknowledged."""

    pace = 25

    def setUp(self):
        self.peer = wire.Realtime(self.load.port, self.load.secret)
        self.steps = 0

    def step(self):
        walker = f"w{self.number * 10 + self.steps % 10}"
        self.steps += 1
        at = {"lat": 37.9 + random.random() / 10, "lng": 23.6 + random.random() / 10, "step": self.steps}
        status, message = self.peer.put(f"walkers/{walker}", at)
        if status != "ok":
            raise AssertionError(f"{walker}: {message[:200]}")
        self.load.walked[walker] = self.steps
        self.count += 1


class Followers(Actor):
    """The observe protocol: one socket with a value, children in an order, a circle that moves, a count. What it hears must grow."""

    pace = 0.2

    def setUp(self):
        self.peer = wire.Observe(self.load.port)
        self.heard = 0
        self.peer.tell(op="observe", path=f"/walkers/w{self.number % WALKERS}", events=["value"])
        self.peer.tell(op="observe", path="/walkers", events=["added", "changed", "removed", "moved"],
                       query={"orderBy": "step", "limitToLast": 5})
        self.peer.tell(op="observe", path="/walkers", events=["added", "changed", "removed"],
                       query={"near": {"lat": 37.95, "lng": 23.65, "radius": 3000, "limit": 10}})
        self.peer.tell(op="observe", path="/walkers", events=["count"])
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            while not self.load.over.is_set():
                message = json.loads(self.peer.frame()[1])
                if "error" in message:
                    self.load.fault(f"Followers: {message}")
                if message.get("sub") == 1 and message.get("value"):
                    step = message["value"]["step"]
                    if step < self.heard:
                        self.load.fault(f"Followers: step {step} after {self.heard}")
                    self.heard = step
                self.count += 1
        except (wire.Closed, OSError, ValueError) as error:
            if not self.load.over.is_set():
                self.load.fault(f"Followers: {type(error).__name__} {error}")

    def step(self):
        self.peer.tell(op="move", sub=3, near={"lat": 37.9 + random.random() / 10, "lng": 23.6 + random.random() / 10})


class Visitors(Actor):
    """They come, look at something and go; every other without a word."""

    pace = 4

    def step(self):
        peer = wire.Observe(self.load.port) if random.random() < 0.5 else wire.Realtime(self.load.port)
        if isinstance(peer, wire.Observe):
            peer.tell(op="observe", path="/walkers", events=["value"])
            peer.frame()
        else:
            peer.ask("q", {"p": "walkers", "h": ""})
        if random.random() < 0.5:
            peer.send(b"\x03\xe8", wire.CLOSE)
        peer.close()
        self.count += 1


class Streams(Actor):
    """Event streams that are left in the middle."""

    pace = 0.5

    def step(self):
        made = wire.connect(self.load.port, timeout=1)
        made.sendall(b"GET /walkers.json HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        until, said = time.monotonic() + 5, b""
        while time.monotonic() < until and not self.load.over.is_set():
            try:
                piece = made.recv(1 << 16)
            except TimeoutError:                     # no user walks at the end, or the machine is busy
                continue
            if not piece:
                raise AssertionError("the hub ended a stream")
            said += piece
        made.close()
        self.count += said.count(b"event: put")


class Notes(Actor):
    """REST: notes that end after 20 s, and the counter of them."""

    pace = 20

    def step(self):
        now = int(time.time() * 1000)
        self.http("POST", "/notes.json", {"at": now, "text": "all is well"}, self.load.secret)
        if self.count % 50 < 2:
            self.http("GET", f"/notes.json?orderBy=%22at%22&startAt={now - 5000}", token=self.load.secret)
            total = self.http("GET", "/totals.json")
            # They all expire within their 20 s, plus the delay of a busy machine.
            if total and total["notes"] > 20 * 60:
                raise AssertionError(f"{total['notes']} notes are there: they do not end")


class Accounts(Actor):
    """Sign-up, sign-in, own data, a fresh token, and good-bye."""

    pace = 0.5

    def call(self, name, body):
        return self.http("POST", f"{ACCOUNT_ROUTES}:{name}?key=any", body)

    def step(self):
        email = f"p{os.urandom(6).hex()}@example.org"
        made = self.call("signUp", {"email": email, "password": "correct horse", "returnSecureToken": True})
        uid = made["localId"]
        self.http("PUT", f"/own/{uid}.json", {"name": email}, made["idToken"])
        again = self.call("signInWithPassword", {"email": email, "password": "correct horse", "returnSecureToken": True})
        status, answer = wire.http(self.load.port, "POST", "/securetoken.googleapis.com/v1/token?key=any",
                                   f"grant_type=refresh_token&refresh_token={again['refreshToken']}".encode(),
                                   {"Content-Type": "application/x-www-form-urlencoded"})
        if status != 200:
            raise AssertionError(f"refresh: {status} {answer[:200]}")
        self.http("GET", f"/own/{uid}.json", token=json.loads(answer)["id_token"])
        self.http("PUT", "/own/somebody.json", 1, again["idToken"], expect=(401,))
        self.refused += 1
        self.call("delete", {"idToken": again["idToken"]})


class Large(Actor):
    """A value of 2 MB, written and read; the whole database, exported."""

    pace = 0.1

    def step(self):
        self.http("PUT", f"/large/v{self.count % 4}.json", LARGE, self.load.secret)
        status, answer = wire.http(self.load.port, "GET", "/.json?format=export", fields={"Authorization": f"Bearer {self.load.secret}"})
        if status != 200 or len(answer) < len(LARGE):
            raise AssertionError(f"an export of {len(answer)} bytes: {status}")


class Operator(Actor):
    """Deploys, backs up, sends SIGHUP, looks at health and metrics."""

    pace = 0.2

    def step(self):
        self.http("GET", "/.health/ready")
        status, page = wire.http(self.load.port, "GET", "/.metrics")
        if status != 200 or b"vigla_requests_total" not in page:
            raise AssertionError(f"metrics: {status}")
        turn = self.count % 12
        if turn == 3:
            self.http("PUT", "/.settings/rules.json", RULES, self.load.secret)
        elif turn == 7:
            self.load.command("backup", "--data", self.load.data, "--to", self.load.base / "backup", "--replace")
        elif turn == 11:
            self.load.hangup()


class Load:
    def __init__(self, hub, data, base):
        self.hub, self.data, self.base, self.port = hub, data, base, hub.port
        self.secret = (data / "admin-secret.txt").read_text().strip()
        self.over, self.faults, self.walked = threading.Event(), [], {}
        status, answer = wire.http(self.port, "PUT", "/totals.json", b'{"of":"notes"}', {"Authorization": f"Bearer {self.secret}"})
        assert status == 200, answer
        kinds = [(Walkers, WALKERS // 10), (Followers, 12), (Visitors, 2), (Streams, 4), (Notes, 1), (Accounts, 1), (Large, 1),
                 (Operator, 1)]
        self.actors = [kind(self, number) for kind, many in kinds for number in range(many)]

    def start(self):
        for actor in self.actors:
            actor.start()

    def end(self):
        self.over.set()
        for actor in self.actors:
            actor.join(60)

    def fault(self, text):
        self.faults.append(text)
        print(f"      {text}", flush=True)

    def done(self):
        return sum(actor.count for actor in self.actors)

    def command(self, *words):
        done = subprocess.run([os.environ["VIGLA_BIN"], *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120)
        if done.returncode:
            raise AssertionError(f"vigla {words[0]}: {done.stderr}")

    def hangup(self):
        self.hub.process.send_signal(signal.SIGHUP)

    def check(self, faults):
        """Every walker is where its last acknowledged step led."""
        status, answer = wire.http(self.port, "GET", "/walkers.json")
        there = {walker: place["step"] for walker, place in json.loads(answer).items()} if status == 200 else {}
        if there != self.walked:
            faults.append(f"walkers: {there} is there, {self.walked} was acknowledged")

    def summary(self):
        """What each kind of actor did."""
        rows = {}
        for actor in self.actors:
            row = rows.setdefault(type(actor).__name__, {"name": type(actor).__name__.lower(), "done": 0, "refused": 0, "slowest_ms": 0.0})
            row["done"] += actor.count
            row["refused"] += actor.refused
            row["slowest_ms"] = max(row["slowest_ms"], actor.slowest * 1000)
        return list(rows.values())
