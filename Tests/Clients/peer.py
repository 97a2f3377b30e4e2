"""Carries out the lines of a scenario with Examples/clients/python/vigla.py, and says what it is told.

    peer.py ADDRESS OPTIONS
    {"turn":1,"call":"observe","as":"feed","path":"/feed"}  →  {"turn":1,"ok":null}, later {"observer":"feed","event":{…}}
    {"turn":2,"call":"get","path":"/feed"}                  →  {"turn":2,"ok":…} or {"turn":2,"error":{…}}

Calls begin in the order of their lines. What the client says of itself comes as {"state":"connected"}."""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "Examples/clients/python"))
sys.dont_write_bytecode = True

from vigla import Vigla, ViglaError  # noqa: E402


def say(**line):
    print(json.dumps(line), flush=True)


def told(error):
    return {"code": error.code, "text": error.text, "member": error.member, "messages": error.messages, "printed": str(error)}


class Peer:
    def __init__(self, address, options):
        self.hub = Vigla(address, **options, onstate=self.hear_state)
        self.observers = {}
        self.running = set()

    @staticmethod
    def hear_state(change):
        say(state=change["state"], **({"error": told(change["error"])} if "error" in change else {}))

    async def hear(self, name, observer):
        try:
            async for event in observer:
                say(observer=name, event=event)
            error = ViglaError("closed", "The client was closed.")
        except ViglaError as ended:
            error = ended
        say(observer=name, event={"event": "ended", "error": told(error)})

    def begin(self, call, members):
        """What is to be awaited."""
        name = members.pop("as", None)
        if call == "observe":
            members.pop("iterate", None)
            self.observers[name] = self.hub.observe(members.pop("path"), **members)
            return self.start(self.hear(name, self.observers[name]))
        if call == "end":
            return self.observers[name].end()
        if call == "move":
            return self.observers[name].move(**members)
        if call == "lacksIndex":
            return asyncio.sleep(0, self.observers[name].lacksIndex)
        if call == "add":
            by = members["value"]
            return self.hub.transaction(members["path"], lambda was: (was or 0) + by)
        return getattr(self.hub, call)(**members)

    def start(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def carry_out(self, turn, call, members):
        try:
            begun = self.begin(call, members)
            say(turn=turn, ok=await begun if begun is not None else None)
        except ViglaError as error:
            say(turn=turn, error=told(error))


async def main():
    peer = Peer(sys.argv[1], json.loads(sys.argv[2]))
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        request = json.loads(line)
        peer.start(peer.carry_out(request.pop("turn"), request.pop("call"), request))
    await peer.hub.close()


asyncio.run(main())
