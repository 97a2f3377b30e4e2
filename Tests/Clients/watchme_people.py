"""The people of WatchMe, and the hub that they use: who they are, what they are told, and what is there at first."""

import asyncio
import json
import logging
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "Python"), str(ROOT / "Examples/clients/python"), str(HERE)]
from hub import Hub  # noqa: E402
from link import Link  # noqa: E402
from vigla import Vigla, ViglaError  # noqa: E402

logging.getLogger("vigla").setLevel(logging.ERROR)  # lost connections are part of the test

DENIED = "permission_denied"
DAY = 86_400
K = {"latitude": 37.9553, "longitude": 23.7021}
ZOGRAFOU = {
    "z1": ("eleni", 37.97835, 23.76722, 40, False), "z2": ("nikos", 37.97970, 23.77235, 30, True),
    "z3": ("andreas", 37.97475, 23.76494, 10, False), "z4": ("eleni", 37.97322, 23.77304, 60, True),
    "z5": ("nikos", 37.98240, 23.77520, 90, False), "z6": ("andreas", 37.97700, 23.78074, 120, False),
    "z7": ("eleni", 37.97700, 23.78108, 200, False), "z8": ("nikos", 37.97070, 23.76323, 400, False),
    "z9": ("andreas", 37.98491, 23.76608, 500, False), "z10": ("eleni", 37.97835, 23.76722, 800, False)}
VERIFIED = ["ada", "eleni", "danae", "andreas", "mallory", "nikos"]
PASSWORD = "correct horse battery"


def seconds():
    return int(time.time())


def post(uid, **changed):
    return {"user": uid, "timestamp": seconds(), **K, "description": "", "policeArrived": False, **changed}


def seed():
    posts, own = {}, {}
    for key, (uid, latitude, longitude, days, handled) in ZOGRAFOU.items():
        posts[key] = {"user": uid, "timestamp": seconds() - days * DAY, "latitude": latitude, "longitude": longitude,
                      "description": "", "policeArrived": handled}
        own.setdefault(uid, {})[key] = posts[key]
    return {"users": {uid: {"name": uid.title(), "profileImageUrl": f"https://files.example.org/{uid}.jpg"} for uid in VERIFIED},
            "users-friends": {"ada": {"eleni": "added"}, "eleni": {"ada": "added"},
                              "andreas": {"danae": "requested"}, "danae": {"andreas": "pending"}},
            "posts": posts, "users-posts": own}


class Feed:
    """What an observer is told, behind what there was when it began. Where the hub has forgotten what it told, as behind a restart, it is
    the difference to what was there before, as in an app."""

    def __init__(self, person, path, events=("added", "changed", "removed", "ready"), query=None):
        self.person, self.observer = person, person.hub.observe(path, events, query)
        self.held = {}
        self.due = []

    async def begin(self):
        """What there was."""
        told = []
        while (event := await self._told())["event"] != "ready":
            told.append(event)
        self.held = {event["key"]: event["value"] for event in told}
        return told

    async def _told(self):
        return await asyncio.wait_for(anext(self.observer), 20)

    async def _next(self):
        while not self.due:
            event = await self._told()
            if event["event"] == "reset":
                before = self.held
                now = await self.begin()
                self.due += [{**event, "event": "changed" if event["key"] in before else "added"} for event in now
                             if before.get(event["key"]) != event["value"]]
                self.due += [{"event": "removed", "key": key} for key in before.keys() - self.held.keys()]
            elif event["event"] != "ready":
                self.due.append(event)
                if event["event"] == "removed":
                    self.held.pop(event["key"], None)
                elif "key" in event:
                    self.held[event["key"]] = event["value"]
        return self.due.pop(0)

    async def take(self, count):
        """So many events, and that there are no more. Each has its event, and key or value as they apply."""
        events = [await self._next() for _ in range(count)]
        assert not (more := await self.rest()), f"beyond what was expected: {more}"
        return events

    async def rest(self):
        """What has come besides: everything that was committed before is behind the answer to a ping."""
        await self.person.hub.ping()
        events = []
        while self.due or any(event["event"] not in ("ready", "reset") for event in self.observer._queue):
            try:
                events.append(await asyncio.wait_for(self._next(), 1))
            except TimeoutError:
                break
        return events

    async def keys(self, count):
        return [(event["event"], event["key"]) for event in await self.take(count)]

    async def is_silent(self):
        assert not (events := await self.rest()), events


class Person:
    """Somebody with an account, signed in, over a connection that can be lost."""

    def __init__(self, world, uid, token):
        self.world, self.uid, self.token = world, uid, token
        self.connect()

    def connect(self):
        self.link = Link(self.world.hub.port)
        self.hub = Vigla(f"http://127.0.0.1:{self.link.port}?ns=demo", token=lambda: self.token)

    async def leave(self):
        await self.hub.close()
        self.link.close()

    async def denied(self, *writes):
        """Each of the writes, a path and a value or an update, is refused by the rules."""
        for write in writes:
            try:
                if isinstance(write, dict):
                    await self.hub.update("/", write)
                else:
                    await self.hub.set(*write)
            except ViglaError as error:
                assert error.code == DENIED, (write, error.code)
            else:
                raise AssertionError(f"{self.uid} may write {write}")

    async def cannot_get(self, *reads):
        for path, query in [read if isinstance(read, tuple) else (read, None) for read in reads]:
            try:
                await self.hub.get(path, query)
            except ViglaError as error:
                assert error.code == DENIED, (path, error.code)
            else:
                raise AssertionError(f"{self.uid} may read {path} {query}")


class World:
    """The hub and its people."""

    def __init__(self, folder):
        self.hub = Hub("--dev", "--project", "demo", "--namespace", "demo", "--data", folder, "--presence-deadline", "5",
                       rules=(ROOT / "Examples/watchme/rules.json").read_text())
        for uid in [*VERIFIED, "nina"]:
            self.account("projects/demo/accounts", {
                "localId": uid, "email": f"{uid}@example.org", "password": PASSWORD, "emailVerified": uid != "nina"}, owner=True)
        self.account("projects/demo/accounts:update", {"localId": "nikos", "customAttributes": '{"moderator":true}'}, owner=True)
        assert self.rest("PUT", "/.json", seed(), owner=True, derive="false")[0] == 200

    async def meet(self):
        self.people = {uid: Person(self, uid, self.sign_in(uid)["idToken"]) for uid in [*VERIFIED, "nina"]}

    def __getattr__(self, uid):
        return self.people[uid]

    def ask(self, method, path, body=None, owner=False):
        headers = {"Content-Type": "application/json"} | ({"Authorization": "Bearer owner"} if owner else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.hub.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def rest(self, method, path, body=None, owner=False, **query):
        return self.ask(method, f"{path}?{urllib.parse.urlencode({'ns': 'demo', **query})}", body, owner)

    def account(self, call, body, owner=False):
        """What the account service answers, or the code of its refusal."""
        status, answer = self.ask("POST", f"/identitytoolkit.googleapis.com/v1/{call}?key=any", body, owner)
        return answer if status == 200 else answer["error"]["message"].split(" ")[0]

    def sign_in(self, uid, password=PASSWORD):
        body = {"email": f"{uid}@example.org", "password": password, "returnSecureToken": True}
        return self.account("accounts:signInWithPassword", body)

    def refresh(self, token):
        return self.ask("POST", "/securetoken.googleapis.com/v1/token?key=any", {"grant_type": "refresh_token", "refresh_token": token})

    def mailed(self, kind, uid):
        """The code of the last mail."""
        codes = self.ask("GET", "/emulator/v1/projects/demo/oobCodes", owner=True)[1]["oobCodes"]
        return [code["oobCode"] for code in codes if code["requestType"] == kind and code["email"] == f"{uid}@example.org"][-1]

    def stored(self, path):
        return self.rest("GET", f"/{path}.json", owner=True)[1]
