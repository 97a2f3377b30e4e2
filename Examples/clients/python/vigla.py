"""A client of a Vigla hub: the observe protocol (docs/clients.md, docs/observe-protocol.md) with asyncio and `websockets` 10 or later.

    async with Vigla("http://127.0.0.1:9000") as hub:
        await hub.set("/status", "open")
        async for event in hub.observe("/timeline/ana", events=["added", "removed"]):
            print(event["event"], event["key"], event["value"])

Requests made before there is a connection wait for it. After a loss the client connects again and its observers continue where they
were: they get the events that they missed, or {"event": "reset"} and all that there is. Names are those of the protocol and of its other
clients, web/vigla.js and ViglaClient. Copy this file, or install the package of its folder (`pip install Examples/clients/python`).
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import random
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import websockets

__all__ = ["Centre", "Change", "Event", "Near", "Observer", "Query", "Vigla", "ViglaError", "backoff"]

TICK = 20.0               # seconds: a hub that is silent for one tick is pinged; after three ticks the connection is closed
FIRST, LAST = 0.25, 15.0  # seconds: the longest wait before the first attempt to reconnect, and before any attempt
MOST_BYTES = 256 << 20    # of one message
_ABSENT: Any = object()
_log = logging.getLogger("vigla")

# ---- types: shapes are those of docs/observe-protocol.md


class Centre(TypedDict):
    """Degrees."""

    lat: float
    lng: float


class Near(Centre, total=False):
    """A circle. `radius` is in metres, `limit` is how many of the nearest; one of the two is needed."""

    radius: float
    limit: int


class Box(TypedDict):
    """Degrees. `west` beyond `east` crosses the antimeridian."""

    south: float
    west: float
    north: float
    east: float


#: A box, a polygon [[lat, lng], …] or in GeoJSON, a circle, or the place where a region is stored.
Region = Union[Box, Sequence[Any], Mapping[str, Any], str]


class Within(TypedDict):
    within: Region


class Query(TypedDict, total=False):
    """Which children, in which order. The rules of a place need a `.geoIndex` for `near` and `within`, also with --dev."""

    orderBy: str
    startAt: Any
    startAfter: Any
    endAt: Any
    endBefore: Any
    equalTo: Any
    limitToFirst: int
    limitToLast: int
    where: List[Tuple[str, str, Any]]
    near: Near
    within: Region


class _Named(TypedDict):
    event: str


class Event(_Named, total=False):
    """`event` is value, added, changed, removed, moved, count, ready or reset; the other members depend on it."""

    seq: int
    key: str
    value: Any
    prev: Optional[str]
    distance: float
    count: int
    why: str


class _State(TypedDict):
    state: str


class Change(_State, total=False):
    """What `onstate` gets."""

    error: ViglaError
    retryMs: int


Token = Union[str, None, Callable[[], Union[str, None, Awaitable[Optional[str]]]]]
_Ok = Dict[str, Any]
_Answer = Callable[[Optional[_Ok], Optional["ViglaError"]], None]


class ViglaError(Exception):
    """Why something was not done. `code` is one of the protocol's, or connection_lost (it may have been done), closed.

    `text` is the hub's sentence, `messages` what the rules say, `member` the part of the request that is at fault. Other members of the
    hub's error are attributes too: `value` (with the code stale: what is at the place, where the hub says so), `retryAfterMs`."""

    value: Any
    retryAfterMs: int

    def __init__(self, code: str, message: str, member: str | None = None, messages: Iterable[str] = (), **rest: Any) -> None:
        super().__init__(f"{message} ({code})" + (f": {' '.join(messages)}" if messages else ""))
        self.code, self.text, self.member, self.messages = code, message, member, list(messages)
        self.__dict__.update(rest)


_LIMITS: Dict[str, float] = {"south": 90, "west": 180, "north": 90, "east": 180, "lat": 90, "lng": 180, "radius": float("inf")}


def _check_region(region: Any) -> None:
    """Refuses a region that the hub would refuse. Only the hub sees whether a polygon crosses itself."""

    def fault(message: str, member: str = "within") -> ViglaError:
        return ViglaError("bad_request", message, member)

    def is_number(value: Any, most: float) -> bool:
        return type(value) in (int, float) and abs(value) <= most

    def check(names: Sequence[str], values: Sequence[Any]) -> None:
        for name, value in zip(names, values):
            if not is_number(value, _LIMITS[name]):
                limit = "" if name == "radius" else f" from -{_LIMITS[name]} to {_LIMITS[name]}"
                raise fault(f"must be a number{limit}", f"within.{name}")
        if names[0] == "south" and values[0] > values[2]:
            raise fault("must not be greater than north", "within.south")
        if names[-1] == "radius" and not values[-1] > 0:
            raise fault("must be greater than 0 metres", "within.radius")

    if isinstance(region, str):
        if not region:
            raise fault("the path is empty")
        return
    box, circle = ("south", "west", "north", "east"), ("lat", "lng", "radius")
    if isinstance(region, (list, tuple)) and len(region) == 4 and all(type(one) in (int, float) for one in region):
        return check(box, region)
    is_object = isinstance(region, Mapping)
    ring: Any = region
    is_geojson = is_object and ("type" in region or "coordinates" in region)
    if is_geojson:
        rings = region.get("coordinates")
        ring = rings[0] if region.get("type") == "Polygon" and isinstance(rings, (list, tuple)) and len(rings) == 1 else None
    if isinstance(ring, (list, tuple)):
        for i, one in enumerate(ring):
            point = [one.get("lat"), one.get("lng")] if isinstance(one, Mapping) else list(one) if isinstance(one, (list, tuple)) else []
            if is_geojson:
                point = point[1::-1]
            if len(point) != 2 or not is_number(point[0], 90) or not is_number(point[1], 180):
                raise fault("must be a point with a latitude from -90 to 90 and a longitude from -180 to 180", f"within[{i}]")
        if len(ring) < 3:
            raise fault("must have at least 3 points")
        return
    for names in (circle, box) if is_object and not is_geojson else ():
        if any(name in region for name in names):
            for name in region:
                if name not in names:
                    raise fault(f'has no member "{name}"')
            return check(names, [region.get(name) for name in names])
    raise fault("must be a box, a polygon, a circle or the place of a stored region")


def _check_move(query: Mapping[str, Any], near: Mapping[str, Any]) -> None:
    """Refuses what the hub would refuse: after a reconnect, a query with such a circle would end the observer."""
    if "within" in near:
        if "within" not in query:
            raise ViglaError("bad_request", "The observer has no region that could be moved.", "sub")
        if len(near) > 1:
            raise ViglaError("bad_request", '"within" stands alone: a region has no other centre', "within")
        return _check_region(near["within"])
    if "near" not in query:
        raise ViglaError("bad_request", "The observer has no circle that could be moved.", "sub")
    if set(near) != {"lat", "lng"}:
        raise ViglaError("bad_request", '"move" takes "lat" and "lng", and leaves the radius and the limit as they are', "near")
    for name, most in (("lat", 90), ("lng", 180)):
        if type(near[name]) not in (int, float) or not abs(near[name]) <= most:
            raise ViglaError("bad_request", f"must be a number from -{most} to {most}", f"near.{name}")


def _closed() -> ViglaError:
    return ViglaError("closed", "The client was closed.")


def _lost() -> ViglaError:
    return ViglaError("connection_lost", "The connection was lost before the answer came; the request may have been carried out.")


def backoff(attempt: int, chance: Callable[[], float] = random.random) -> float:
    """Seconds before attempt `attempt` (0 is the first): up to FIRST, doubled until LAST; half of it by chance."""
    return min(LAST, FIRST * 2.0 ** min(attempt, 10)) / 2 * (1 + chance())


class Observer:
    """What `observe` returns: iterated, it yields events, each an object of the protocol such as
    {"event": "added", "seq": 8, "key": "p1", "value": …, "prev": None}, and raises what the hub ended it with.

    {"event": "reset"} says that earlier events no longer count. `with hub.observe(…) as observer:` ends it at the end."""

    def __init__(self, end: Callable[[], None], move: Callable[[Union[Centre, Within]], Awaitable[None]]) -> None:
        #: Whether the rules do not declare the order of the query.
        self.lacksIndex = False
        self._end, self._move = end, move
        self._queue: Deque[Dict[str, Any]] = deque()
        self._wake = asyncio.Event()

    def end(self) -> None:
        """Ends the iteration, and tells the hub."""
        self._end()
        self._tell({"event": "ended", "error": _closed()})

    async def move(self, near: Union[Centre, Within]) -> None:
        """Moves the centre of a `near`, or with {"within": …} changes a region; the difference comes as events. Without a
        connection the next one begins there.

        Raises what ended the observer, if it has ended."""
        await self._move(near)

    def _tell(self, event: Dict[str, Any]) -> None:
        self._queue.append(event)
        self._wake.set()

    def __aiter__(self) -> Observer:
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            self._wake.clear()
            await self._wake.wait()
        event = self._queue[0]
        if event["event"] != "ended":
            return self._queue.popleft()  # type: ignore[return-value]
        if event["error"].code == "closed":
            raise StopAsyncIteration
        raise event["error"]

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class _Observed:
    """What an observer observes, and up to which commit it has heard."""

    observer: Observer

    def __init__(self, path: str, events: Iterable[str], query: Mapping[str, Any] | None, maxHz: float | None) -> None:
        # "ready" is always requested, so that an observer knows its position even at an empty place.
        events = list(events)
        self.is_bare = not {"value", "count", "ready"} & set(events)
        self.wanted: Dict[str, Any] = {"path": path, "events": [*events, "ready"] if self.is_bare else list(events)}
        if query is not None:
            self.wanted["query"] = query
        if maxHz is not None:
            self.wanted["maxHz"] = maxHz
        self.error: ViglaError | None = None  # the error that has ended it
        self.is_begun = False
        self.epoch: Any = None
        self.since: Dict[str, Any] | None = None
        self.held: List[Dict[str, Any]] = []
        self.moves = 0          # moves of the centre without an answer
        self.is_moving = False  # until the difference after the answer has arrived: events before it may belong to either circle


class Vigla:
    """One user of a hub. To be made, used and closed in one event loop.

    `address` is http://HOST:PORT?ns=NAME; https, ws and wss are the same. `token`: as whom; a function (which may be async) is called
    for every connection. `onstate` is called with {"state": connecting | connected | waiting | closed}, waiting with "error" and
    "retryMs"; and with credentialRefused and "error" when the client goes on as a visitor. Without it, errors go to the log "vigla"."""

    def __init__(
        self, address: str, ns: str | None = None, token: Token = None, onstate: Callable[[Change], object] | None = None
    ) -> None:
        parts = urlsplit(address)
        schemes = {"http": "ws", "ws": "ws", "https": "wss", "wss": "wss"}
        if parts.scheme not in schemes:
            raise ValueError(f"{address!r} is no address of a hub; write http://HOST:PORT?ns=NAME")
        query = dict(parse_qsl(parts.query)) | {"v": "1"} | ({"ns": ns} if ns else {})
        self._address = urlunsplit((schemes[parts.scheme], parts.netloc, "/.observe", urlencode(query), ""))
        self._token, self._onstate = token, onstate or _warner()
        self.state = "connecting"
        self._next = 1
        self._attempt = 0
        self._asked: Dict[int, _Answer] = {}                             # id → callback with (ok, error): sent, not answered
        self._unsent: List[Tuple[Callable[[], None], _Answer]] = []      # (send, answer): waiting for a connection, in the order of the calls
        self._observed: Dict[int, _Observed] = {}                        # id → …; the id is the observer's for good
        self._signing: List[asyncio.Future[Optional[str]]] = []          # auth calls without an answer
        self._out: asyncio.Queue[str] | None = None                      # texts to be sent
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def __aenter__(self) -> Vigla:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ---- the program's calls

    async def auth(self, token: Token) -> str | None:
        """Acts as the token's user from now on, also over later connections. The answer is the uid."""
        self._token = token
        if self.state == "closed":
            raise _closed()
        future: asyncio.Future[Optional[str]] = asyncio.get_running_loop().create_future()
        self._signing.append(future)
        if self.state == "connected":
            await self._sign(self._out)
        return await future

    def observe(
        self, path: str, events: Iterable[str] = ("value",), query: Query | None = None, maxHz: float | None = None
    ) -> Observer:
        """Observes a place: first what is there, then every change. Iterating the `Observer` raises what the hub ended it with."""
        number, one = self._number(), _Observed(path, events, query, maxHz)

        def end() -> None:
            one.error = one.error or _closed()
            if self._observed.pop(number, None) and self.state == "connected":
                self._send({"op": "unobserve", "sub": number}, lambda ok, error: None)

        async def move(near: Union[Centre, Within]) -> None:
            if one.error:
                raise one.error
            before = one.wanted.get("query") or {}
            _check_move(before, near)
            to: Mapping[str, Any] = near
            change: Dict[str, Any] = {"within": to["within"]} if "within" in to else {"near": to}
            one.wanted["query"] = {**before, **change} if "within" in to else {**before, "near": {**before.get("near", {}), **to}}
            one.moves, one.is_moving = one.moves + 1, True
            if self.state != "connected":
                return
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def answer(ok: Optional[_Ok], error: Optional[ViglaError]) -> None:
                # At once: the difference follows the answer. After a lost connection the next one begins with the new centre.
                is_lost = error is not None and error.code == "connection_lost"
                if not is_lost:
                    one.moves -= 1
                if error and not is_lost:
                    one.wanted["query"] = before
                _settle(future, None, None if is_lost else error and (one.error or error))

            self._send({"op": "move", "sub": number, **change}, answer)
            await future

        one.observer = Observer(end, move)
        self._observed[number] = one
        if self.state == "closed":
            self._end(number, _closed())
        else:
            self._when_connected(lambda: self._begin(number), lambda ok, error: None)
        return one.observer

    async def ask(self, op: str, **members: Any) -> _Ok:
        """Any request of the protocol. The answer is its `ok`."""
        return await self._ask(members, op=op)

    async def get(self, path: str, query: Query | None = None) -> Any:
        return (await self.ask("get", path=path, **({} if query is None else {"query": query})))["value"]

    async def count(self, path: str, query: Query | None = None) -> int:
        return int((await self._ask(op="count", path=path, query=query))["count"])

    async def set(self, path: str, value: Any) -> int:
        """The answer is the number of the commit, as with `update` and `remove`."""
        return int((await self._ask({"value": value}, op="set", path=path))["seq"])

    async def update(self, path: str, value: Mapping[str, Any]) -> int:
        return int((await self._ask({"value": value}, op="update", path=path))["seq"])

    async def remove(self, path: str) -> int:
        return int((await self._ask(op="remove", path=path))["seq"])

    async def push(self, path: str, value: Any) -> str:
        """The answer is the key of the new child."""
        return str((await self._ask({"value": value}, op="push", path=path))["key"])

    async def ping(self) -> None:
        await self._ask(op="ping")

    async def onDisconnect(self, what: str, path: str, value: Any = _ABSENT) -> None:
        """To be done when this connection has ended: set, update or remove; or cancel. With each `connected` it is to be left anew."""
        await self._ask({} if value is _ABSENT else {"value": value}, op="onDisconnect", do=what, path=path)

    async def transaction(self, path: str, update: Callable[[Any], Any]) -> Any:
        """Sets a place to update(what is there), again with what is there then if another was faster, 25 times. The answer is the value."""
        was = await self.get(path)
        for left in reversed(range(25)):
            value = update(was)
            if inspect.isawaitable(value):
                value = await value
            try:
                await self._ask({"was": was, "value": value}, op="transaction", path=path)
                return value
            except ViglaError as error:
                if error.code != "stale" or not left:
                    raise
                was = error.value if hasattr(error, "value") else await self.get(path)
        raise AssertionError("unreachable")

    async def close(self) -> None:
        """Ends the connection and all observers for good."""
        if self.state == "closed":
            return
        self.state = "closed"
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._finish()

    # ---- requests

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    async def _ask(self, members: Mapping[str, Any] | None = None, **request: Any) -> _Ok:
        if self.state == "closed":
            raise _closed()
        future: asyncio.Future[_Ok] = asyncio.get_running_loop().create_future()

        def answer(ok: Optional[_Ok], error: Optional[ViglaError]) -> None:
            _settle(future, ok or {}, error)

        # Encoded now: the program may change the value while the request waits.
        number = self._number()
        text = _text({"id": number, **{name: value for name, value in request.items() if value is not None}, **(members or {})})
        self._when_connected(lambda: self._send_text(number, text, answer), answer)
        return await future

    def _when_connected(self, send: Callable[[], None], answer: _Answer) -> None:
        if self.state == "connected":
            send()
        else:
            self._unsent.append((send, answer))

    def _send(self, request: Mapping[str, Any], answer: _Answer) -> None:
        number = self._number()
        self._send_text(number, _text({"id": number, **request}), answer)

    def _send_text(self, number: int, text: str, answer: _Answer) -> None:
        self._asked[number] = answer
        if self._out is not None:  # else the connection has just ended, which answers the request
            self._out.put_nowait(text)

    def _begin(self, number: int) -> None:
        """Begins an observer, or takes it up where it was."""
        one = self._observed.get(number)
        if one is None:
            return
        since = None if one.is_moving else one.since
        one.is_begun, one.moves, one.held = True, 0, []

        def answer(ok: Optional[_Ok], error: Optional[ViglaError]) -> None:
            if error or ok is None:
                if error and error.code != "connection_lost":
                    self._end(number, error)
                return
            one.epoch = ok.get("epoch")
            one.observer.lacksIndex = ok.get("lacksIndex", False)
            # Held until the first event of the new start: until then the earlier events count.
            if one.since and (ok.get("reset") or not since):
                one.held = [{"event": "reset", "seq": ok["seq"]}]

        self._send_text(number, _text({"id": number, "op": "observe", **one.wanted, "since": since}), answer)

    def _end(self, number: int, error: ViglaError) -> None:
        one = self._observed.pop(number, None)
        if one:
            one.error = error
            one.observer._tell({"event": "ended", "error": error})

    async def _sign(self, out: asyncio.Queue[str] | None) -> None:
        """Sends the credential, if there is one."""
        token: Any = self._token
        if callable(token):
            token = token()
            if inspect.isawaitable(token):
                token = await token
        if out is not self._out:
            return
        calls, self._signing = self._signing, []

        def answer(ok: Optional[_Ok], error: Optional[ViglaError]) -> None:
            if error and error.code == "connection_lost":
                self._signing[:0] = calls  # the credential is sent again
                return
            if error and self._token is token:
                self._token = None
            if error and not calls:
                self._say({"state": "credentialRefused", "error": error})
            for future in calls:
                _settle(future, (ok or {}).get("uid"), error)

        if token:
            self._send({"op": "auth", "token": token}, answer)
        else:
            answer({}, None)

    # ---- the connection

    async def _run(self) -> None:
        try:
            while True:
                reason = ""
                self.state = "connecting"
                self._say({"state": "connecting"})
                try:
                    async with websockets.connect(
                            self._address, max_size=MOST_BYTES, max_queue=None, ping_interval=None, open_timeout=3 * TICK,
                            close_timeout=1) as socket:
                        await self._serve(socket)
                except Exception as error:  # of the network, of a server that is not a hub, of the program's token function
                    reason = _reason(error)
                if self.state == "closed":
                    break
                delay = backoff(self._attempt)
                self._attempt += 1
                self.state = "waiting"
                self._say({"state": "waiting", "error": ViglaError("connection_lost", reason), "retryMs": round(delay * 1000)})
                self._fail_asked()
                await asyncio.sleep(delay)
        except asyncio.CancelledError:
            pass
        self._fail_asked()

    async def _serve(self, socket: Any) -> None:
        out: asyncio.Queue[str] = asyncio.Queue()
        self._out = out
        writer = asyncio.create_task(self._write(socket, out))
        try:
            await self._sign(out)
            self.state = "connected"
            for number, one in list(self._observed.items()):
                if one.is_begun:
                    self._begin(number)
            unsent, self._unsent = self._unsent, []
            for send, _ in unsent:
                send()
            self._say({"state": "connected"})
            await self._read(socket)
        finally:
            if self.state == "connected":
                self.state = "waiting"
            self._out = None
            writer.cancel()

    async def _write(self, socket: Any, out: asyncio.Queue[str]) -> None:
        try:
            while True:
                await socket.send(await out.get())
        except websockets.exceptions.ConnectionClosed:
            pass  # the reader reports the reason

    async def _read(self, socket: Any) -> None:
        silent = 0
        while self.state == "connected":  # before Python 3.12, wait_for may not notice that it is cancelled
            try:
                self._received(json.loads(await asyncio.wait_for(socket.recv(), TICK)))
                silent = 0
            except asyncio.TimeoutError:
                silent += 1
                if silent > 2:
                    raise ConnectionError("The hub does not answer.") from None
                self._send({"op": "ping"}, lambda ok, error: None)

    def _received(self, message: Dict[str, Any]) -> None:
        if "sub" in message:
            number = message.pop("sub")
            one = self._observed.get(number)
            if one is None:
                return
            if "error" in message:
                self._end(number, ViglaError(**message["error"]))
                return
            is_followed = message.pop("more", False)
            one.held.append(message)
            if is_followed:
                return
            one.since = {"epoch": one.epoch, "seq": message["seq"]}
            one.is_moving = one.moves > 0
            held, one.held = one.held, []
            for event in held:
                if not (one.is_bare and event["event"] == "ready"):
                    one.observer._tell(event)
            return
        answer = self._asked.pop(message.get("id") or 0, None)  # null: the hub closes the connection with a reason
        if answer:
            self._attempt = 0
            error = message.get("error")
            answer(message.get("ok"), ViglaError(**error) if error else None)

    def _fail_asked(self) -> None:
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            answer(None, _lost())

    def _finish(self) -> None:
        unsent, self._unsent = self._unsent, []
        for _, answer in unsent:
            answer(None, _closed())
        signing, self._signing = self._signing, []
        for future in signing:
            _settle(future, None, _closed())
        for number in list(self._observed):
            self._end(number, _closed())
        self._say({"state": "closed"})

    def _say(self, change: Change) -> None:
        try:
            self._onstate(change)
        except Exception as error:  # of the program, reported like any other
            asyncio.get_running_loop().call_exception_handler({"message": "onstate of a Vigla client", "exception": error})


def _warner() -> Callable[[Change], object]:
    """The default of `onstate`: a program that handles no errors finds them in its log. A hub that stays away is reported once."""
    last = ""

    def warn(change: Change) -> None:
        nonlocal last
        text = str(change["error"]) if "error" in change else ""
        if text and text != last:
            _log.warning("%s: %s", change["state"], text)
        last = "" if change["state"] == "connected" else text or last

    return warn


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return  # its caller was cancelled
    if error:
        future.set_exception(error)
    else:
        future.set_result(value)


def _text(message: Mapping[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _reason(error: Exception) -> str:
    """Why a connection ended, in words."""
    received = getattr(error, "rcvd", None)
    if received is not None:
        return str(received.reason) or f"The connection ended with {received.code}."
    return str(error) or type(error).__name__
