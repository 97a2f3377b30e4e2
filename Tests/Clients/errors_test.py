"""Programs that handle no errors, against the real hub: each error still shows on their stderr, and none of them dies of one. Run through
Tests/Clients/run.

A program is the body of a function with `hub`, a client, and `line()`, the next line that the test sends. It ends with its last line."""

import json
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Tests/Clients")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402
from link import Link  # noqa: E402

OPEN = {"rules": {".read": True, ".write": True, "places": {".geoIndex": {"lat": "lat", "lng": "lng"}}}}
NEAR = "{ query: { near: { lat: 1, lng: 2, radius: 3 } } }"

JS = """
import { createInterface } from 'node:readline';
const { Vigla } = await import(process.argv[2]);
const hub = new Vigla(process.argv[3], JSON.parse(process.argv[4]));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator](), line = () => lines.next();
const ended = (path, wanted) => new Promise((done) => { const o = hub.observe(path, wanted, ({ event }) => event === 'ended' && done(o)); });
BODY
hub.close();
process.stdin.destroy();
"""

PYTHON = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from vigla import Vigla, ViglaError

async def main():
    async def line():
        return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    async with Vigla(sys.argv[2], **json.loads(sys.argv[3])) as hub:
BODY

asyncio.run(main())
"""


class Program:
    def __init__(self, language, body, address, **options):
        self.folder = tempfile.TemporaryDirectory(prefix="vigla-errors-")
        body = textwrap.dedent(body)
        if language == "js":
            file, text = "program.mjs", JS.replace("BODY", body)
            command = ["node", file, (ROOT / "web/vigla.js").as_uri()]
        else:
            file, text = "program.py", PYTHON.replace("BODY", textwrap.indent(body, " " * 8))
            command = [sys.executable, "-B", file, str(ROOT / "Examples/clients/python")]
        (Path(self.folder.name) / file).write_text(text)
        self.process = subprocess.Popen([*command, address, json.dumps(options)], cwd=self.folder.name, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.guard = threading.Timer(60, self.process.kill)  # a missing line fails the test
        self.guard.start()

    def says(self):
        """The next line of its stdout."""
        return self.process.stdout.readline().rstrip()

    def go(self):
        """Lets it continue behind `line()`."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def warns(self):
        """The next line of its stderr."""
        return self.process.stderr.readline().rstrip()

    def rest(self):
        """What it still says until it ends: (exit code, stdout, stderr)."""
        out, err = self.process.communicate()
        self.guard.cancel()
        self.folder.cleanup()
        return self.process.returncode, out, err


class Errors(unittest.TestCase):
    def setUp(self):
        self.hub = Hub("--dev", "--memory", rules=json.dumps(OPEN))
        self.link = Link(self.hub.port)
        self.address = f"http://127.0.0.1:{self.link.port}"
        self.addCleanup(self.hub.stop)
        self.addCleanup(self.link.close)

    def test_circleWithoutIndex_warnsOnce_andFailsNoMove(self):
        """The mistake of a first hour: the handler looks only at what it expects, and nobody awaits `move`."""
        code, out, err = Program("js", f"""
            const o = await ended('/friends', {NEAR});
            o.move({{ lat: 3, lng: 4 }});
            hub.observe('/friends', {NEAR}, () => {{}}).move({{ lat: 3, lng: 4 }});
            await hub.ping();
            """, self.address).rest()
        self.assertEqual((code, out), (0, ""))
        lines = err.splitlines()
        self.assertEqual(len(lines), 2, err)
        for line in lines:
            self.assertRegex(line, r'^The hub ended the observer of /friends: .*"\.geoIndex".* \(missing_index\)$')

    def test_circleWithoutIndex_isThrownWhereItIsIterated(self):
        code, out, err = Program("js", f"""
            try {{ for await (const e of hub.observe('/friends', {NEAR})) console.log(e); }} catch (error) {{ console.log(error.code); }}
            try {{ await (await ended('/friends', {NEAR})).move({{ lat: 3, lng: 4 }}); }} catch (error) {{ console.log(error.code); }}
            """, self.address, ).rest()
        self.assertEqual((code, out.split()), (0, ["missing_index", "missing_index"]), err)
        code, out, err = Program("py", """
            near = {"lat": 1, "lng": 2, "radius": 3}
            observer = hub.observe("/friends", query={"near": near})
            for wait in (observer.__anext__, lambda: observer.move({"lat": 3, "lng": 4})):
                try:
                    print(await wait())
                except ViglaError as error:
                    print(error.code)
            """, self.address).rest()
        self.assertEqual((code, out.split(), err), (0, ["missing_index", "missing_index"], ""))

    def test_endedObserver_isReportedToTheProgram_whereItAsksForThat(self):
        code, out, err = Program("js", """
            const own = new Vigla(process.argv[3], { onended: (path, error) => console.log(path, error.code) });
            await new Promise((done) => own.observe('/a', { events: ['odd'] }, done));
            await own.ping();
            own.close();
            """, self.address).rest()
        self.assertEqual((code, out, err), (0, "/a not_supported\n", ""))

    def test_moveToAnInvalidRegion_isRefusedByTheClient(self):
        regions = [
            ([3, 2, 1, 4], "within.south"), ([1, 2, 3, 400], "within.east"), ({"south": 1, "west": 2, "north": 0, "east": 4}, "within.south"),
            ({"south": 1, "west": 2, "north": 3}, "within.east"), ({"south": 1, "up": 2}, "within"), ({"lat": 1, "lng": 2}, "within.radius"),
            ({"lat": 1, "lng": 2, "radius": 0}, "within.radius"), ([[1, 2], [3, 4]], "within"), ([[1, 2], [3, 4], [5, 190]], "within[2]"),
            ([[1, 2], [3, 4], [5, 6, 7]], "within[2]"), ({"type": "Point"}, "within"), ("", "within"), ({}, "within"),
            ({"type": "Polygon", "coordinates": [[[2, 1], [3, 1], [2.5, 92]]]}, "within[2]"),
        ]
        good = [
            "a/b", [1, 2, 3, 4], {"south": 1, "west": 2, "north": 3, "east": 4}, {"lat": 1, "lng": 2, "radius": 3},
            [[1, 2], [3, 4], [5, 7]], {"type": "Polygon", "coordinates": [[[2, 1], [3, 1], [2.5, 2]]]},
        ]
        moves = [{"within": one} for one, _ in regions] + [{"within": [1, 2, 3, 4], "lat": 1, "lng": 2}] + [{"within": one} for one in good]
        expected = [member for _, member in regions] + ["within"] + ["none"] * len(good)
        # Without a hub, so that only the client can refuse.
        code, out, err = Program("js", f"""
            const alone = new Vigla('http://127.0.0.1:1');
            for (const to of {json.dumps(moves)}) {{
              const o = alone.observe('/places', {{ query: {{ within: [0, 0, 1, 1] }} }});
              try {{ await o.move(to); console.log('none'); }} catch (error) {{ console.log(error.member); }}
              o.end();
            }}
            alone.close();
            """, self.address).rest()
        # The page's client leaves the form of a region to the hub.
        self.assertEqual((code, out.split()), (0, ["none"] * len(regions) + expected[len(regions):]), err)
        code, out, err = Program("py", f"""
            alone = Vigla("http://127.0.0.1:1")
            for to in {moves!r}:
                o = alone.observe("/places", query={{"within": [0, 0, 1, 1]}})
                try:
                    await o.move(to)
                    print("none")
                except ViglaError as error:
                    print(error.member)
                o.end()
            await alone.close()
            """, self.address).rest()
        self.assertEqual((code, out.split()), (0, expected), err)

    def test_move_isKept_whenTheConnectionIsLostBeforeItsAnswer(self):
        bodies = {"js": """
            await hub.set('/places/a', { lat: 50, lng: 50 });
            const o = hub.observe('/places', { events: ['added', 'ready'], query: { near: { lat: 1, lng: 2, radius: 3 } } },
              ({ event }) => console.log(event));
            await hub.ping();
            console.log('begun');
            await line();
            const moved = o.move({ lat: 50, lng: 50 });
            console.log('sent');
            await moved;
            console.log('moved');
            await line();
            """, "py": """
            await hub.set("/places/a", {"lat": 50, "lng": 50})
            o = hub.observe("/places", events=["added", "ready"], query={"near": {"lat": 1, "lng": 2, "radius": 3}})
            async def show():
                async for event in o:
                    print(event["event"], flush=True)
            shown = asyncio.create_task(show())
            await hub.ping()
            await asyncio.sleep(0)
            print("begun", flush=True)
            await line()
            moved = asyncio.create_task(o.move({"lat": 50, "lng": 50}))
            await asyncio.sleep(0)
            print("sent", flush=True)
            await moved
            print("moved", flush=True)
            await line()
            """}
        for language, body in bodies.items():
            with self.subTest(language):
                program = Program(language, body, self.address)
                self.assertEqual([program.says(), program.says()], ["ready", "begun"])
                self.link.hold()
                program.go()
                self.assertEqual(program.says(), "sent")
                self.link.cut()
                self.assertEqual(program.says(), "moved")
                self.link.mend()
                self.assertEqual([program.says() for _ in range(3)], ["reset", "added", "ready"])
                program.go()
                code, _, err = program.rest()
                self.assertEqual(code, 0, err)
                self.assertIn("waiting: ", err)

    def test_refusedToken_andAHubThatIsAway_areShown(self):
        for language, say in (("js", "console.log('here')"), ("py", "print('here', flush=True)")):
            with self.subTest(language):
                program = Program(language, f"await hub.ping()\n{say}\nawait line()", self.address, token="nonsense")
                self.assertRegex(program.warns(), r"credentialRefused: Could not parse auth token\. \(invalid_token\)$")
                self.assertEqual(program.says(), "here")
                self.link.cut()
                self.assertRegex(program.warns(), r"waiting: .+ \(connection_lost\)$")
                self.link.mend()
                program.go()
                self.assertEqual(program.rest()[0], 0)

    def test_callbackThatThrows_stopsNothingElse(self):
        program = Program("js", """
            process.on('uncaughtException', (error) => console.log(error.message));
            const own = new Vigla(process.argv[3], { onstate: ({ state }) => { throw new Error(state); } });
            await own.ping();
            own.close();
            """, self.address)
        code, out, err = program.rest()
        self.assertEqual((code, out.split(), err), (0, ["connecting", "connected", "closed"], ""))

    def test_addressThatNoSocketCanBeOpenedTo_failsEveryRequest(self):
        """As a page of https is not let open ws:."""
        code, out, err = Program("js", """
            hub.close();
            globalThis.WebSocket = class { constructor() { throw new Error('mixed content'); } };
            const own = new (await import(process.argv[2] + '?again')).Vigla(process.argv[3]);
            try { await own.get('/a'); } catch (error) { console.log(error.code, error.text); }
            """, self.address).rest()
        said = "No WebSocket can be opened to this address: mixed content"
        self.assertEqual((code, out, err), (0, f"closed {said}\n", f"Vigla client, closed: {said} (closed)\n"))


if __name__ == "__main__":
    unittest.main()
