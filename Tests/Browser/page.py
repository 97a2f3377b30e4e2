"""The console page in headless Chromium: what the steps of the test drive it with."""

import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import JavascriptException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Python"))
from hub import Hub  # noqa: E402

WAIT_SECONDS = int(os.environ.get("VIGLA_WAIT_SECONDS", "30"))  # an upper bound for slow machines; reached only if something fails


def serve(*options, **settings):
    """A hub with the page and with data in memory."""
    return Hub("--memory", "--web", str(ROOT / "web"), *options, **settings)


@contextmanager
def another_hub(page, *options, **settings):
    """A hub for one step. The page has left it when it ends; what the browser itself said of refusals is dropped."""
    hub = serve(*options, **settings)
    try:
        yield hub
        for message in page.drain():
            assert message["level"] != "SEVERE" or "Failed to load resource" in message["message"], message
        page.driver.get("about:blank")
    finally:
        hub.stop()


class Page:
    OPTIONS = {}  # further options of Chromium

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = os.environ.get("CHROMIUM") or shutil.which("chromium")
        for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                         "--disable-background-networking", "--disable-component-update", "--disable-sync"]:
            options.add_argument(argument)
        for name, value in self.OPTIONS.items():
            options.add_experimental_option(name, value)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(os.environ.get("CHROMEDRIVER") or shutil.which("chromedriver")))
        self.requests = []
        self.hosts = set()
        self.messages = []
        self.size(1440, 900)

    def size(self, width, height, phone=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone})

    def scheme(self, name):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def open(self, hub, fragment=""):
        self.driver.get("about:blank")
        self.hosts |= {hub.address, f"localhost:{hub.port}"}
        self.driver.get(f"{hub.url}/.console/{fragment}")
        self.until("return window.vigla?.[window.vigla.link.tab] !== undefined", "the page's program to start")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, script, what, *arguments):
        """Repeats a script until it returns something true; returns that."""
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                value = self.run(script, *arguments)
            except JavascriptException:  # an object that the script needs does not exist yet
                if time.monotonic() > end:
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > end:
                state = self.run("return window.vigla ? JSON.stringify([vigla.connection, vigla.link, vigla.data && { ...vigla.data, shown: vigla.data.shown.slice(0, 12) }, vigla.queries?.events?.slice(-5)]) : 'no window.vigla'")
                raise AssertionError(f"waited in vain for {what}; page: {state}")
            time.sleep(0.05)

    def until_true(self, condition, what):
        """Repeats a condition outside the page until it holds."""
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < end, f"waited in vain for {what}"
            time.sleep(0.05)

    def connected(self):
        self.until("return vigla.connection.phase === 'connected'", "a connection")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def type(self, selector, text):
        field = self.find(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def middle(self, element):
        """Where an element is on the screen, for the mouse."""
        return self.run("const box = arguments[0].getBoundingClientRect(); return [box.x + Math.min(20, box.width / 2), box.y + box.height / 2]", element)

    def mouse(self, kind, x, y):
        """mousePressed or mouseReleased, each by itself."""
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1})

    def tab(self):
        """Presses Tab, wherever the focus is."""
        for kind in ("rawKeyDown", "keyUp"):
            self.driver.execute_cdp_cmd("Input.dispatchKeyEvent", {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})

    def line(self, path):
        """The row of a place on the Data tab, as soon as it is seen and no other row is still to come: until then it may move."""
        return self.until("""const { path, state, shown } = vigla.data, isAtRest = path === vigla.link.path && state !== 'loading' && shown.every((row) => row.key !== '…' && row.note !== 'loading');
                             return isAtRest && [...document.querySelectorAll('.line')].find((line) => line.row?.path === arguments[0] && line.row.kind !== 'note'
                                                                                                        && line.checkVisibility({ visibilityProperty: true }))""",
                          f"the row of {path}", path)

    def reads(self, selector, text):
        """Waits until an element has been painted with exactly this text."""
        self.until("return document.querySelector(arguments[0])?.innerText === arguments[1]", f"{selector} to read {text!r}", selector, text)

    def unfold(self, path):
        self.line(path).find_element(By.CSS_SELECTOR, ".twist").click()

    def rows(self):
        """What the rows of the Data tab say: ["key=value", …]."""
        return self.run("return vigla.data.shown.map((row) => row.key + '=' + row.value)")

    def shows(self, expected, what):
        """Waits until the rows say exactly this."""
        self.until("return JSON.stringify(vigla.data.shown.map((row) => row.key + '=' + row.value)) === arguments[0]",
                   what, json.dumps(expected, separators=(",", ":"), ensure_ascii=False))

    def accept(self):
        """Agrees to the question that is open."""
        self.until("return document.querySelector('dialog.ask[open]') !== null", "a question")
        text = self.find("dialog.ask[open] p").text
        self.find("dialog.ask[open] .ask-foot button:last-child").click()
        return text

    def said(self, beginning):
        """Waits for a short message that begins so; returns its element."""
        return self.until("return [...document.querySelectorAll('.word')].findLast((word) => word.firstChild.textContent.startsWith(arguments[0]))",
                          f"the message {beginning}", beginning)

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


# ---- checks of the whole page

def quiet_until_here(page, but_for=None):
    """Nothing on the browser's console; `but_for`: a text that what is there has to contain."""
    faults = [m for m in page.drain() if m["level"] in ("SEVERE", "WARNING") and not (but_for and but_for in m["message"])]
    assert not faults, f"the console is not quiet: {faults}"


def only_this_host(page, hub):
    """No request went anywhere but to the hubs of the steps; nothing is loaded from elsewhere."""
    page.drain()
    hosts = {urlsplit(url).netloc for url in page.requests if urlsplit(url).scheme in ("http", "https", "ws", "wss")}
    page.requests.clear()
    assert hub.address in hosts and hosts <= page.hosts, f"requests to {hosts - page.hosts}"
