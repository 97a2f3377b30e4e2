"""The console page in headless Chromium against a real hub. Run through Tests/Browser/run.

Each step is a function; they share one browser and run in order. The page's state is read through `window.vigla`,
which the head of web/app.js documents; what a person does is done with clicks and keys.
"""

import json
import os
import shutil
import sys
import time
import traceback
from pathlib import Path
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Python"))
from client import Client  # noqa: E402
from hub import Hub  # noqa: E402

WAIT_SECONDS = int(os.environ.get("VIGLA_WAIT_SECONDS", "30"))  # an upper bound for slow machines; nothing waits that long when things work


def serve(*options):
    """A hub with the page and with data in memory."""
    return Hub("--memory", "--web", str(ROOT / "web"), *options)


class Page:
    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = os.environ.get("CHROMIUM") or shutil.which("chromium")
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                         "--disable-background-networking", "--disable-component-update", "--disable-sync"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")))
        self.requests = []
        self.messages = []
        self.size(1440, 900)

    def size(self, width, height, phone=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone})

    def scheme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def open(self, hub, fragment=""):
        self.driver.get("about:blank")
        self.driver.get(f"{hub.url}/.console/{fragment}")
        self.until("return window.vigla !== undefined", "the page's program to start")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, what, *arguments):
        """Repeats a script until it returns something true; returns that."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                state = self.run("return window.vigla ? JSON.stringify([vigla.connection, vigla.tree.state, vigla.events.slice(-5)]) : 'no window.vigla'")
                raise AssertionError(f"waited in vain for {what}; page: {state}")
            time.sleep(0.05)

    def connected(self):
        self.until("return vigla.connection.phase === 'connected'", "a connection")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def type(self, selector, text):
        field = self.find(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def click_row(self, key):
        self.until("""const line = [...document.querySelectorAll('.line')].find((l) => l.querySelector('.key').textContent === arguments[0]);
                      if (line) line.click(); return Boolean(line)""", f"a row named {key}", key)

    def picture(self, name):
        folder = os.environ.get("VIGLA_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))

    def drain(self):
        """Collects console messages and requests since the last call."""
        messages = self.driver.get_log("browser")
        self.messages += messages
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self.requests.append(event["params"]["request"]["url"])
            elif event["method"] == "Network.webSocketCreated":
                self.requests.append(event["params"]["url"])
        return messages


def rows(page):
    return page.run("""return [...document.querySelectorAll('.line')].map((l) => l.querySelector('.key').textContent + '=' + l.querySelector('.value').textContent)""")


# ---- steps

def page_connects_andShowsTheClock(page, hub, client):
    page.open(hub)
    page.connected()
    state = page.run("return vigla.connection")
    assert state["session"], state
    assert abs(state["clockOffsetMs"]) < 60000, state
    page.until("return vigla.connection.roundTripMs !== null", "an answer to the ping")
    assert page.find("#status-word").text == "Connected"
    assert page.run("return location.hash") == "#ns=default&path=/"


def token_staysOutOfTheLinkAndOfOtherHosts(page, hub, client):
    page.type("#token", "owner")
    page.find("#connect-button").click()
    page.connected()
    page.until("return vigla.connection.identity !== null || vigla.connection.fault", "an answer to the token")
    assert page.run("return vigla.connection.fault") is None
    assert "owner" not in page.driver.current_url
    assert page.run("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'
    other = f"localhost:{hub.port}"  # the same hub under another name
    page.run("vigla.go({ host: arguments[0] })", other)
    page.until("return vigla.connection.host === arguments[0] && vigla.connection.phase === 'connected'", "the other host", other)
    assert page.run("return vigla.connection.identity") is None
    assert page.find("#token").get_attribute("value") == ""
    page.open(hub)
    page.connected()


def value_appearsAndLightsUp_whenAnotherClientWritesIt(page, hub, client):
    client.set("/browser", {"a": {"x": 1, "y": "two"}, "b": True, "10": 1, "9": 1})
    page.run("vigla.go({ path: '/browser' })")
    page.until("return vigla.tree.state === 'live' && vigla.tree.rows >= 5", "the first snapshot")
    assert [row.split("=")[0] for row in rows(page)] == ["browser", "9", "10", "a", "b"], rows(page)
    assert page.run("return vigla.tree.flashed") == [], "the first snapshot is not a change"
    page.click_row("a")
    page.until("return vigla.tree.rows === 7", "the open node")
    client.set("/browser/a/x", 42)
    page.until("return vigla.tree.flashed.length > 0", "the changed row to light up")
    assert page.run("return vigla.tree.flashed") == ["/browser/a/x"]
    assert "x=42" in rows(page) and 'y="two"' in rows(page)
    client.update("/browser", {"a/y": "three", "c": {"deep": {"er": 1}}, "b": None})
    page.until("return vigla.tree.flashed.length >= 3", "the update to light up")
    assert sorted(page.run("return vigla.tree.flashed.slice(1)")) == ["/browser/a/y", "/browser/c"]
    assert "b=true" not in rows(page)
    assert page.run("return vigla.tree.value()") == {"9": 1, "10": 1, "a": {"x": 42, "y": "three"}, "c": {"deep": {"er": 1}}}
    client.set("/browser/c/deep/er", None)
    page.until("return !('c' in vigla.tree.value())", "emptied ancestors to go")
    page.picture("tree-light")
    page.scheme("dark")
    page.picture("tree-dark")
    page.scheme("light")


def events_comeInOrder_whenAnObserverIsAttached(page, hub, client):
    client.set("/timeline/ana", {"p1": {"text": "first"}, "p2": {"text": "second"}})
    page.type("#attach-path", "/timeline/ana")
    page.find("#attach button").click()
    page.until("return vigla.events.length === 2", "the children that are there")
    client.set("/timeline/ana/p3", {"text": "third"})
    client.set("/timeline/ana/p1/handled", True)
    client.set("/timeline/ana/p2", None)
    page.until("return vigla.events.length === 5", "three more events")
    events = page.run("return vigla.events.map((e) => [e.event, e.key, e.prev === undefined ? null : e.prev])")
    assert events[:4] == [["added", "p1", None], ["added", "p2", "p1"], ["added", "p3", "p2"], ["changed", "p1", None]], events
    assert events[4][:2] == ["removed", "p2"], events
    assert page.run("return vigla.events[3].value") == {"text": "first", "handled": True}
    shown = page.until("const e = [...document.querySelectorAll('.log .event')].map((x) => x.textContent); return e.length === 5 && e", "the log rows")
    assert shown == ["removed", "changed", "added", "added", "added"], shown
    page.type("#log-filter", "handled")
    page.until("return document.querySelectorAll('.log .entry').length === 1", "the filter")
    page.type("#log-filter", Keys.BACKSPACE)
    page.find("#log-pause").click()
    client.set("/timeline/ana/p4", 4)
    page.until("return vigla.events.length === 6", "an event during the pause")
    assert page.run("return document.querySelectorAll('.log .entry').length") == 5
    page.find("#log-pause").click()
    page.until("return document.querySelectorAll('.log .entry').length === 6", "the log after the pause")
    assert "observe=/timeline/ana" in page.run("return location.hash")


def values_arrive_whenAValueObserverIsAttached(page, hub, client):
    client.set("/counter", 1)
    page.run("vigla.observe('/counter', ['value'])")
    page.until("return vigla.events.some((e) => e.path === '/counter' && e.value === 1)", "the first value")
    client.set("/counter", 2)
    page.until("return vigla.events.some((e) => e.path === '/counter' && e.value === 2)", "the second value")
    assert page.run("return vigla.events.filter((e) => e.path === '/counter').map((e) => [e.event, e.value])") == [["value", 1], ["value", 2]]


def write_lands_whenTheFormIsSent(page, hub, client):
    page.find("#write-kind label:nth-of-type(1)").click()
    page.type("#write-path", "/written")
    page.type("#write-json", '{"name": "Ana", "tags": tru}')
    page.find("#write-button").click()
    check = page.until("const t = document.getElementById('write-check').textContent; return t.startsWith('Line') && t", "the fault's position")
    assert check.startswith("Line 1, column 25"), check
    assert client.get("/written") is None, "a faulty value must not be sent"
    page.type("#write-json", '{"name": "Ana", "tags": true}')
    page.find("#write-button").click()
    page.until("return document.getElementById('write-result').textContent.startsWith('Written to /written')", "the result of a set")
    assert client.get("/written") == {"name": "Ana", "tags": True}

    page.find("#write-kind label:nth-of-type(2)").click()
    page.type("#write-json", '{"name": null, "deep/er": 1.5}')
    page.find("#write-json").send_keys(Keys.CONTROL, Keys.ENTER)
    page.until("return document.getElementById('write-result').textContent.startsWith('Updated /written')", "the result of an update")
    assert client.get("/written") == {"tags": True, "deep": {"er": 1.5}}

    page.find("#write-kind label:nth-of-type(3)").click()
    page.type("#write-path", "/written/list")
    page.type("#write-json", '{"at": {".sv": "timestamp"}}')
    page.find("#write-button").click()
    page.until("return document.getElementById('write-result').textContent.startsWith('Pushed /written/list/-')", "the result of a push")
    [(key, value)] = client.get("/written/list").items()
    assert len(key) == 20 and isinstance(value["at"], int), (key, value)

    page.find("#write-kind label:nth-of-type(4)").click()
    page.type("#write-path", "/written")
    page.find("#write-button").click()
    page.until("return document.getElementById('write-button').textContent === 'Yes, remove'", "the question before a removal")
    assert client.get("/written") is not None
    page.find("#write-button").click()
    page.until("return document.getElementById('write-result').textContent.startsWith('Removed /written')", "the result of a removal")
    assert client.get("/written") is None


def messages_ofManyFrames_travelBothWays(page, hub, client):
    long = "é😀x" * 20000
    answer = page.driver.execute_async_script(
        "const done = arguments[1]; vigla.realtime.set('/long', arguments[0]).then(() => done('ok'), (e) => done(String(e)))", long)
    assert answer == "ok", answer
    assert client.get("/long") == long
    page.run("vigla.go({ path: '/long' })")
    page.until("return vigla.tree.state === 'live' && vigla.tree.value() === arguments[0]", "the long text", long)
    client.set("/long", None)


def tree_staysSmall_withThousandsOfChildren(page, hub, client):
    client.set("/many", {f"k{i:05}": {"n": i, "ok": True} for i in range(5000)})
    page.run("vigla.go({ path: '/many' })")
    page.until("return vigla.tree.state === 'live' && vigla.tree.rows > 50", "the big node")
    assert page.run("return vigla.tree.rows") == 101
    assert page.find("#place-figures").text == "5,000 children"
    page.find(".more .link").click()
    page.until("return vigla.tree.rows === 301", "the next page")
    client.set("/many/k00001", None)
    client.set("/many/k00000/n", -1)
    page.until("return rows()[1].includes('n: -1') && rows()[2].startsWith('k00002'); function rows() { return [...document.querySelectorAll('.line')].map((l) => l.querySelector('.key').textContent + ' ' + l.querySelector('.value').textContent) }", "the change inside the big node")
    assert page.run("return vigla.tree.rows") == 301, "the page is filled up again"
    client.set("/many", None)


def keys_moveThroughTheTree(page, hub, client):
    client.set("/keys", {"a": {"x": 1}, "b": 2})
    page.run("vigla.go({ path: '/keys' })")
    page.until("return vigla.tree.state === 'live' && vigla.tree.rows === 3", "the small node")
    page.run("document.querySelector('.line').focus()")
    active = lambda: page.run("return document.activeElement.querySelector?.('.key')?.textContent")
    for key, expected in [(Keys.ARROW_DOWN, "a"), (Keys.ARROW_RIGHT, "a"), (Keys.ARROW_RIGHT, "x"), (Keys.ARROW_DOWN, "b"),
                          (Keys.HOME, "keys"), (Keys.END, "b"), (Keys.ARROW_UP, "x"), (Keys.ARROW_LEFT, "a"), (Keys.ARROW_LEFT, "a")]:
        page.driver.switch_to.active_element.send_keys(key)
        assert active() == expected, (key, expected, active())
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.run("return document.getElementById('write-path').value") == "/keys/a"
    client.set("/keys/a", None)
    page.until("return document.activeElement.querySelector?.('.key')?.textContent === 'keys'", "focus to stay in the tree")


def map_showsMovingPoints_andTheTimelineGrows(page, hub, client):
    walkers = [f"w{i}" for i in range(30)]
    place = lambda i, step: {"latitude": 37.965 + (i % 6) * 0.003 + step * 0.0002, "longitude": 23.72 + (i // 6) * 0.005 + step * 0.0003}
    client.set("/timeline/eva", {f"p{i}": {"timestamp": int(time.time()) - 600, "description": f"Report {i}", **place(i, 4)} for i in range(3)})
    client.set("/users-follow", {"eva": {name: {"current": place(i, 0), "status": "active"} for i, name in enumerate(walkers)}})
    client.set("/users-follow/eva/w0/destination", {"latitude": 37.975, "longitude": 23.735})
    page.run("vigla.go({ path: '/users-follow', view: 'map', events: '/timeline/eva' })")
    page.until("return vigla.map.points.length === 31", "all points")
    for step in range(1, 6):
        for i, name in enumerate(walkers):
            client.set(f"/users-follow/eva/{name}/current", place(i, step))
    page.until("return vigla.map.points.filter((p) => p.moves === 5).length === 30", "five moves of every walker")
    points = {point["label"]: point for point in page.run("return vigla.map.points") if point["kind"] == "fix"}
    assert set(points) == set(walkers)
    for i, name in enumerate(walkers):
        assert abs(points[name]["latitude"] - place(i, 5)["latitude"]) < 1e-9, points[name]
        assert points[name]["path"] == f"/users-follow/eva/{name}/current"
    frames = page.run("return vigla.map.frames")
    client.set("/users-follow/eva/w1/current", place(1, 9))
    page.until("return vigla.map.frames > arguments[0]", "the map to be drawn", frames)
    colours = page.run("""const c = document.getElementById('map'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                          const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size""")
    assert colours > 20, f"the map is blank: {colours} colours"
    client.set("/timeline/eva/p3", {"timestamp": int(time.time()), "description": "Phone grabbed from a scooter", **place(9, 2)})
    page.until("return JSON.stringify(vigla.timeline) === '[\"p3\",\"p2\",\"p1\",\"p0\"]'", "the timeline to grow, newest first")
    titles = page.run("return [...document.querySelectorAll('.post-title')].map((title) => title.textContent)")
    assert titles == ["Phone grabbed from a scooter", "Report 2", "Report 1", "Report 0"], titles
    assert page.run("return vigla.map.entries.length") == 4
    page.picture("map-light")
    page.scheme("dark")
    page.picture("map-dark")
    page.scheme("light")
    client.set("/users-follow/eva/w2", None)
    page.until("return vigla.map.points.length === 30", "the removed walker to leave")
    assert page.run("return location.hash") .startswith("#ns=default&path=/users-follow&view=map&events=/timeline/eva")


def link_opensTheSameView(page, hub, client):
    page.open(hub, "#ns=default&path=/users-follow&view=map&events=/timeline/eva")
    page.until("return vigla.map.points.length === 30 && vigla.timeline.length === 4", "the view of the link")


def phone_showsEveryPane_withoutSidewaysScroll(page, hub, client):
    page.size(390, 844, phone=True)
    for view, pane in [("map", "#map"), ("tree", "#tree"), ("events", "#log-scroll"), ("write", "#write-json")]:
        page.find(f"[data-go={view}]").click()
        page.until("return document.querySelector(arguments[0]).getBoundingClientRect().width > 200", f"the {view} pane", pane)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), f"{view} scrolls sideways"
        page.picture(f"phone-{view}")
    page.size(1440, 900)


def page_comesBack_afterTheHubWasKilled(page, hub, client):
    page.open(hub, "#ns=default&path=/after&observe=/after")
    client.set("/after", {"before": 1})
    page.until("return vigla.events.length === 1 && vigla.tree.rows === 2", "the state before the crash")
    first = page.run("return vigla.connection.session")
    quiet_until_here(page)
    hub.kill()
    page.until("return vigla.connection.phase !== 'connected'", "the loss to show")
    page.until("return vigla.tree.state === 'stale'", "the last known state to be marked")
    assert page.run("return vigla.tree.rows") == 2, "the last known state stays"
    page.until("return document.getElementById('notice').hidden === false", "advice after repeated failure")
    page.picture("reconnecting")
    hub.start()
    page.connected()
    assert page.run("return vigla.connection.session") != first
    page.until("return vigla.tree.state === 'live' && vigla.tree.value() === null", "the empty tree of the new hub")
    with Client(hub) as second:
        second.set("/after", {"since": 2})
        page.until("return JSON.stringify(vigla.tree.value()) === '{\"since\":2}'", "a write after the restart")
        page.until("const e = vigla.events.at(-1); return e.event === 'added' && e.key === 'since'", "an event after the restart")
    page.until("return document.getElementById('notice').hidden", "the advice to go")
    # While the hub is away the browser itself reports each failed attempt; anything else is a fault.
    for message in page.drain():
        assert "ERR_CONNECTION_REFUSED" in message["message"] or "WebSocket connection" in message["message"], message


def closedHub_isExplained(page, hub, client):
    closed = serve()
    try:
        page.open(closed, "#ns=default&path=/users")
        page.until("return vigla.tree.state === 'refused'", "a refusal without rules")
        text = page.until("const b = document.getElementById('tree-blank'); return !b.hidden && b.textContent", "the advice")
        assert "rules do not let you read /users" in text, text
        page.run("vigla.observe('/users', ['added'])")
        page.until("return document.querySelector('.chip[data-state=refused]') !== null", "the refused observer")
        page.picture("refused")
        quiet_until_here(page)
        only_this_host(page, closed)
    finally:
        closed.stop()


# ---- checks over everything

def quiet_until_here(page):
    faults = [m for m in page.drain() if m["level"] in ("SEVERE", "WARNING")]
    assert not faults, f"the console is not quiet: {faults}"


def only_this_host(page, hub):
    page.drain()
    hosts = {urlsplit(url).netloc for url in page.requests if urlsplit(url).scheme in ("http", "https", "ws", "wss")}
    page.requests.clear()
    assert hosts - {f"localhost:{hub.port}"} == {f"127.0.0.1:{hub.port}"}, f"requests to {hosts}"


STEPS = [
    page_connects_andShowsTheClock,
    token_staysOutOfTheLinkAndOfOtherHosts,
    value_appearsAndLightsUp_whenAnotherClientWritesIt,
    events_comeInOrder_whenAnObserverIsAttached,
    values_arrive_whenAValueObserverIsAttached,
    write_lands_whenTheFormIsSent,
    messages_ofManyFrames_travelBothWays,
    tree_staysSmall_withThousandsOfChildren,
    keys_moveThroughTheTree,
    map_showsMovingPoints_andTheTimelineGrows,
    link_opensTheSameView,
    phone_showsEveryPane_withoutSidewaysScroll,
    page_comesBack_afterTheHubWasKilled,
    lambda page, hub, client: only_this_host(page, hub),
    closedHub_isExplained,
]


def main():
    only = sys.argv[1:]
    hub = serve("--dev")
    page = None
    try:
        page = Page()
        with Client(hub) as client:
            for step in STEPS:
                name = step.__name__ if step.__name__ != "<lambda>" else "requests_goToThisHubOnly"
                if only and not any(part in name for part in only):
                    continue
                started = time.monotonic()
                step(page, hub, client)
                print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)
        print("browser test: all steps passed")
        return 0
    except Exception:
        traceback.print_exc()
        print(f"FAILED {name if page else 'at start'}", flush=True)
        if page:
            page.picture("failed")
            for message in page.drain():
                print("console:", message["level"], message["message"])
        return 1
    finally:
        if page:
            page.driver.quit()
        hub.stop()


if __name__ == "__main__":
    sys.exit(main())
