#!/usr/bin/env python3
"""Writes into a hub what is written to another database, while both run: for the time in which apps move from the one to the other.

    follow.py SOURCE HUB --imported FILE --state FILE [--source-auth-file FILE] [--auth-file FILE]

    follow.py https://my-app.firebaseio.com http://127.0.0.1:9000 --imported export.json --state followed.json \\
              --source-auth-file firebase-secret.txt

SOURCE and HUB are addresses of a place in each, without `.json`. The state is what the hub has of SOURCE: at first what was imported,
afterwards whatever this program has brought over; its file is written at the end (Ctrl-C, SIGTERM) and each minute. Only what differs from
it is written into the hub, so what new apps write there stays, also when this program or a connection begins again. There is no way back:
what is written into the hub is not brought to SOURCE. Priorities are not followed.

Needs Python 3.9 and nothing else. SOURCE is read by its event stream, whose first event is all that it has: both that and what the hub
has of it are in memory. The hub's rules do not bind an administrator; what they have follow from writes happens. Values that the hub
refuses end the program, with the answer.
"""

import argparse
import http.client
import json
import os
import signal
import sys
import time
from urllib.parse import quote, urlencode, urlsplit

MOST_BYTES = 8 << 20          # of one update; larger values are written in several
SAVE_SECONDS = 60
SILENCE_SECONDS = 90          # event streams send something every 30 s


class Refused(Exception):
    """The answer that ends this program."""


# ---- values: as in the contract, lists are objects with numbers for names, and null is an absent value

def plain(value):
    if isinstance(value, list):
        value = {str(number): child for number, child in enumerate(value)}
    if not isinstance(value, dict):
        return value
    if ".value" in value:
        return value[".value"]
    children = {name: plain(child) for name, child in value.items() if name != ".priority"}
    return {name: child for name, child in children.items() if child is not None} or None


def differences(before, after, path=()):
    """(path, value) of what has to be written so that `before` becomes `after`; None removes."""
    if before is after or before == after:
        return
    if not (isinstance(before, dict) and isinstance(after, dict)):
        yield path, after
        return
    for name in {**before, **after}:
        yield from differences(before.get(name), after.get(name), (*path, name))


def replaced(value, path, new):
    """`value` with `new` at `path`, the rest shared; what becomes empty is gone."""
    if not path:
        return new
    children = dict(value) if isinstance(value, dict) else {}
    children[path[0]] = replaced(children.get(path[0]), path[1:], new)
    if children[path[0]] is None:
        del children[path[0]]
    return children or None


def parts(path):
    return tuple(part for part in path.split("/") if part)


# ---- the two databases

class Place:
    """A place of a database, by REST. The file's first line is read anew for each connection: a token may have been replaced."""

    def __init__(self, address, token_file):
        self.url = urlsplit(address if "://" in address else f"http://{address}")
        self.token_file = token_file

    def token(self):
        if not self.token_file:
            return None
        with open(self.token_file, encoding="utf-8") as text:
            return text.readline().strip()

    def connect(self, timeout):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        return kind(self.url.hostname, self.url.port, timeout=timeout)

    def target(self, **more):
        query = "&".join(part for part in (self.url.query, urlencode(more)) if part)
        return quote(self.url.path.rstrip("/"), safe="/%") + "/.json" + (f"?{query}" if query else "")


class Source(Place):
    def answer(self):
        """To the request for the event stream; the vendor may lead to the machine that has the database."""
        token = self.token()
        url = self.url._replace(path=self.target(**({"auth": token} if token else {})), query="")
        for _ in range(5):
            connection = Place(url.geturl(), None).connect(SILENCE_SECONDS)
            connection.request("GET", url.path + (f"?{url.query}" if url.query else ""), headers={"Accept": "text/event-stream"})
            answer = connection.getresponse()
            if answer.status not in (301, 302, 307, 308):
                return answer
            url = urlsplit(answer.headers["Location"])
            connection.close()
        raise OSError(f"{self.url.netloc} leads from one address to the next")

    def events(self):
        """(kind, data) of the event stream, until it ends."""
        answer = self.answer()
        if answer.status in (400, 401, 403, 404):
            raise Refused(f"{self.url.netloc} answers {answer.status}: {answer.read(500).decode(errors='replace').strip()}")
        if answer.status != 200:
            raise OSError(f"{self.url.netloc} answers {answer.status}")
        kind = None
        for line in answer:
            name, _, text = line.decode().rstrip("\r\n").partition(":")
            if name == "event":
                kind = text.strip()
            elif name == "data":
                yield kind, json.loads(text)


class Hub(Place):
    connection = None

    def update(self, changes):
        """Writes all of them, or none; tries again while the hub cannot. The whole place has the path ''."""
        method, value = ("PUT", changes[""]) if "" in changes else ("PATCH", changes)
        body = json.dumps(value, ensure_ascii=False).encode()
        while True:
            try:
                self.connection = self.connection or self.connect(300)
                fields = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token()}"}
                self.connection.request(method, self.target(print="silent"), body, fields)
                answer = self.connection.getresponse()
                said = answer.read(500).decode(errors="replace").strip()
                answer.close()
                if answer.status in (200, 204):
                    return
                if answer.status not in (429, 500, 502, 503, 504):
                    raise Refused(f"{self.url.netloc} refuses {', '.join(list(changes)[:3])}: {answer.status} {said}")
                note(f"{self.url.netloc} answers {answer.status} {said}; trying again")
            except (OSError, http.client.HTTPException) as error:
                self.connection = None
                note(f"{self.url.netloc}: {error or type(error).__name__}; trying again")
            time.sleep(2)


# ---- following

class State:
    """What the hub has of the source."""

    def __init__(self, file, imported):
        self.file, self.saved, self.is_saved = file, time.monotonic(), True
        with open(file if os.path.exists(file) else imported, encoding="utf-8") as text:
            self.value = plain(json.load(text))

    def save(self):
        if self.is_saved:
            return
        with open(f"{self.file}.new", "w", encoding="utf-8") as text:
            json.dump(self.value, text, ensure_ascii=False)
            text.flush()
            os.fsync(text.fileno())
        os.replace(f"{self.file}.new", self.file)
        self.saved, self.is_saved = time.monotonic(), True


def bring(hub, state, after):
    """Writes what differs, in updates of a bounded size; returns how many places."""
    count, size, changes = 0, 0, {}
    for path, value in differences(state.value, after):
        size += len(json.dumps(value))
        changes["/".join(path)] = value
        count += 1
        if size > MOST_BYTES:
            hub.update(changes)
            size, changes = 0, {}
    if changes:
        hub.update(changes)
    state.value = after
    state.is_saved = state.is_saved and not count
    return count


def after(value, kind, data):
    """What the source has after an event."""
    place, new = parts(data["path"]), data["data"]
    if kind == "put":
        return replaced(value, place, plain(new))
    for name, child in new.items():
        value = replaced(value, (*place, *parts(name)), plain(child))
    return value


def follow(source, hub, state):
    seen = state.value
    for kind, data in source.events():
        if kind in ("put", "patch"):
            seen = after(seen, kind, data)
            count = bring(hub, state, seen)
            if count:
                note(f"{data['path']}: {count} written")
        elif kind == "cancel":
            raise Refused(f"{source.url.netloc} ends the stream: {data or 'its rules do not let this token read any more'}")
        if time.monotonic() > state.saved + SAVE_SECONDS:
            state.save()


def note(text):
    print(f"follow: {text}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("hub", metavar="HUB")
    parser.add_argument("--imported", required=True, metavar="FILE", help="the export of SOURCE that was imported; it is only read")
    parser.add_argument("--state", required=True, metavar="FILE", help="what was brought over until now; made at the first start")
    parser.add_argument("--source-auth-file", metavar="FILE", help="a secret, or a user's token, that may read SOURCE")
    parser.add_argument("--auth-file", metavar="FILE", default=os.environ.get("VIGLA_AUTH_FILE"), help="the hub's administrator's secret")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if not options.auth_file:
        parser.error("the hub takes this from an administrator: --auth-file FILE, or VIGLA_AUTH_FILE")
    source, hub = Source(options.source, options.source_auth_file), Hub(options.hub, options.auth_file)
    state = State(options.state, options.imported)
    wait = 1
    try:
        while True:
            began = time.monotonic()
            try:
                follow(source, hub, state)
                note(f"{source.url.netloc}: the stream ended; beginning again")
            except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
                note(f"{source.url.netloc}: {error or type(error).__name__}; beginning again")
            wait = 1 if time.monotonic() > began + 60 else min(30, wait * 2)
            time.sleep(wait)
    except Refused as refused:
        note(str(refused))
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        state.save()


if __name__ == "__main__":
    sys.exit(main())
