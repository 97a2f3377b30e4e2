"""Steps: queries, the map and the announcements."""

import json
import math
import os
import re
import shlex
import subprocess
import time
import urllib.request
from urllib.parse import quote, unquote

from selenium.webdriver.support.ui import Select
from websockets.sync.client import connect

from administrator import looks_right
from client import Client
from page import By, Keys, another_hub, quiet_until_here


def events_comeInOrder_whenAnObserverIsAttached(page, hub, client):
    page.open(hub, "#ns=default&tab=queries&path=/")
    client.set("/timeline/ana", {"p1": {"text": "first"}, "p2": {"text": "second"}})
    page.until("return vigla.queries !== undefined", "the tab")
    page.type("#attach-path", "/timeline/ana")
    page.find("#observe").click()
    page.until("return vigla.queries.events.length === 2", "the children that are there")
    client.set("/timeline/ana/p3", {"text": "third"})
    client.set("/timeline/ana/p1/handled", True)
    client.set("/timeline/ana/p2", None)
    page.until("return vigla.queries.events.length === 5", "three more events")
    events = page.run("return vigla.queries.events.map((e) => [e.event, e.key, e.prev === undefined ? null : e.prev])")
    assert events[:4] == [["added", "p1", None], ["added", "p2", "p1"], ["added", "p3", "p2"], ["changed", "p1", None]], events
    assert events[4][:2] == ["removed", "p2"], events
    assert page.run("return vigla.queries.events[3].value") == {"text": "first", "handled": True}
    shown = page.until("const e = [...document.querySelectorAll('.log .event')].map((x) => x.textContent); return e.length === 5 && e", "the log rows")
    assert shown == ["removed", "changed", "added", "added", "added"], shown
    page.type("#log-filter", "handled")
    page.until("return document.querySelectorAll('.log .entry').length === 1", "the filter")
    page.type("#log-filter", Keys.BACKSPACE)
    page.find("#log-pause").click()
    client.set("/timeline/ana/p4", 4)
    page.until("return vigla.queries.events.length === 6", "an event during the pause")
    assert page.run("return document.querySelectorAll('.log .entry').length") == 5
    page.find("#log-pause").click()
    page.until("return document.querySelectorAll('.log .entry').length === 6", "the log after the pause")
    assert "observe=/timeline/ana" in page.run("return location.hash")
    # A pressed element stays under the pointer until it is released.
    where = page.middle(page.find(".log summary"))
    page.mouse("mousePressed", *where)
    client.set("/timeline/ana/p5", 5)
    page.until("return vigla.queries.events.length === 7", "an event while an entry is pressed")
    page.mouse("mouseReleased", *where)
    page.until("return document.querySelectorAll('.log .entry').length === 7", "the log after the release")
    opened = page.run("return [...document.querySelectorAll('.log .entry[open] .entry-key')].map((key) => key.textContent)")
    assert opened == ["p4"], opened


def values_arrive_whenAValueObserverIsAttached(page, hub, client):
    client.set("/counter", 1)
    page.run("vigla.queries.observe('/counter', ['value'])")
    page.until("return vigla.queries.events.some((e) => e.path === '/counter' && e.value === 1)", "the first value")
    client.set("/counter", 2)
    page.until("return vigla.queries.events.some((e) => e.path === '/counter' && e.value === 2)", "the second value")
    assert page.run("return vigla.queries.events.filter((e) => e.path === '/counter').map((e) => [e.event, e.value])") == [["value", 1], ["value", 2]]


def query_isBuilt_watchedReadAndCopied(page, hub, client):
    client.set("/scores", {"ana": {"points": 3}, "bo": {"points": 9}, "cy": {"points": 5}})
    page.open(hub, "#ns=default&tab=queries&path=/scores")
    choose(page, "#query-order", "key")
    choose(page, "#query-range", "range")
    page.type("#query-start", "b")
    choose(page, "#query-side", "first")
    page.type("#query-count", "1")
    assert "orderByKey(), startAt(\"b\"), limitToFirst(1)" in page.find("#same").text
    page.find("[data-form=curl]").click()
    assert "orderBy=%22%24key%22&startAt=%22b%22&limitToFirst=1" in page.find("#same").text
    page.find("#read-once").click()
    page.until("return vigla.queries.events.some((e) => e.event === 'read' && JSON.stringify(e.value) === '{\"bo\":{\"points\":9}}')", "what was read")
    choose(page, "#query-order", "child")
    page.type("#query-child", "points")
    page.type("#query-start", Keys.BACKSPACE)
    choose(page, "#query-side", "last")
    page.type("#query-count", "2")
    page.find("#attach [name=moved]").click()
    page.find("#observe").click()
    page.until("return vigla.queries.events.filter((e) => e.event === 'added').length === 2", "the last two")
    client.set("/scores/ana/points", 7)
    client.set("/scores/ana/points", 10)
    page.until("return vigla.queries.events.at(-1).event === 'changed' && vigla.queries.events.at(-1).value.points === 10", "the change")
    heard = page.run("return vigla.queries.events.slice(1).map((e) => [e.event, e.key, e.prev === undefined ? null : e.prev])")
    assert heard == [["added", "cy", None], ["added", "bo", "cy"], ["removed", "cy", None], ["added", "ana", None], ["moved", "ana", "bo"], ["changed", "ana", "bo"]], heard
    page.open(hub, page.run("return location.hash"))
    page.until("return vigla.queries.observers[0] === '/scores?orderBy=\"points\"&limitToLast=2' && vigla.queries.events.length === 2", "the query of the link")
    page.picture("queries-light")


def choose(page, selector, value):
    Select(page.find(selector)).select_by_value(value)


PLACES_RULES = json.dumps({"rules": {".read": True, ".write": True, "places": {".indexOn": ["status", "rating"], ".geoIndex": {"lat": "at/lat", "lng": "at/lng"}}}})
PLACES = {name: {"status": status, "rating": rating, "at": {"lat": lat, "lng": lng}} for name, status, rating, lat, lng in [
    ("bar", "open", 4, 37.976, 23.736), ("den", "shut", 5, 37.9755, 23.7355), ("inn", "open", 2, 37.99, 23.76), ("pub", "open", 5, 37.98, 23.735)]}


def conditionsAndCircle_areBuilt_watchedAndCopied(page, hub, client):
    with another_hub(page, "--dev", rules=PLACES_RULES) as geo, Client(geo) as other:
        other.set("/places", PLACES)
        page.open(geo, "#ns=default&tab=queries&path=/places")
        page.find("#where-add").send_keys(Keys.ENTER)
        assert page.run("return document.activeElement.ariaLabel") == "Child of condition 1"
        page.driver.switch_to.active_element.send_keys("status", Keys.TAB, Keys.TAB, "open")  # is
        choose(page, "#query-near", "circle")
        page.type("#query-centre", "137.975, 23.735")
        page.until("return document.querySelector('.query-fault').textContent.startsWith('A centre is')", "what is wrong with the centre")
        page.type("#query-centre", "37.975, 23.735")
        page.until("return document.querySelector('.query-fault').textContent.startsWith('Give the circle a radius')", "what else it needs")
        page.type("#query-radius", "1000")
        query = {"where": [["status", "==", "open"]], "near": {"lat": 37.975, "lng": 23.735, "radius": 1000}}
        same = copied(page)
        assert json.loads(same["observe"])["query"] == query, same
        assert same["sdk"].startswith("// The SDKs know no distances. "), same
        assert json.dumps(query, separators=(",", ":")) in same["sdk"], same
        is_answered_everywhere(geo, same, ["bar", "pub"])
        page.find("#query-explain").click()
        plan = page.until("return document.getElementById('query-plan').textContent", "from where the hub looks")
        assert re.fullmatch(r"Begins with (the positions of the children|the index “status”, by a condition), and looks at \d of 4 children\.", plan), plan
        page.find("#read-once").click()
        read = page.until("return vigla.queries.events.find((e) => e.event === 'read')", "what is there once")
        assert [key for key, _ in read["order"]] == ["bar", "pub"] and abs(read["order"][0][1] - 141.59) < 0.1, read
        page.find("#observe").click()
        page.until("return vigla.queries.events.filter((e) => e.event === 'added').length === 2", "those in the circle")
        other.set("/places/den/status", "open")
        other.set("/places/bar/at", {"lat": 37.99, "lng": 23.76})
        other.set("/places/pub", None)
        page.until("return vigla.queries.events.length === 6", "three more events")
        heard = page.run("return vigla.queries.events.slice(1).map((e) => [e.event, e.key, Math.round(e.distance), e.why ?? null])")
        assert heard == [["added", "bar", 142, None], ["added", "pub", 556, None], ["added", "den", 71, None], ["removed", "bar", 2754, "left"], ["removed", "pub", 556, "deleted"]], heard
        page.until("return [...document.querySelectorAll('.log .entry-prev')].map((one) => one.textContent).join() === 'deleted · 556 m,left · 2.75 km,71 m,556 m,142 m,'", "the distances in the log")
        page.run("for (const entry of document.querySelectorAll('.log details')) entry.open = true")
        page.until("return document.querySelector('.log').textContent.includes('in order: bar 142 m, pub 556 m')", "what was read, in its order")
        page.run("for (const entry of document.querySelectorAll('.log details')) entry.open = false")
        page.find("#where-add").click()
        for text in ("rating", Keys.TAB, Keys.ARROW_DOWN * 5, Keys.TAB, "3"):
            page.driver.switch_to.active_element.send_keys(text)
        page.until("return vigla.queries.text.includes(`'rating >= 3'`)", "the second condition")
        looks_right(page, "queries-near")
        page.find("[aria-label='Remove condition 2']").click()
        counts_areTold_withoutChildren(page, other)
        page.size(390, 844, phone=True)
        page.run("document.querySelector('.query-log').scrollIntoView()")
        page.picture("queries-log-phone")
        page.size(1440, 900)
        link = page.run("return location.hash")
        page.open(geo, link)
        page.until("return vigla.queries.observers.some((text) => text.includes('near=37.975,23.735,1000')) && vigla.queries.events.some((e) => e.key === 'den')", "the query of the link")
        asUser_aCircleIsReadOnce_andNotObserved(page)
        quiet_until_here(page)


def asUser_aCircleIsReadOnce_andNotObserved(page):
    """Who acts as a user has the realtime protocol, which knows no circles, and REST, which does."""
    page.run("vigla.hub.credentials.paste('owner')")
    page.until("return vigla.connection.identity?.admin === true", "an administrator")
    page.run("vigla.hub.credentials.act({ uid: 'ana', token: {} })")
    page.until("return document.querySelector('.log').textContent.includes('while you act as a user')", "what cannot be observed as her")
    choose(page, "#query-near", "circle")
    page.type("#query-centre", "37.975 23.735")
    choose(page, "#query-side", "first")
    page.type("#query-count", "1")
    page.find("#read-once").click()
    page.until("return Object.keys(vigla.queries.events.findLast((e) => e.event === 'read')?.value ?? {}).join() === 'den'", "the nearest one, as her")
    page.run("vigla.hub.credentials.act(undefined)")
    page.until("return document.querySelector('.chip[data-state=live]') !== null", "the observers, as himself again")


def counts_areTold_withoutChildren(page, other):
    for box in page.driver.find_elements(By.CSS_SELECTOR, ".kinds input"):
        if box.is_selected() != (box.get_attribute("name") == "count"):
            box.send_keys(Keys.SPACE)
    assert "counts" in copied(page)["sdk"].splitlines()[0]
    assert read_over_rest(copied(page)["curl"]) == 1
    page.find("[aria-label='Remove condition 1']").click()
    page.find("#read-once").click()
    page.until("return vigla.queries.events.at(-1).event === 'read' && vigla.queries.events.at(-1).value === 1", "the count of the circle")
    page.find("#observe").click()
    page.until("return vigla.queries.events.at(-1).event === 'count' && vigla.queries.events.at(-1).value === 1", "the first count")
    other.set("/places/new", PLACES["bar"])
    page.until("return vigla.queries.events.at(-1).value === 2", "the next count")
    assert page.run("return vigla.queries.events.at(-1).key") is None


def copied(page):
    """The same query in every form, as the page shows it."""
    forms = {}
    for form in page.run("return [...document.querySelectorAll('[data-form]')].map((button) => button.dataset.form)"):
        page.find(f"[data-form={form}]").click()
        forms[form] = page.run("return vigla.queries.text")
    return forms


def is_answered_everywhere(hub, same, keys):
    """What the page gives to copy is taken by the hub, and selects these children."""
    with connect(f"ws://{hub.address}/.observe", compression=None) as socket:
        socket.send(same["observe"])
        told = [json.loads(socket.recv(timeout=20)) for _ in range(1 + len(keys))]
        assert "ok" in told[0] and [event["key"] for event in told[1:]] == keys, told
    assert sorted(read_over_rest(same["curl"])) == sorted(keys)
    program, *rest = shlex.split(same["command"])
    assert program == "vigla", same
    line = subprocess.run([os.environ["VIGLA_BIN"], *rest, "--count", str(len(keys))], capture_output=True, text=True, timeout=60)
    assert [json.loads(text)["key"] for text in line.stdout.splitlines()] == keys, line


def read_over_rest(command):
    """What curl would be answered that asks for no stream."""
    with urllib.request.urlopen(re.search(r"'(http[^']+)'", command).group(1)) as answer:
        return json.load(answer)


def map_showsMovingPoints_andTheTimelineGrows(page, hub, client):
    page.open(hub)
    walkers = [f"w{i}" for i in range(30)]
    place = lambda i, step: {"latitude": 37.965 + (i % 6) * 0.003 + step * 0.0002, "longitude": 23.72 + (i // 6) * 0.005 + step * 0.0003}
    client.set("/timeline/eva", {f"p{i}": {"timestamp": int(time.time()) - 600, "description": f"Report {i}", **place(i, 4)} for i in range(3)})
    client.set("/users-follow", {"eva": {name: {"current": place(i, 0), "status": "active"} for i, name in enumerate(walkers)}})
    client.set("/users-follow/eva/w0/destination", {"latitude": 37.975, "longitude": 23.735})
    page.run("vigla.go({ tab: 'follow', points: '/users-follow', events: '/timeline/eva' })")
    page.until("return vigla.follow?.points.length === 31", "all points")
    for step in range(1, 6):
        for i, name in enumerate(walkers):
            client.set(f"/users-follow/eva/{name}/current", place(i, step))
    page.until("return vigla.follow.points.filter((p) => p.moves === 5).length === 30", "five moves of every walker")
    points = {point["label"]: point for point in page.run("return vigla.follow.points") if point["kind"] == "fix"}
    assert set(points) == set(walkers)
    for i, name in enumerate(walkers):
        assert abs(points[name]["latitude"] - place(i, 5)["latitude"]) < 1e-9, points[name]
        assert points[name]["path"] == f"/users-follow/eva/{name}/current"
    frames = page.run("return vigla.follow.frames")
    client.set("/users-follow/eva/w1/current", place(1, 9))
    page.until("return vigla.follow.frames > arguments[0]", "the map to be drawn", frames)
    colours = page.run("""const c = document.getElementById('map'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                          const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size""")
    assert colours > 20, f"the map is blank: {colours} colours"
    client.set("/timeline/eva/p3", {"timestamp": int(time.time()), "description": "Phone grabbed from a scooter", **place(9, 2)})
    page.until("return JSON.stringify(vigla.follow.timeline) === '[\"p3\",\"p2\",\"p1\",\"p0\"]'", "the timeline to grow, newest first")
    titles = page.run("return [...document.querySelectorAll('.post-title')].map((title) => title.textContent)")
    assert titles == ["Phone grabbed from a scooter", "Report 2", "Report 1", "Report 0"], titles
    assert page.run("return vigla.follow.entries.length") == 4
    page.picture("map-light")
    page.scheme("dark")
    page.picture("map-dark")
    page.scheme("light")
    page.find("#map").send_keys("n")
    followed = page.until("return vigla.follow.followed", "a point to be followed")
    assert followed == "/users-follow/eva/w0/current", followed
    client.set(followed, {"latitude": 38.1, "longitude": 23.9})
    page.until("const c = vigla.follow.centre; return Math.abs(c.latitude - 38.1) < 1e-4 && Math.abs(c.longitude - 23.9) < 1e-4", "the map to go with it")
    page.find("#map").send_keys("0")
    page.until("return vigla.follow.followed === null && vigla.follow.autoFit", "all points again")
    client.set("/users-follow/eva/w2", None)
    page.until("return vigla.follow.points.length === 30", "the removed walker to leave")
    assert page.run("return location.hash") .startswith("#ns=default&tab=follow&path=/&points=/users-follow&events=/timeline/eva")


def circle_isMovedOnTheMap_byHandAndByKeys(page, hub, client):
    """A circle that is observed is dragged, clicked and stepped elsewhere; its observer is told the difference."""
    with another_hub(page, "--dev", rules=PLACES_RULES) as geo, Client(geo) as other:
        other.set("/places", PLACES)
        page.open(geo, "#ns=default&tab=queries&path=/places&observe=" + quote('/places?near=37.975,23.735,600'))
        page.until("return vigla.queries.events.filter((e) => e.event === 'added').length === 3", "those within")
        page.find(".chip [aria-label^='Show /places']").click()
        circle = page.until("return vigla.follow?.circles[0]?.isChosen && vigla.follow.circles[0]", "the map to show the circle")
        assert circle["near"] == {"lat": 37.975, "lng": 23.735, "radius": 600} and circle["size"] == 3, circle
        box = page.run("const b = document.getElementById('map').getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]")
        page.until("""const [x, y] = vigla.follow.circles[0].at, map = document.getElementById('map');
                      return Math.hypot(x - map.clientWidth / 2, y - map.clientHeight / 2) < 1""", "it to be in the middle")
        looks_right(page, "circle")
        drag(page, box, [box[0] + 150, box[1] - 100])
        page.until("return vigla.queries.observers[0] !== '/places?near=37.975,23.735,600'", "the query to have moved")
        moved = page.run("return vigla.follow.circles[0]")
        assert moved["near"]["lat"] > 37.976 and moved["near"]["lng"] > 23.737 and moved["near"]["radius"] == 600, moved
        within = sorted(key for key, place in PLACES.items() if metres_between(moved["near"], place["at"]) <= 600)
        page.until("return vigla.follow.circles[0].size === arguments[0]", f"those within: {within}", len(within))
        assert keys_told(page) == within
        assert f"near={moved['near']['lat']},{moved['near']['lng']},600" in unquote(page.run("return location.hash"))
        # By keys, with the accessible description.
        page.find("#map").send_keys(Keys.SHIFT + Keys.ARROW_LEFT * 3)
        page.until("return vigla.follow.circles[0].near.lng < arguments[0]", "it to move west", moved["near"]["lng"])
        page.until("""return /^\\/places \\d within 600 m of 37\\.\\d+, 23\\.\\d+$/
                      .test(document.querySelector('.follow-map [role=status]').textContent)""", "what is said")
        # A click outside, where no child is within the circle.
        page.mouse("mousePressed", box[0] - 500, box[1] + 300)
        page.mouse("mouseReleased", box[0] - 500, box[1] + 300)
        page.until("return vigla.follow.circles[0].size === 0", "it to have gone away from all")
        page.until("return vigla.queries.events.findLast((e) => e.event === 'removed')?.why === 'left'", "why they went")
        page.find("#map").send_keys(Keys.ESCAPE)
        page.until("return !vigla.follow.circles[0].isChosen && document.querySelector('.map-card').hidden", "it to be let go")
        page.find("#map").send_keys("c")
        page.until("return vigla.follow.circles[0].isChosen", "it to be chosen again")
        # The circle disappears with its permission.
        owner = {"Authorization": "Bearer owner"}
        deploy = urllib.request.Request(f"{geo.url}/.settings/rules.json", CLOSED_PLACES.encode(), owner, method="PUT")
        urllib.request.urlopen(deploy).close()
        page.until("return vigla.follow.circles.length === 0", "the circle to end")
        quiet_until_here(page)


CLOSED_PLACES = json.dumps({"rules": {"places": {".geoIndex": {"lat": "at/lat", "lng": "at/lng"}}}})


def drag(page, start, end):
    steps = [[start[i] + (end[i] - start[i]) * part / 5 for i in (0, 1)] for part in range(1, 6)]
    for kind, (x, y), button in [("mouseMoved", start, "none"), ("mousePressed", start, "left"),
                                 *[("mouseMoved", step, "left") for step in steps], ("mouseReleased", end, "left")]:
        page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {
            "type": kind, "x": x, "y": y, "button": button, "buttons": 1 if kind == "mouseMoved" and button == "left" else 0, "clickCount": 1})


def keys_told(page):
    """Who is within, by the events alone."""
    keys = set()
    for event, key in page.run("return vigla.queries.events.map((e) => [e.event, e.key])"):
        (keys.add if event == "added" else keys.discard if event == "removed" else len)(key)
    return sorted(keys)


def metres_between(one, other):
    lat, lng = math.radians(other["lat"] - one["lat"]), math.radians(other["lng"] - one["lng"])
    half = math.sin(lat / 2) ** 2 + math.cos(math.radians(one["lat"])) * math.cos(math.radians(other["lat"])) * math.sin(lng / 2) ** 2
    return 2 * 6_371_009 * math.asin(math.sqrt(half))


def map_hasCoastLinesFromAfar_andTilesWhenAnAddressIsTyped(page, hub, client):
    page.open(hub, "#ns=default&tab=follow&path=/")
    page.until("return vigla.follow?.coast > 100", "the coast lines of the world")
    page.picture("coast-light")
    page.find("#map-tiles").click()
    page.type("#tiles-address", "tiles")
    page.find("#tiles-set").click()
    page.until("return document.querySelector('dialog.ask[open] .bad').textContent.startsWith('The address begins')", "what is wrong with it")
    # Another origin, like that of a tile server.
    other = hub.url.replace("127.0.0.1", "localhost")
    assert other != hub.url
    page.type("#tiles-address", f"{other}/.console/mark.svg?tile={{z}}-{{x}}-{{y}}")
    page.type("#tiles-credit", "drawn by nobody")
    page.find("#tiles-set").click()
    page.until("return vigla.follow.tiles !== '' && vigla.follow.coast === 0", "tiles in the place of the coast")
    page.until("return performance.getEntriesByType('resource').some((entry) => entry.name.includes('tile=1-0-1'))", "the tiles to be asked for")
    assert page.find(".map-credit").text == "drawn by nobody"
    assert "tile" not in page.run("return location.hash"), "a link does not carry it"
    page.open(hub, "#ns=default&tab=follow&path=/")
    page.until("return vigla.follow?.tiles !== ''", "the address to be kept in this browser")
    page.find("#map-tiles").click()
    page.find("#tiles-none").click()
    page.until("return vigla.follow.coast > 100 && localStorage.length === 0", "none again, and nothing kept")


def announcements_appear_andCount(page, hub, client):
    page.open(hub, "#ns=default&tab=news&path=/&news=/news/school")
    page.until("return document.querySelector('.news-scroll .blank').textContent.startsWith('Nothing at /news/school')", "the empty feed")
    page.type("#news-title", "Closed <b>today</b>")
    page.type("#news-text", "Snow.")
    page.find("#announce").click()
    key = page.until("return vigla.news.keys[0]", "the announcement")
    value = client.get(f"/news/school/{key}")
    assert value["title"] == "Closed <b>today</b>" and isinstance(value["at"], int) and value["severity"] == "info", value
    client.update(f"/news/school/{key}", {"seen": 3, "acks/ana": True, "acks/bo": True})
    page.until("return vigla.news.items[0].includes('acks 2 · seen 3')", "the counters")
    client.set("/news/school/-Zlater", {"text": "Open again", "severity": "urgent"})
    page.until("return vigla.news.keys.length === 2 && vigla.news.keys[0] === '-Zlater'", "the newest first")
    page.picture("news-light")
    page.find("[aria-label='Remove -Zlater']").click()
    page.accept()
    page.until("return vigla.news.keys.length === 1", "the removal")
    page.said("Removed").find_element(By.CSS_SELECTOR, ".button").click()
    page.until("return vigla.news.keys.length === 2", "the removal taken back")


STEPS = [
    query_isBuilt_watchedReadAndCopied,
    conditionsAndCircle_areBuilt_watchedAndCopied,
    events_comeInOrder_whenAnObserverIsAttached,
    values_arrive_whenAValueObserverIsAttached,
    map_showsMovingPoints_andTheTimelineGrows,
    circle_isMovedOnTheMap_byHandAndByKeys,
    map_hasCoastLinesFromAfar_andTilesWhenAnAddressIsTyped,
    announcements_appear_andCount,
]
