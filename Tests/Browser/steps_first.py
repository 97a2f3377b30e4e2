"""Steps: the first minute with a hub, one for development and one that is closed, on a desk and on a phone."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from administrator import looks_right
from page import ROOT, Hub, another_hub, quiet_until_here

GATE = ".tab:not([hidden]) .gate"
POINTS = [{"path": "/places", "count": 3}, {"path": "/timeline", "count": 2}, {"path": "/users-follow", "count": 4}]


def go(page, **link):
    page.run("vigla.go(arguments[0])", link)


def shown(page, selector):
    return page.run("return document.querySelector(arguments[0])?.checkVisibility({ visibilityProperty: true }) ?? false", selector)


def seen(page, selector, what):
    page.until("return document.querySelector(arguments[0])?.checkVisibility({ visibilityProperty: true })", what, selector)


def carry_out(page, folder):
    """Types the command of an empty database in a folder."""
    name, *words = shlex.split(page.find(".offer-command code").text)
    assert name == "vigla", name
    done = subprocess.run([Path(os.environ["VIGLA_BIN"]).resolve(), *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done


def developmentHub_opensToItsOwner_withOneClick(page, hub, client):
    with another_hub(page, "--dev", rules='{"rules":{}}') as fresh:
        page.open(fresh, "#ns=default&tab=rules")
        seen(page, f"{GATE} [data-offer=owner]", "the owner's button")
        looks_right(page, "first-dev-gate")
        page.find(f"{GATE} [data-offer=owner]").click()
        page.until("return vigla.rules.inForce !== null", "the rules")
        seen(page, ".rules", "the editor")
        go(page, tab="users")
        page.until("return vigla.users.all", "the users")
        go(page, tab="health")
        page.until("return vigla.health.readings >= 1", "the health")
        assert page.run("return document.querySelectorAll('.gate:not([hidden])').length") == 0
        assert "owner" not in page.driver.current_url
        assert page.run("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'
        # A visitor refused by the rules is offered the same two ways in on the Data tab, and in the sheet.
        page.run("vigla.hub.credentials.clear()")
        go(page, tab="data")
        seen(page, "#tree-blank [data-offer=owner]", "the owner's button at a refusal")
        page.find("#status").click()
        seen(page, "dialog [data-offer=owner]", "the owner's button in the sheet")
        looks_right(page, "first-dev-sign-in")
        page.find("dialog [data-offer=owner]").click()
        page.until("return vigla.connection.identity?.admin && vigla.data.state === 'empty' && !document.querySelector('dialog[open]')",
                   "the data, behind the sheet")
        page.drain()  # the browser's own messages about refused requests


def emptyDatabase_offersSampleData_aFile_andACommand(page, hub, client):
    with another_hub(page, "--dev") as fresh:
        page.open(fresh)
        page.until("return document.querySelector('.offer-command code').textContent", "what there is to do")
        looks_right(page, "first-dev-empty")
        carry_out(page, ROOT)
        page.shows(["/=", "greeting=\"hello\""], "what the command wrote")
        assert not shown(page, "#tree-blank")
        page.run("return vigla.hub.realtime.remove('/greeting')")
        seen(page, "#tree-blank [data-offer=sample]", "the empty database again")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "mine.json"
            file.write_text('{"mine": 1}')
            # What its button does before the browser's own dialog.
            page.run("HTMLInputElement.prototype.click = function () { window.chosen = this.path; }")
            page.find("#tree-blank [data-offer=import]").click()
            assert page.run("return window.chosen") == "/"
            page.find("#import-file").send_keys(str(file))
            page.shows(["/=", "mine=1"], "the file")
        page.run("return vigla.hub.realtime.remove('/mine')")
        seen(page, "#tree-blank [data-offer=sample]", "the empty database again")
        page.find("#tree-blank [data-offer=sample]").click()
        page.until("return vigla.data.state === 'children' && vigla.data.count === 6", "the sample")
        page.said("Loaded the sample data.").find_element("css selector", ".button").click()
        page.until("return vigla.data.state === 'empty'", "the undo")
        seen(page, "#tree-blank [data-offer=sample]", "the empty database again")
        page.find("#tree-blank [data-offer=sample]").click()
        page.until("return vigla.data.count === 6", "the sample again")
        looks_right(page, "first-dev-data")
        follow_listsThePlacesThatHoldPositions(page)
        go(page, tab="news")
        page.until("return document.querySelectorAll('#news li').length === 2", "the announcements of the sample")
        looks_right(page, "first-dev-news")
        quiet_until_here(page)


def follow_listsThePlacesThatHoldPositions(page):
    go(page, tab="follow")
    page.until("return vigla.follow.places?.length > 0", "the places")
    assert page.run("return vigla.follow.places") == POINTS
    seen(page, "#points-found button", "the list")
    looks_right(page, "first-dev-follow")
    [button] = [one for one in page.driver.find_elements("css selector", "#points-found button") if "/users-follow" in one.text]
    assert button.text == "/users-follow 4 positions", button.text
    button.click()
    page.until("return vigla.follow.points.length === 4", "the points")
    looks_right(page, "first-dev-map")
    go(page, points="")
    seen(page, "#points-found button", "the list again")


def closedHub_asksForTheSecret(page, hub, client):
    with tempfile.TemporaryDirectory(prefix="vigla-first-") as data:
        closed = Hub("--data", data, "--web", str(ROOT / "web"))
        try:
            page.open(closed)
            page.until("return vigla.data.state === 'refused'", "the refusal")
            assert page.run("return vigla.hub.isDev()") is False
            assert not shown(page, "[data-offer=owner]")
            looks_right(page, "first-closed-data")
            go(page, tab="follow")
            page.until("return document.querySelector('.map-blank').textContent.startsWith('The rules do not let you')", "the refusal")
            looks_right(page, "first-closed-follow")
            go(page, tab="health")
            seen(page, f"{GATE} [data-offer=secret]", "who this is for")
            assert page.run("return [...document.querySelectorAll('[data-offer=owner]')].every((one) => one.hidden)")
            looks_right(page, "first-closed-gate")
            page.find(f"{GATE} [data-offer=secret]").click()
            page.until("return document.activeElement.id === 'token'", "the field of the secret")
            assert not shown(page, "#email") and not shown(page, "dialog [data-offer=owner]")
            looks_right(page, "first-closed-secret")
            page.find("#token").send_keys((Path(data) / "admin-secret.txt").read_text().strip())
            page.find("#use-token").click()
            page.until("return vigla.health?.readings >= 1", "the health")
            go(page, tab="data")
            page.until("return document.querySelector('.offer-command code').textContent.endsWith('--auth-file admin-secret.txt')",
                       "a command without the secret")
            carry_out(page, data)
            page.shows(["/=", "greeting=\"hello\""], "what the command wrote")
            for message in page.drain():
                assert message["level"] != "SEVERE" or "401" in message["message"], message  # the browser's own message about a refusal
            page.driver.get("about:blank")
        finally:
            closed.stop()


STEPS = [developmentHub_opensToItsOwner_withOneClick, emptyDatabase_offersSampleData_aFile_andACommand, closedHub_asksForTheSecret]
