"""Steps: the Data tab. What is there and how it changes, editing in place and taking it back, windows over many children."""

import json
import tempfile
import urllib.request
from pathlib import Path

from client import Client
from page import By, Keys, another_hub, quiet_until_here


def value_appearsAndLightsUp_whenAnotherClientWritesIt(page, hub, client):
    client.set("/browser", {"a": {"x": 1, "y": "two"}, "b": True, "10": 1, "9": 1})
    page.open(hub, "#ns=default&path=/browser")
    page.shows(["browser=", "9=1", "10=1", 'a=x: 1, y: "two"', "b=true"], "the first content, in the order of keys")
    assert page.run("return vigla.data.flashed") == [], "the first content is not a change"
    page.unfold("/browser/a")
    page.shows(["browser=", "9=1", "10=1", "a=", "x=1", 'y="two"', "b=true"], "the open node")
    client.set("/browser/a/x", 42)
    page.until("return vigla.data.flashed.includes('/browser/a/x')", "the changed row to light up")
    client.update("/browser", {"a/y": "three", "c": {"deep": {"er": 1}}, "b": None})
    page.shows(["browser=", "9=1", "10=1", "a=", "x=42", 'y="three"', "c=deep"], "the update")
    page.until("return ['/browser/a/y', '/browser/c'].every((path) => vigla.data.flashed.includes(path))", "the update to light up")
    client.set("/browser/c/deep/er", None)
    page.until("return !vigla.data.shown.some((row) => row.key === 'c')", "emptied ancestors to go")
    client.set("/browser", 5)
    page.shows(["browser=5"], "a value in the place of the children")
    client.set("/browser", None)
    page.until("return vigla.data.state === 'empty'", "nothing")
    client.set("/browser", {"k": {"l": 1}})
    page.shows(["browser=", "k=l: 1"], "children where nothing was")


def value_isEditedInPlace_andTakenBack(page, hub, client):
    client.set("/edit", {"n": 1, "text": "12", "yes": True})
    page.open(hub, "#ns=default&path=/edit")
    edit(page, "/edit/n", "2.5", Keys.ENTER)
    page.until("return vigla.data.shown.some((row) => row.key === 'n' && row.value === '2.5')", "the new number")
    assert client.get("/edit/n") == 2.5
    edit(page, "/edit/text", "13", Keys.ENTER)  # a text stays a text
    page.until("return vigla.data.shown.some((row) => row.value === '\"13\"')", "the new text")
    assert client.get("/edit/text") == "13"
    edit(page, "/edit/yes", "false", Keys.ESCAPE)
    page.shows(["edit=", "n=2.5", 'text="13"', "yes=true"], "nothing changed by Escape")
    assert client.get("/edit/yes") is True
    edit(page, "/edit/n", '{"a": ', Keys.ENTER)
    assert page.find(".editor-fault").text, "what is wrong with it"
    page.find(".editor-text").send_keys(Keys.ESCAPE)
    page.find("#undo").click()
    page.until("return vigla.data.shown.some((row) => row.value === '\"12\"')", "the text from before")
    page.line("/edit/n").send_keys(Keys.CONTROL, "z")
    page.until("return vigla.data.shown.some((row) => row.key === 'n' && row.value === '1')", "the number from before")
    assert client.get("/edit") == {"n": 1, "text": "12", "yes": True}


def edit(page, path, text, end):
    page.line(path).find_element(By.CSS_SELECTOR, ".value").click()
    page.type(".editor-text", text)
    page.find(".editor-text").send_keys(end)


def places_areAddedRenamedClonedRemoved_andTakenBack(page, hub, client):
    before = {"a": {"x": 1, ".priority": 3}, "b": 2}
    client.set("/hand", before)
    page.open(hub, "#ns=default&path=/hand")
    fill(page, "/hand", "add", "c", '{"deep": true}')
    page.shows(["hand=", "a=x: 1", "b=2", "c=deep: true"], "the new child")
    fill(page, "/hand/a", "rename", "z")
    page.shows(["hand=", "b=2", "c=deep: true", "z=x: 1"], "the new name")
    assert client.get("/hand/z") == {"x": 1, ".priority": 3}
    fill(page, "/hand/z", "clone", "z2")
    page.shows(["hand=", "b=2", "c=deep: true", "z=x: 1", "z2=x: 1"], "the clone")
    page.line("/hand/z").click()
    page.find("#remove").click()
    assert "1 child (x)" in page.accept()
    page.shows(["hand=", "b=2", "c=deep: true", "z2=x: 1"], "the removal")
    page.said("Removed /hand/z").find_element(By.CSS_SELECTOR, ".button").click()
    page.shows(["hand=", "b=2", "c=deep: true", "z=x: 1", "z2=x: 1"], "the removal taken back")
    for left in (["b", "c", "z"], ["a", "b", "c"], ["a", "b"]):
        page.find("#undo").click()
        page.until("return JSON.stringify(vigla.data.shown.slice(1).map((row) => row.key)) === arguments[0]", f"{left}", json.dumps(left, separators=(",", ":")))
    assert client.get("/hand") == before
    fill(page, "/hand", "add", "", "pushed")
    page.until("return vigla.data.count === 3", "a child with a key of its own")
    assert [len(key) for key in client.get("/hand") if key not in before] == [20]
    fill(page, "/hand", "add", "b", "7")
    assert "/hand/b holds 2" in page.accept()
    page.until("return vigla.data.shown.some((row) => row.key === 'b' && row.value === '7')", "the replaced value")


def fill(page, path, tool, key, value=None):
    page.line(path).click()
    page.find(f"#{tool}").click()
    page.type("#row-key", key or Keys.BACKSPACE)
    if value is not None:
        page.type("#row-value", value)
    page.find(".row-form .primary").click()
    page.until("return document.querySelector('.row-form').hidden || document.querySelector('dialog.ask[open]') !== null", "the form to go")


def press_countsForItsRow_whenOthersComeAboveIt(page, hub, client):
    client.set("/press", {"b": 1, "c": {"d": 2}})
    page.open(hub, "#ns=default&path=/press")
    page.line("/press").click()
    where = page.middle(page.line("/press/c").find_element(By.CSS_SELECTOR, ".key"))
    page.mouse("mousePressed", *where)
    client.set("/press/a", 0)
    page.shows(["press=", "a=0", "b=1", "c=d: 2"], "a row above it")
    page.mouse("mouseReleased", *where)
    page.shows(["press=", "a=0", "b=1", "c=", "d=2"], "the row that was pressed to be open")
    assert page.run("return vigla.data.selected") == "/press/c"
    where = page.middle(page.line("/press/b").find_element(By.CSS_SELECTOR, ".key"))
    page.mouse("mousePressed", *where)
    client.set("/press/b", None)
    page.shows(["press=", "a=0", "c=", "d=2"], "the pressed row to go")
    page.mouse("mouseReleased", *where)
    assert page.run("return vigla.data.selected") == "/press/c", "what came to its place was not meant"


def writeForm_followsTheSelection_andNamesWhatItReplaces(page, hub, client):
    client.set("/written", {"name": "Ana", "tags": {"a": True, "b": True}})
    page.open(hub, "#ns=default&path=/written")
    page.line("/written/tags").click()
    page.until("return document.getElementById('write-path').value === '/written/tags' && document.getElementById('write-json').value.includes('true')", "the form to follow")
    page.line("/written/name").click()
    page.until("return document.getElementById('write-path').value === '/written/name' && document.getElementById('write-json').value === '\"Ana\"'", "the form to follow again")
    client.set("/written/zlong", "x" * 30000)
    page.line("/written/zlong").click()
    assert page.find("#write-json").get_property("value") == "", "not the value of the place before"
    client.set("/written/zlong", None)
    page.line("/written/name").click()
    page.type("#write-json", '{"name": "Ana", "tags": tru}')
    page.find("#write-button").click()
    check = page.until("const t = document.getElementById('write-check').textContent; return t.startsWith('Line') && t", "the fault's position")
    assert check.startswith("Line 1, column 25"), check
    assert client.get("/written/name") == "Ana", "a faulty value must not be sent"
    page.line("/written/tags").click()
    page.type("#write-json", "5")
    page.find("#write-button").click()
    page.until("return document.getElementById('write-button').textContent === 'Yes, replace'", "the question")
    assert "2 children (a, b) at /written/tags" in page.find("#write-result").text
    assert client.get("/written/tags") == {"a": True, "b": True}
    page.find("#write-button").click()
    page.until("return document.getElementById('write-result').textContent.startsWith('Written to /written/tags')", "the result of a set")
    assert client.get("/written/tags") == 5
    page.find("#undo").click()
    page.said("Taken back: Wrote /written/tags")
    assert client.get("/written/tags") == {"a": True, "b": True}
    client.set("/written/tags", 5)
    page.line("/written").click()
    page.find("#write-kind label:nth-of-type(2)").click()
    page.type("#write-json", '{"name": null, "deep/er": 1.5}')
    page.find("#write-json").send_keys(Keys.CONTROL, Keys.ENTER)
    page.until("return document.getElementById('write-result').textContent.startsWith('Updated /written')", "the result of an update")
    assert client.get("/written") == {"tags": 5, "deep": {"er": 1.5}}
    page.find("#write-undo").click()
    page.said("Taken back: Updated /written")
    assert client.get("/written") == {"name": "Ana", "tags": 5}, "all names of the update are as they were"
    assert not page.find("#write-undo").is_displayed(), "it can be taken back once"
    assert page.run("return [...document.querySelectorAll('.word')].filter((word) => word.textContent.includes('Updated')).length") == 1, "said in one place"
    page.find("#write-kind label:nth-of-type(3)").click()
    page.type("#write-json", '{"at": {".sv": "timestamp"}}')
    page.find("#write-button").click()
    page.until("return document.getElementById('write-result').textContent.startsWith('Pushed /written/-')", "the result of a push")
    page.find("#write-kind label:nth-of-type(4)").click()
    page.find("#write-button").click()
    page.until("return document.getElementById('write-button').textContent === 'Yes, remove'", "the question before a removal")
    assert client.get("/written") is not None
    page.find("#write-button").click()
    page.until("return document.getElementById('write-result').textContent.startsWith('Removed /written')", "the result of a removal")
    assert client.get("/written") is None
    page.find("#write-kind label:nth-of-type(1)").click()


def write_isRefusedByTheRules_andSaysSo(page, hub, client):
    with another_hub(page, "--dev", rules=json.dumps({"rules": {".read": True, "open": {".write": True}, "shut": {".write": False}}})) as guarded:
        page.open(guarded, "#ns=default&path=/open")
        page.until("return vigla.data.state === 'empty'", "an empty place")
        page.run("vigla.realtime.set('/open/n', 1)")
        page.shows(["open=", "n=1"], "what may be written")
        page.run("vigla.go({ path: '/shut' })")
        page.find("#add").click()
        page.type("#row-key", "n")
        page.type("#row-value", "1")
        page.find(".row-form .primary").click()
        page.said("The rules do not allow it")
        assert page.run("return vigla.data.state") == "empty"


def hostileValues_areText(page, hub, client):
    bad = "<img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script>"
    client.set("/hostile", {"<b>key": bad, "quote\"'": {"<i>": bad}, "‮right": "‮" + bad, "empty": "", "long": "x" * 50000, "__proto__": {"constructor": bad}})
    page.open(hub, "#ns=default&path=/hostile&observe=/hostile")
    page.until("return vigla.data.count === 6 && vigla.data.shown.every((row) => row.key !== '…')", "all of it")
    page.unfold('/hostile/quote"\'')
    page.until("return vigla.data.shown.some((row) => row.key === '<i>')", "the key that looks like markup")
    page.line("/hostile/__proto__").click()
    page.until("return document.getElementById('write-json').value.includes('constructor')", "the value as text")
    page.run("vigla.go({ tab: 'queries' })")
    page.until("return vigla.queries.events.length === 6", "all events")
    page.run("for (const entry of document.querySelectorAll('.log details')) entry.open = true")
    assert page.run("return window.pwned === undefined && document.querySelectorAll('main img, main script, main b, main i').length === 0")
    page.run("vigla.go({ tab: 'data' })")


def messages_ofManyFrames_travelBothWays(page, hub, client):
    page.open(hub)
    page.connected()
    long = "é😀x" * 20000
    answer = page.driver.execute_async_script(
        "const done = arguments[1]; vigla.realtime.set('/long', arguments[0]).then(() => done('ok'), (e) => done(String(e)))", long)
    assert answer == "ok", answer
    assert client.get("/long") == long
    page.run("vigla.go({ path: '/long' })")
    page.until("return vigla.data.state === 'leaf'", "the long text")
    client.set("/long", None)


def manyChildren_scrollInAWindow(page, hub, client):
    """200,000 children: the page holds some fifty rows, and listens to some hundred children, wherever it is."""
    for start in range(0, 200000, 20000):
        client.update("/many", {f"k{i:06}": {"n": i} for i in range(start, start + 20000)})
    page.open(hub, "#ns=default&path=/many")
    page.until("return vigla.data.count === 200000 && vigla.data.counted", "all of them counted")
    page.reads("#place-figures", "200,000 children")
    for part in (0.5, 0.123, 0.999, 0):
        page.run("const box = document.querySelector('.tree-scroll'); box.scrollTop = arguments[0] * box.scrollHeight", part)
        state = page.until("""const { shown, lines, listens, blocks, top } = vigla.data, rows = shown.filter((row) => row.depth === 1);
                              const isThere = top === document.querySelector('.tree-scroll').scrollTop && rows.length > 10 && rows.every((row) => row.key !== '…' && row.value);
                              return isThere && { keys: rows.map((row) => row.key), lines, listens, blocks }""", "the rows there")
        first = int(state["keys"][0][1:])
        assert state["keys"] == [f"k{first + i:06}" for i in range(len(state["keys"]))], "no row is missing"
        assert state["lines"] < 100 and state["listens"] <= 4 and state["blocks"] <= 4, state
        assert page.run("return document.querySelectorAll('.line').length") < 200
    page.line("/many").click()
    page.driver.switch_to.active_element.send_keys(Keys.END)
    page.until("return vigla.data.selected === '/many/k199999' && document.activeElement.row?.path === '/many/k199999'", "the last child by one key")
    page.driver.switch_to.active_element.send_keys(Keys.HOME)
    page.until("return vigla.data.selected === '/many' && document.activeElement.row?.path === '/many'", "the first row by one key")
    page.type("#find", "k123456")
    page.find("#jump").click()
    page.until("return vigla.data.selected === '/many/k123456' && vigla.data.shown.some((row) => row.key === 'k123456')", "the key that was jumped to")
    client.set("/many/k123456/n", -1)
    page.until("return vigla.data.shown.some((row) => row.key === 'k123456' && row.value === 'n: -1')", "its change")
    page.until("return vigla.data.flashed.includes('/many/k123456')", "its row to light up")
    client.set("/many/k123455", None)
    page.until("return vigla.data.count === 199999 && !vigla.data.shown.some((row) => row.key === 'k123455')", "a child to go")
    page.unfold("/many/k123456")
    page.until("return vigla.data.shown.some((row) => row.depth === 2 && row.key === 'n')", "a child open in the middle")
    page.type("#find", "k19999")
    page.find("#filter").click()
    page.until("return vigla.data.count === 10 && vigla.data.shown.length === 11 && vigla.data.shown[10].value === 'n: 199999'", "the keys with that beginning")
    client.set("/many/k19999x", 1)
    page.until("return vigla.data.count === 11", "a key that comes with that beginning")
    page.find("#find").send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    page.until("return vigla.data.count === 200000 && vigla.data.counted", "all of them again")
    client.set("/many", None)
    page.until("return vigla.data.state === 'empty' && vigla.data.blocks === 0", "nothing to be left")


def largeDatabase_opensAtItsRoot(page, hub, client):
    """Values far larger than what is shown are named, not fetched; they open into windows of their own."""
    with another_hub(page, "--dev") as big:
        with Client(big) as other:
            for name in ("first", "second"):
                for part in range(4):
                    other.update(f"/{name}", {f"{part}-{i:03}": {"text": "x" * 9000} for i in range(300)})
            other.set("/small", {"a": 1})
            page.open(big, "#ns=default&path=/")
            page.until("return vigla.data.shown.map((row) => row.key + row.note).join() === '/,firstlarge,secondlarge,small'", "the top of the tree")
            page.unfold("/first")
            page.until("const rows = vigla.data.shown.filter((row) => row.depth === 2); return rows.length > 10 && rows.every((row) => row.key !== '…' && row.value)", "children of a large place")
            assert page.run("return vigla.data.listens") < 20
            received = page.run("return performance.getEntriesByType('resource').reduce((sum, entry) => sum + entry.transferSize, 0)")
            assert received < 2 << 20, f"{received} bytes were fetched for one screen"
            page.unfold("/first")
            page.until("return vigla.data.shown.some((row) => row.key === 'small' && row.value === 'a: 1')", "the small place to be read")
            assert not page.run("return vigla.data.flashed"), "nothing has changed"
            other.set("/small/a", 2)
            page.until("return vigla.data.flashed.includes('/small')", "a small place to be live")
            quiet_until_here(page)


def exportAndImport_areEqual(page, hub, client):
    value = {"a": {".value": 1, ".priority": "p"}, "b": {"c": "é😀<&>", "d": [1, 2, 3]}, "e": True, "f": {".priority": 2, "g": -0.5}}
    client.set("/give", value)
    kept = client.get("/give")
    with tempfile.TemporaryDirectory() as folder:
        page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
        page.open(hub, "#ns=default&path=/give")
        page.until("return vigla.data.count === 4", "the place")
        page.line("/give").click()
        page.find("#export").click()
        page.said("Exported /give")
        file = Path(folder) / "default-give.json"
        page.until_true(lambda: file.exists() and file.stat().st_size > 0, "the file")
        assert json.loads(file.read_text()) == json.loads(hub_export(hub, "/give"))
        client.set("/take", {"old": 1})
        page.run("vigla.go({ path: '/take' })")
        page.until("return vigla.data.count === 1", "the place to import at")
        page.run("document.getElementById('import-file').path = '/take'")  # what its button does before the browser's own dialog
        page.find("#import-file").send_keys(str(file))
        assert "1 child (old)" in page.accept()
        word = page.said("Imported")
        assert client.get("/take") == kept
        word.find_element(By.CSS_SELECTOR, ".button").click()
        page.shows(["take=", "old=1"], "the import taken back")


def hub_export(hub, path):
    with urllib.request.urlopen(f"{hub.url}{path}.json?format=export") as answer:
        return answer.read().decode()


def keys_moveThroughTheTree(page, hub, client):
    client.set("/keys", {"a": {"x": 1}, "b": 2})
    page.open(hub, "#ns=default&path=/keys")
    page.shows(["keys=", "a=x: 1", "b=2"], "the small place")
    page.line("/keys").click()
    active = "return document.activeElement.querySelector?.('.key')?.textContent === arguments[0]"
    for key, expected in [(Keys.ARROW_DOWN, "a"), (Keys.ARROW_RIGHT, "a"), (Keys.ARROW_RIGHT, "x"), (Keys.ARROW_DOWN, "b"),
                          (Keys.HOME, "keys"), (Keys.END, "b"), (Keys.ARROW_UP, "x"), (Keys.ARROW_LEFT, "a"), (Keys.ARROW_LEFT, "a")]:
        page.driver.switch_to.active_element.send_keys(key)
        page.until(active, f"{expected} after {key!r}", expected)
        if expected == "a":
            page.until("return vigla.data.shown.every((row) => row.key !== '…' && row.note !== 'loading')", "what it shows")
    assert page.run("return document.getElementById('write-path').value") == "/keys/a"
    client.set("/keys/a", None)
    page.shows(["keys=", "b=2"], "the row to go")
    page.until("return document.activeElement.classList.contains('line')", "focus to stay in the tree")
    page.line("/keys/b").click()
    page.driver.switch_to.active_element.send_keys(Keys.F2)
    page.type(".editor-text", "3")
    page.find(".editor-text").send_keys(Keys.ENTER)
    page.shows(["keys=", "b=3"], "a value changed by keys alone")


STEPS = [
    value_appearsAndLightsUp_whenAnotherClientWritesIt,
    value_isEditedInPlace_andTakenBack,
    places_areAddedRenamedClonedRemoved_andTakenBack,
    press_countsForItsRow_whenOthersComeAboveIt,
    writeForm_followsTheSelection_andNamesWhatItReplaces,
    write_isRefusedByTheRules_andSaysSo,
    hostileValues_areText,
    messages_ofManyFrames_travelBothWays,
    manyChildren_scrollInAWindow,
    largeDatabase_opensAtItsRoot,
    exportAndImport_areEqual,
    keys_moveThroughTheTree,
]
