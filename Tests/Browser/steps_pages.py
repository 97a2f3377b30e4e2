"""Steps: pages of others, from another origin: those of README, docs/accounts.md and docs/first-apps.md, and one that imports the hub's client."""

import json
import sys
import threading
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from client import Client
from page import ROOT, another_hub, quiet_until_here, serve

sys.path.insert(0, str(ROOT / "Tests" / "Packaging"))
from readme import blocks  # noqa: E402

RULES = '{"rules":{"chat":{".read":"auth != null",".write":"auth != null"}}}'
IMPORTS = """<!doctype html><output id="where"></output><script type="module">
import { Vigla } from 'http://127.0.0.1:9000/.console/vigla.js';
new Vigla('http://127.0.0.1:9000').observe('/n', { events: ['value'] }, ({ event, value }) => { if (event === 'value') where.textContent = value; });
</script>"""


@contextmanager
def served(page, hub, text, query=""):
    """A page with this text, as `python3 -m http.server` serves it, for the hub's port in place of 9000."""
    body = text.replace("127.0.0.1:9000", hub.address).encode()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            found = self.path.partition("?")[0] == "/page.html"
            self.send_response(200 if found else 204)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body if found else b"")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"127.0.0.1:{server.server_port}"
        page.hosts |= {hub.address, address}
        page.driver.get(f"http://{address}/page.html{query}")
        yield
        page.driver.get("about:blank")
    finally:
        server.shutdown()
        server.server_close()


def readmesPage_showsWhatIsWritten_andWhyNot(page, hub, client):
    [text] = [block.text for block in blocks((ROOT / "README.md").read_text()) if block.test == "browser"]
    assert text.count("\n") == 12, "README's first page has twelve lines"
    with another_hub(page, "--dev") as open_hub, Client(open_hub) as other, served(page, open_hub, text):
        other.set("/chat/a", "hello")
        page.until("return chat.textContent === 'hello\\n'", "what another has said")
        page.type("[name=text]", "good <b>morning</b>")
        page.find("button").click()
        page.until("return chat.textContent === 'hello\\ngood <b>morning</b>\\n'", "what this page has said")
        assert sorted(other.get("/chat").values()) == ["good <b>morning</b>", "hello"]
        # A hub that returns without its data.
        open_hub.kill()
        page.until("return document.forms[0].note.value.startsWith('The connection ended')", "the loss to be shown")
        page.drain()  # the browser's own message
        open_hub.start()
        page.until("return chat.textContent === '' && document.forms[0].note.value === ''", "an empty chat")
        page.drain()
    closed = serve(rules=RULES)
    try:
        with served(page, closed, text):
            page.until("return document.forms[0].note.value === 'Permission denied'", "the refusal of reading")
            page.run("document.forms[0].note.value = ''")
            page.type("[name=text]", "hello")
            page.find("button").click()
            page.until("return document.forms[0].note.value === 'Permission denied'", "the refusal of writing")
            quiet_until_here(page, but_for="Permission denied")
    finally:
        closed.stop()


def accountsPage_signsIn_whereRulesAskWhoItIs(page, hub, client):
    [text] = [block.text for block in blocks((ROOT / "docs/accounts.md").read_text()) if block.test == "browser"]
    closed = serve(rules='{"rules":{"users":{"$uid":{".read":"auth.uid === $uid",".write":"auth.uid === $uid"}}}}')
    try:
        signed_up = urllib.request.Request(f"{closed.url}/identitytoolkit.googleapis.com/v1/accounts:signUp?key=any", json.dumps(
            {"email": "bo@example.org", "password": "correct horse", "returnSecureToken": True}).encode(), method="POST")
        with urllib.request.urlopen(signed_up) as answer:
            user = json.load(answer)

        def write(name):
            address = f"{closed.url}/users/{user['localId']}/name.json?auth={user['idToken']}"
            urllib.request.urlopen(urllib.request.Request(address, json.dumps(name).encode(), method="PUT")).close()

        with served(page, closed, text):
            page.type("[name=email]", "bo@example.org")
            page.type("[name=password]", "wrong horse")
            page.find("button").click()
            page.reads("#who", "INVALID_LOGIN_CREDENTIALS")
            page.drain()  # the browser's own message about a 400
            page.type("[name=password]", "correct horse")
            page.find("button").click()
            page.reads("#who", "a user without a name")
            for name in ("Bo", "Bodil"):
                write(name)
                page.reads("#who", name)
            quiet_until_here(page)
    finally:
        closed.stop()


def firstAppsPage_showsFriendsNearMe_whoMoveAsIDo(page, hub, client):
    found = blocks((ROOT / "docs/first-apps.md").read_text())
    [text], [rules] = ([block.text for block in found if block.test == test] for test in ("browser", "browser rules"))

    def stand(lat, lng):
        page.driver.execute_cdp_cmd("Emulation.setGeolocationOverride", {"latitude": lat, "longitude": lng, "accuracy": 5})

    def marker(name):
        """Where a friend is drawn: metres to the right of me, and below me."""
        return page.run("return [...map.children].find((one) => one.textContent.endsWith(arguments[0])).transform.baseVal[0].matrix", name)

    # Before the page requests the position, which Chromium would look up on the network.
    page.driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["geolocation"]})
    stand(37.975, 23.735)
    with another_hub(page, "--dev", rules=rules) as ruled, Client(ruled) as other, served(page, ruled, text, "?name=ana"):
        other.set("/friends/ben", {"lat": 37.976, "lng": 23.736})
        other.set("/friends/eve", {"lat": 38.5, "lng": 23.736})
        page.reads("#note", "Within 1 km: ben")
        other.set("/friends/eve", {"lat": 37.974, "lng": 23.735})
        page.reads("#note", "Within 1 km: ben, eve")
        assert round(marker("eve")["e"]) == 0 and round(marker("eve")["f"]) == 111, marker("eve")
        assert round(marker("ben")["e"]) == 88 and round(marker("ben")["f"]) == -111, marker("ben")
        other.set("/friends/ben", {"lat": 37.0, "lng": 23.736})
        page.reads("#note", "Within 1 km: eve")
        stand(37.0, 23.735)
        page.reads("#note", "Within 1 km: ben")
        page.until("return [...map.children].map((one) => one.textContent).sort().join() === '● ana,● ben'", "me and the friend")
        assert other.get("/friends/ana") == {"lat": 37, "lng": 23.735}
        quiet_until_here(page)
    with another_hub(page, "--dev") as bare, served(page, bare, text):
        page.until("return note.textContent.includes('.geoIndex')", "the line that the rules lack")
        quiet_until_here(page, but_for=".geoIndex")
    page.driver.execute_cdp_cmd("Emulation.clearGeolocationOverride", {})
    page.driver.execute_cdp_cmd("Browser.resetPermissions", {})


def client_isImported_fromAnotherOrigin(page, hub, client):
    with another_hub(page, "--dev") as open_hub, Client(open_hub) as other, served(page, open_hub, IMPORTS):
        other.set("/n", 5)
        page.reads("#where", "5")
        quiet_until_here(page)


STEPS = [readmesPage_showsWhatIsWritten_andWhyNot, accountsPage_signsIn_whereRulesAskWhoItIs,
         firstAppsPage_showsFriendsNearMe_whoMoveAsIDo, client_isImported_fromAnotherOrigin]
