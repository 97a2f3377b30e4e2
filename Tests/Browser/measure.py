"""Measures the console page in headless Chromium with much data; it takes too long for `make test`.

    VIGLA_BIN=.build/release/vigla .build/browser-venv/bin/python Tests/Browser/measure.py [million] [database] [--minutes 10]

million    A place of 1,000,000 children with 200 changes a second, half of them in rows that are on the screen; every 30 seconds it is
           scrolled for five. Told for each ten seconds: frames per second that the browser drew (DrawFrame of Chromium's trace), its longest
           time without one, the page's heap after a collection, elements, and the resident memory of the page's process.
database   A database of 500 MB in one place of 500,000 children: how long it takes until its root, and a place in it, are on the screen, what
           was transferred for them, the first paint, whether the console stayed quiet, and that Export writes all of it to a file.

The environment is that of Tests/Browser/run, which makes it. Run it on a machine that does nothing else: the browser draws with its processor.
"""

import json
import random
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from websockets.sync.client import connect

from client import Client
from page import Page, quiet_until_here, serve

CHILDREN = 1_000_000
CHANGES = 200           # a second
WINDOW = 10             # seconds
CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline.frame"]
FRAME = "DrawFrame"


def rest(hub, method, path, value):
    request = urllib.request.Request(f"{hub.url}{path}.json?print=silent&auth=owner", data=json.dumps(value).encode(), method=method)
    urllib.request.urlopen(request, timeout=300).close()


class Writer(threading.Thread):
    """Changes children at a steady rate; `seen` are the ones on the screen."""

    def __init__(self, hub):
        super().__init__(daemon=True)
        self.client = Client(hub)
        self.seen, self.count, self.ends = range(20), 0, False

    def run(self):
        begun = time.monotonic()
        while not self.ends:
            number = random.choice(self.seen) if self.count % 2 else random.randrange(CHILDREN)
            self.client.set(f"/many/k{number:07}/n", self.count)
            self.count += 1
            time.sleep(max(0, begun + self.count / CHANGES - time.monotonic()))


class Traced(Page):
    """The page, with what Chromium's trace says of its frames, over a connection of its own to the browser."""

    def __init__(self):
        super().__init__()
        address = self.driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
        with urllib.request.urlopen(f"http://{address}/json/version") as answer:
            self.socket = connect(json.load(answer)["webSocketDebuggerUrl"], max_size=None, compression=None)

    def trace(self):
        """Begins to trace."""
        self.socket.send(json.dumps({"id": 1, "method": "Tracing.start", "params": {
            "transferMode": "ReportEvents", "traceConfig": {"includedCategories": CATEGORIES}}}))
        while "id" not in json.loads(self.socket.recv(timeout=30)):
            pass

    def frames(self):
        """Ends the trace; the times in seconds at which frames were drawn."""
        self.socket.send(json.dumps({"id": 2, "method": "Tracing.end"}))
        drawn = []
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("method") == "Tracing.tracingComplete":
                return sorted(drawn)
            if message.get("method") == "Tracing.dataCollected":
                drawn += [event["ts"] / 1e6 for event in message["params"]["value"] if event["name"] == FRAME]

    def memory(self):
        self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        figures = {metric["name"]: metric["value"] for metric in self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
        return figures["JSHeapUsedSize"] / 1e6, int(figures["Nodes"])

    def wheel(self, pixels):
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseWheel", "x": 400, "y": 500, "deltaX": 0, "deltaY": pixels})


def resident(page):
    """Megabytes of the process of the page: the largest of the browser's renderers, found below the driver."""
    def below(pid):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield child
                yield from below(child)

    found = [0]
    for pid in below(page.driver.service.process.pid):
        try:
            if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found += [int(line.split()[1]) / 1000 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
        except FileNotFoundError:  # it has just ended
            continue
    return max(found)


def million(minutes):
    hub = serve("--dev")
    page = None
    try:
        for start in range(0, CHILDREN, 50_000):
            rest(hub, "PATCH", "/many", {f"k{i:07}": {"n": i} for i in range(start, start + 50_000)})
        page = Traced()
        page.driver.execute_cdp_cmd("Performance.enable", {})
        begun = time.monotonic()
        page.open(hub, "#ns=default&path=/many")
        page.until("return vigla.data.shown.length > 10 && vigla.data.shown.every((row) => row.key !== '…')", "the first rows")
        rows = time.monotonic() - begun
        page.until(f"return vigla.data.count === {CHILDREN} && vigla.data.counted", "all to be counted")
        print(f"{CHILDREN:,} children: first rows after {rows:.1f} s, all counted after {time.monotonic() - begun:.1f} s", flush=True)
        writer = Writer(hub)
        writer.start()
        print("   s   frames/s  longest ms  scrolled  changes/s  heap MB  nodes  resident MB", flush=True)
        rates, heaps, begun = [], [], time.monotonic()
        for window in range(int(minutes * 60 / WINDOW)):
            page.trace()
            started, before, is_scrolled, looked = time.monotonic(), writer.count, window % 3 == 2, 0
            while time.monotonic() < started + WINDOW:
                if time.monotonic() > looked + 0.5:  # if nothing changes, the browser has nothing to draw
                    writer.seen = page.run("return vigla.data.shown.filter((row) => row.depth === 1 && row.key !== '…').map((row) => Number(row.key.slice(1)))") or writer.seen
                    looked = time.monotonic()
                if is_scrolled and time.monotonic() < started + 5:
                    page.wheel(120)  # never against an end, where there is nothing to draw either
                time.sleep(0.016 if is_scrolled else 0.2)
            changes = (writer.count - before) / (time.monotonic() - started)
            drawn = page.frames()
            gaps = [1000 * (b - a) for a, b in zip(drawn, drawn[1:])]
            rate = (len(drawn) - 1) / (drawn[-1] - drawn[0]) if len(drawn) > 1 else 0
            heap, nodes = page.memory()
            rates.append(rate)
            heaps.append(heap)
            print(f"{time.monotonic() - begun:6.0f} {rate:8.1f} {max(gaps, default=0):10.0f}  {'yes' if is_scrolled else 'no ':8}  "
                  f"{changes:8.0f} {heap:9.1f} {nodes:6} {resident(page):9.0f}", flush=True)
        writer.ends = True
        third = max(1, len(heaps) // 3)
        print(f"frames/s: least {min(rates):.1f}, median {statistics.median(rates):.1f}; heap: median of the first third {statistics.median(heaps[:third]):.1f} MB, "
              f"of the last {statistics.median(heaps[-third:]):.1f} MB")
        quiet_until_here(page)
    finally:
        if page:
            page.driver.quit()
        hub.stop()


def database():
    hub = serve("--dev")
    page = None
    try:
        text = "x" * 950
        for part in range(500):
            rest(hub, "PUT", f"/records/part{part:03}", {f"r{i:04}": {"id": i, "text": text} for i in range(1000)})
        rest(hub, "PUT", "/small", {"a": 1})
        page = Page()
        for path, rows in [("/", 3), ("/records", 20), ("/records/part123", 20)]:
            begun = time.monotonic()
            page.open(hub, f"#ns=default&path={path}")
            page.until(f"const rows = vigla.data.shown; return rows.length >= {rows} && rows.every((row) => row.key !== '…' && (row.value || row.depth === 0))", f"what is at {path}")
            seconds = time.monotonic() - begun
            paint, received = page.run("""return [performance.getEntriesByName('first-contentful-paint')[0].startTime,
                performance.getEntriesByType('resource').reduce((sum, entry) => sum + entry.transferSize, 0)]""")
            print(f"{path}: on the screen after {seconds:.2f} s; first paint after {paint:.0f} ms; {received / 1000:.0f} kB received by requests", flush=True)
        exported(page, hub, text)
        quiet_until_here(page)
        print("the console stayed quiet")
    finally:
        if page:
            page.driver.quit()
        hub.stop()


def exported(page, hub, text):
    """Writes the place to a file, which must hold all of it."""
    with tempfile.TemporaryDirectory() as folder:
        page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
        page.open(hub, "#ns=default&path=/records")
        page.until("return vigla.data.count === 500", "the place")
        begun = time.monotonic()
        page.find("#export").click()
        while not page.run("return [...document.querySelectorAll('.word')].some((word) => word.textContent.startsWith('Exported'))"):
            assert time.monotonic() < begun + 300, "the export takes too long"
            time.sleep(0.2)
        seconds = time.monotonic() - begun
        file = Path(folder) / "default-records.json"
        page.until_true(file.exists, "the file")
        with file.open() as opened:
            records = json.load(opened)
        assert len(records) == 500 and all(part == {f"r{i:04}": {"id": i, "text": text} for i in range(1000)} for part in records.values())
        print(f"exported after {seconds:.1f} s: {file.stat().st_size / 1e6:.0f} MB, all of it", flush=True)


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    minutes = 10
    if "--minutes" in sys.argv:
        minutes = float(sys.argv[sys.argv.index("--minutes") + 1])
        words.remove(sys.argv[sys.argv.index("--minutes") + 1])
    if not words or "database" in words:
        database()
    if not words or "million" in words:
        million(minutes)


main()
