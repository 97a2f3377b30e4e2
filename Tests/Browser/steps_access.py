"""Steps: every control of every tab has a role and a name in the browser's accessibility tree, and Tab comes to it, on a desk and on a phone."""

import json

from administrator import be_administrator
from client import Client
from page import Keys, another_hub, quiet_until_here

# Elements that may have the focus, by role. Regions scroll by keys; the page itself focuses headings and the main part.
ROLES = {"button", "textbox", "searchbox", "combobox", "checkbox", "radio", "link", "treeitem", "application", "region", "group", "heading", "main", "spinbutton",
         "dialog", "option", "DisclosureTriangle", "RootWebArea"}

# Visible controls; while a dialog is open, those in the dialog. Tab reaches one button of a radio group, and one row of
# a tree.
CONTROLS = """
const asked = [...document.querySelectorAll('dialog[open]')].at(-1);
const shown = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && (!asked || asked.contains(one));
const controls = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter(shown);
"""

NOT_BY_TAB = CONTROLS + """
return controls.filter((one) => one.tabIndex < 0 && one.matches('a[href], button, input, select, textarea, summary')).map((one) => one.outerHTML.slice(0, 160))"""

UNLABELLED = CONTROLS + """
return controls.filter((one) => one.matches('input, select, textarea') && !one.labels?.length && !one.ariaLabel && !one.getAttribute('aria-labelledby')).map((one) => one.outerHTML.slice(0, 160))"""

BEGIN = CONTROLS + """
window.reached = new Set();
window.hear ??= (document.addEventListener('focusin', (event) => reached.add(event.target)), true);
const isChosen = (one) => one.type !== 'radio' || one.checked;
window.wanted = controls.filter((one) => one.tabIndex >= 0 && isChosen(one));
(asked ?? document.body).querySelector('button, input')?.focus();
return wanted.length"""

MISSED = "return wanted.filter((one) => one.isConnected && !reached.has(one)).map((one) => one.outerHTML.slice(0, 160))"


def is_accessible(page, name):
    """Adds what is wrong with what is on the page to its faults."""
    def check(what, found):
        if found:
            page.faults.append(f"{name}: {what}: {found}")

    nodes = [node for node in page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
             if not node.get("ignored") and any(p["name"] == "focusable" and p["value"].get("value") for p in node.get("properties", []))]
    named = [(node["role"]["value"], node.get("name", {}).get("value", "").strip()) for node in nodes]
    check("without a name", [role for role, words in named if not words])
    check("no role that says what can be done", [(role, words) for role, words in named if role not in ROLES])
    check("fields that only a placeholder names", page.run(UNLABELLED))
    check("controls that Tab passes by", page.run(NOT_BY_TAB))
    left = 3 * page.run(BEGIN) + 10
    while left > 0 and page.run(MISSED):
        for _ in range(10):
            page.tab()
        left -= 10
    check("controls that Tab does not come to", page.run(MISSED))


def on_both(page, name, prepare=None):
    is_accessible(page, name)
    page.size(390, 844, phone=True)
    try:
        if prepare:
            prepare()
        is_accessible(page, f"{name} on a phone")
    finally:
        page.size(1440, 900)


def go(page, **link):
    page.run("vigla.go(arguments[0])", link)
    page.until("return document.querySelector(`.tab[data-tab=${arguments[0]}]:not([hidden])`) !== null", link["tab"], link["tab"])


def everyControl_isNamed_andReachedByTab(page, hub, client):
    page.faults = []
    rules = json.dumps({"rules": {".read": True, ".write": "auth != null", "n": {".validate": "newData.isNumber()"}}})
    with another_hub(page, "--dev", rules=rules) as full:
        be_administrator(page, full, "users")
        with Client(full) as other:
            other.set_as("owner", "/places", {"ana": {"latitude": 37.97, "longitude": 23.73, "timestamp": 1}, "bo": {"latitude": 37.98, "longitude": 23.74, "timestamp": 2}})
            other.set_as("owner", "/news", {"a": {"title": "One", "text": "Two", "at": 1}})
        data(page)
        queries(page)
        follow(page)
        go(page, tab="news", news="/news")
        page.until("return vigla.news.keys.length === 1", "the announcement")
        on_both(page, "announcements")
        administration(page, full)
        sign_in(page)
        assert not page.faults, "\n".join(page.faults)
        quiet_until_here(page)


def data(page):
    go(page, tab="data", path="/places")
    page.until("return vigla.data.count === 2", "the places")
    page.line("/places/ana").click()
    page.until("return document.getElementById('write-json').value !== ''", "the value in the form")
    on_both(page, "data", lambda: page.find("#show-write").click())
    page.run("document.querySelector('.data').removeAttribute('data-writing')")
    page.find("#add").click()
    on_both(page, "data, a child to add")
    page.find("#row-key").send_keys(Keys.ESCAPE)
    page.unfold("/places/ana")
    page.line("/places/ana/latitude").find_element("css selector", ".value").click()
    is_accessible_while_editing(page)
    page.line("/places/ana").click()
    page.find("#remove").click()
    page.until("return document.querySelector('dialog.ask[open]') !== null", "the question")
    on_both(page, "a question")
    page.find("dialog.ask[open] .ask-foot button").click()
    page.find("#filter")
    page.run("vigla.hub.say('Something', { bad: true, action: { title: 'Undo', run() {} } })")
    on_both(page, "a message")
    page.find(".word .icon").click()


def is_accessible_while_editing(page):
    """Tab goes from the text to its type; leaving both ends the editing."""
    names = page.run("return [...document.querySelectorAll('.editor input, .editor select')].map((one) => one.ariaLabel)")
    assert names == ["Value of /places/ana/latitude", "Type of the value"], names
    page.tab()
    assert page.run("return document.activeElement.ariaLabel") == "Type of the value"
    page.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.until("return document.querySelector('.editor') === null", "the end of the editing")


def queries(page):
    go(page, tab="queries", path="/places")
    page.type("#attach-path", "/places")
    page.find("#observe").click()
    page.until("return vigla.queries.events.length === 2", "the events")
    page.find("#where-add").click()
    page.run("const near = document.getElementById('query-near'); near.value = 'circle'; near.dispatchEvent(new Event('change', { bubbles: true }))")
    page.until("return document.getElementById('query-radius').checkVisibility()", "the fields of a circle")
    on_both(page, "queries")


def follow(page):
    go(page, tab="follow", points="/places", events="/places")
    page.until("return vigla.follow.points.length === 2 && vigla.follow.timeline.length === 2", "the points")
    on_both(page, "follow")
    page.find("#map-tiles").click()
    on_both(page, "tiles")
    page.run("document.querySelector('dialog.ask[open] .ask-foot button:nth-child(2)').click()")


def administration(page, hub):
    go(page, tab="rules")
    page.until("return vigla.rules.isChecked && vigla.rules.inForce !== null", "the rules")
    for side in ("explain", "refusals", "cases"):
        page.find(f".rules-side [data-side={side}]").click()
        on_both(page, f"rules, {side}")
    page.run("const area = document.getElementById('rules-text'); area.value = area.value.replace('isNumber', 'isString'); area.dispatchEvent(new Event('input'))")
    page.until("return !document.getElementById('rules-review').disabled", "the check")
    page.find("#rules-review").click()
    page.until("return document.querySelector('.diff') !== null", "the difference")
    on_both(page, "rules, review", lambda: page.find(".rules-side [data-side=editor]").click())
    page.find("#rules-back").click()
    go(page, tab="users")
    page.until("return vigla.users.all", "the list")
    page.find("#user-new").click()
    on_both(page, "a new user")
    page.type("#new-email", "ana@example.org")
    page.find("#user-make").click()
    page.until("return vigla.users.users.length === 1 && document.querySelector('.user-detail:not([hidden]) h2').textContent !== 'New user'", "the new user")
    page.until("return document.querySelector('.word') !== null", "the message")
    page.run("for (const close of document.querySelectorAll('.word .icon')) close.click()")
    on_both(page, "a user")
    go(page, tab="outbox")
    page.until("return vigla.outbox.reads > 0", "the lists")
    on_both(page, "outbox")
    go(page, tab="health")
    page.until("return vigla.health.readings >= 2", "readings")
    page.find(".health-all summary").click()
    on_both(page, "health")
    page.find(".health-all summary").click()


def sign_in(page):
    page.find("#status").click()
    for way in ("account", "guest", "token"):
        page.find(f"[data-way={way}]").click()
        on_both(page, f"sign in by {way}")
    page.find("#sign-out").click()
    page.find("dialog [aria-label=Close]").click()
    page.until("return !document.querySelector('.tab:not([hidden]) .gate').hidden", "the gate")
    on_both(page, "the gate")


STEPS = [everyControl_isNamed_andReachedByTab]
