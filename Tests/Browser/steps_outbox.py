"""Steps: what a hub could not deliver, on the page: with its reason, tried again, discarded; and a test of a device."""

import json
import socket
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from administrator import be_administrator, looks_right
from client import Client
from page import another_hub, quiet_until_here

RULES = json.dumps({"rules": {
    "devices": {".read": True},
    "feedback": {"$f": {".webhook": "website"}},
    "notifications": {"$u": {"$n": {".notify": {"devices": "devices/$u", "title": "newData.child('title').val()", "wait": 0, "funnel": "news/$n/reach"}}}},
    "reminders": {"$u": {"$n": {".notify": {"devices": "devices/$u", "title": "'Later'", "wait": 7200}}}},
    "news": {".read": True}}})


class Receiver:
    """Another program, which gets the hub's webhooks. `status` is its answer."""

    def __init__(self):
        self.status, self.got = 200, []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(handler):
                body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
                self.got.append((handler.headers["Vigla-Delivery"], body))
                handler.send_response(self.status)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def sending_hub(page):
    """A hub with webhooks to a receiver, and one to a port of this machine that refuses connections; and a client that is its owner."""
    receiver = Receiver()
    with tempfile.TemporaryDirectory(prefix="vigla-outbox-") as folder, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # it does not listen
        hook = {"url": f"http://127.0.0.1:{receiver.server.server_port}/", "secret": "a secret of the test", "private": True}
        hooks = {"website": hook, "sms": {**hook, "devices": True}, "off": {**hook, "devices": True, "url": f"http://127.0.0.1:{closed.getsockname()[1]}/"}}
        config = Path(folder) / "hub.json"
        config.write_text(json.dumps({"outbound": {"webhooks": hooks}}))
        try:
            with another_hub(page, "--dev", "--config", str(config), rules=RULES) as hub, Client(hub) as client:
                client.set_as("owner", "/devices/ana", {"phone": {"kind": "webhook", "name": "sms"}})
                be_administrator(page, hub, "outbox")
                page.until("return vigla.outbox.reads > 0", "the lists")
                yield hub, client, receiver
        finally:
            receiver.stop()


def dead(page, count, what):
    page.until("return vigla.outbox.dead.length === arguments[0] && document.querySelectorAll('.outbox-dead .letter').length === arguments[0]", what, count)


def press(page, label):
    page.find(f".outbox-dead [aria-label={json.dumps(label)}]").click()


def outbox_showsDeadLetters_toRetryAndDiscard(page, hub, client):
    with sending_hub(page) as (_, owner, receiver):
        assert page.find(".outbox-dead .blank").text.startswith("Nothing has failed.")
        assert page.find(".outbox-dead .blank a").text == "docs/notifications.md"
        assert page.find(".outbox-waiting .blank").text.startswith("Nothing waits.")
        assert not page.find("#outbox-retry-all").is_displayed()
        page.run("fetch(document.querySelector('.outbox-dead .blank a').href).then((answer) => answer.text()).then((text) => { window.guide = text; })")
        page.until("return window.guide?.startsWith('# Notifications')", "the document behind the link")
        looks_right(page, "outbox-empty")
        receiver.status = 400
        owner.set("/notifications/ana/n1", {"title": "<b>Lunch</b>"})
        dead(page, 1, "the letter")
        words = page.find(".outbox-dead .letter").text.split("\n")
        assert words[:2] == ["<b>Lunch</b>", "answered 400"], words
        assert {"not retried", "to /devices/ana/phone", "from /notifications/ana/n1", "by /notifications/$u/$n.notify"} <= set(words), words
        receiver.status = 200
        press(page, "Retry <b>Lunch</b>")
        dead(page, 0, "the delivery")
        page.until("return vigla.outbox.waiting.length === 0", "an end to waiting")
        assert len(receiver.got) == 2 and receiver.got[0][0] == receiver.got[1][0], receiver.got
        assert receiver.got[1][1]["notification"]["title"] == "<b>Lunch</b>"
        receiver.status = 404
        owner.set("/feedback/f1", "Good")
        dead(page, 1, "an event's letter")
        words = page.find(".outbox-dead .letter").text.split("\n")
        assert words[:2] == ["Webhook website", "answered 404"] and "from /feedback/f1" in words, words
        press(page, "Discard Webhook website")
        dead(page, 0, "no letter")
        assert page.find(".outbox-dead .blank").is_displayed()
        assert [body["type"] for _, body in receiver.got] == ["notification", "notification", "event"]
        owner.set("/reminders/ana/r1", {"by": "Ana"})
        page.until("return document.querySelector('.outbox-waiting .letter') !== null", "what waits for its time")
        words = page.find(".outbox-waiting .letter").text.split("\n")
        assert words[0] == "Later" and words[1].startswith("first attempt in ") and words[2] == "to /devices/ana", words
        page.find(".outbox-waiting .letter .link").click()
        page.until("return vigla.link.tab === 'data' && vigla.link.path === '/devices/ana'", "its devices on the tab Data")
        quiet_until_here(page)


def outbox_comesPageByPage_andChangesAll(page, hub, client):
    with sending_hub(page) as (_, owner, receiver):
        receiver.status = 400
        owner.set("/devices/bo", {"off": {"kind": "webhook", "name": "off"}})
        owner.set("/notifications/bo/n1", {"title": "To a phone that is off"})
        for i in range(103):
            owner.set(f"/feedback/f{i}", i)
        dead(page, 100, "the first page")
        page.until("return document.querySelector('.outbox-dead .quiet').textContent === '100 or more'", "their number")
        page.until("return vigla.outbox.waiting[0]?.attempts === 1", "what waits")
        text = page.find(".outbox-waiting .letter").text
        assert "To a phone that is off" in text and "1 attempt failed" in text and "next attempt in" in text, text
        page.until_true(lambda: len(receiver.got) >= 103, "all events to be refused")
        page.find(".outbox-dead > .link").click()
        dead(page, 103, "the second page")
        page.until("return document.querySelector('.outbox-dead .quiet').textContent === '103'", "their number")
        ids = page.run("return vigla.outbox.dead.map(({ id }) => id)")
        assert ids == sorted(ids) and page.run("return [...document.querySelectorAll('.outbox-dead .letter')].map((row) => row.dataset.id)") == ids
        looks_right(page, "outbox-full")
        # The focus stays in the list when its row goes.
        second = page.run("return document.querySelectorAll('.outbox-dead [aria-label^=Discard]')[1].closest('li').dataset.id")
        page.run("const one = document.querySelector('.outbox-dead [aria-label^=Discard]'); one.focus(); one.click()")
        dead(page, 102, "one less")
        assert page.run("return document.activeElement.closest('li')?.dataset.id") == second
        receiver.status = 200
        page.find("#outbox-retry-all").click()
        page.said("102 dead letters will be tried again.")
        page.until("return vigla.outbox.dead.length === 0 && vigla.outbox.waiting.length === 1", "all to be delivered but for the phone that is off")
        receiver.status = 400
        for i in range(3):
            owner.set(f"/feedback/g{i}", i)
        dead(page, 3, "further ones")
        page.find("#outbox-discard-all").click()
        assert page.accept().startswith("They are dropped for good")
        page.said("3 dead letters discarded.")
        dead(page, 0, "none")
        quiet_until_here(page)


def outbox_sendsATest_andSaysItsEnd(page, hub, client):
    def send(path):
        page.type("#test-device", path)
        page.find("#test-send").click()

    def ends(text):
        page.until("return vigla.outbox.note.startsWith(arguments[0])", text, text)

    with sending_hub(page) as (_, owner, receiver):
        page.type("#test-title", "Hello")
        send("/devices/ana/phone")
        ends("Delivered: the receiver has accepted it.")
        assert [(body["notification"]["title"], body["notification"]["body"]) for _, body in receiver.got] == [("Hello", "This is a test of the hub.")], receiver.got
        assert page.run("return vigla.outbox.dead.length + vigla.outbox.waiting.length") == 0
        receiver.status = 400
        send("/devices/ana/phone")
        ends("Not delivered: answered 400")
        dead(page, 1, "the letter")
        assert "a test" in page.find(".outbox-dead .letter").text
        send("/devices/nobody/phone")
        ends("There is no device at /devices/nobody/phone.")
        send("/devices/ana.phone")
        assert not page.find("#test-device").get_property("validity")["valid"], "this is no path"
        owner.set("/devices/ana/car", {"kind": "carrier pigeon"})
        send("/devices/ana/car")
        ends("Not delivered: ")
        dead(page, 2, "what no hub can send to")
        owner.set("/devices/ana/off", {"kind": "webhook", "name": "off"})
        send("/devices/ana/off")
        ends("Not delivered yet: 1 attempt failed, the next one is ")
        page.until("return vigla.outbox.waiting.length === 1", "it among what waits")
        looks_right(page, "outbox-test")
        receiver.status = 410
        send("/devices/ana/phone")
        ends("The receiver knows no such device any more")
        assert owner.get("/devices/ana/phone") is None
        # Asked by the page about rows and tests that are refused.
        page.drain()


def outbox_isForAdministrators_andHiddenAsksForNothing(page, hub, client):
    with sending_hub(page) as (sender, owner, receiver):
        page.run("vigla.go({ tab: 'users' })")
        page.until("return vigla.users.all", "the other tab")
        reads = page.run("return vigla.outbox.reads")
        page.driver.execute_async_script("const done = arguments[0]; setTimeout(done, 4600)")
        assert page.run("return vigla.outbox.reads") <= reads + 1, "what had been asked may still have come, no more"
        page.run("vigla.go({ tab: 'outbox' })")
        page.until("return vigla.outbox.reads > arguments[0] + 1", "the lists again", reads)
        receiver.status = 400
        owner.set("/feedback/f1", "Good")
        dead(page, 1, "a letter")
        page.run("vigla.hub.credentials.clear()")
        page.until("return document.querySelector('.tab:not([hidden]) .gate').checkVisibility()", "the notice")
        assert "Only an administrator of the hub sees its outbox." in page.find(".tab:not([hidden]) .gate").text
        assert not page.find(".outbox").is_displayed()
        assert page.run("return document.querySelectorAll('.letter').length") == 0, "nothing of it is kept"
        page.find(".tab:not([hidden]) .gate [data-offer=owner]").click()
        dead(page, 1, "the letter again")
        # What the hub says of a fault.
        page.run("""const real = window.fetch;
                    window.fetch = (url, options) => String(url).includes('/.outbox') ? Promise.resolve(Response.json({ error: 'This hub does not send.' }, { status: 503 })) : real(url, options)""")
        page.reads(".outbox-fault", "This hub does not send.")
        press(page, "Retry Webhook website")
        page.said("This hub does not send.")
        assert page.run("return vigla.outbox.dead.length") == 1, "what was read stays"


def announcement_showsItsFunnel(page, hub, client):
    with sending_hub(page) as (_, owner, receiver):
        owner.set("/news", {"n1": {"title": "Lunch", "acks": {"ana": True}}, "n2": {"title": "Quiet"}, "n3": {"title": "Counted here", "sent": 1200, "failed": 2, "seen": 3}})
        page.run("vigla.go({ tab: 'news', news: '/news' })")
        page.until("return vigla.news?.keys.length === 3", "the announcements")
        owner.set("/notifications/ana/n1", {"title": "Lunch"})
        page.until("return document.querySelector('[data-key=n1] .news-funnel').innerText === '1 sent · 1 delivered'", "the funnel of the first")
        receiver.status = 400
        owner.set("/notifications/ana/n1", None)
        owner.set("/notifications/ana/n1", {"title": "Lunch"})
        owner.set("/notifications/nobody/n1", {"title": "Lunch"})
        page.until("return document.querySelector('[data-key=n1] .news-funnel').innerText === '2 sent · 1 delivered · 1 failed · 1 unreachable'", "what came of the others")
        assert page.find("[data-key=n1] .news-counters").text == "acks 1", "the funnel is no further counter"
        assert not page.find("[data-key=n2] .news-funnel").is_displayed()
        assert page.find("[data-key=n3] .news-funnel").text == "1,200 sent · 2 failed"
        assert page.find("[data-key=n3] .news-counters").text == "seen 3"
        looks_right(page, "news-funnel")
        quiet_until_here(page)


STEPS = [outbox_showsDeadLetters_toRetryAndDiscard, outbox_comesPageByPage_andChangesAll, outbox_sendsATest_andSaysItsEnd,
         outbox_isForAdministrators_andHiddenAsksForNothing, announcement_showsItsFunnel]
