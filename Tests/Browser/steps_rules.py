"""Steps: rules on the page, typed, refused, deployed, explained, and gone back to."""

import json
import urllib.error
import urllib.request

from administrator import be_administrator, looks_right, replace
from page import Keys, another_hub, quiet_until_here

RULES = """{
  "rules": {
    // what everybody may see
    "public": { ".read": true },
    "users": {
      "$uid": {
        ".write": "auth.uid == $uid",
        ".validate": "newData.hasChild('name')",
      },
    },
  },
}
"""


def request(hub, path, method="GET", value=None):
    """What a visitor without a token is answered."""
    body = None if method == "GET" else json.dumps(value).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(hub.url + path, data=body, method=method)) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        return refusal.code


def rules_areTypedRefusedDeployedAndExplained(page, hub, client):
    with another_hub(page, "--dev", rules=RULES) as guarded:
        be_administrator(page, guarded, "rules")
        page.until("return vigla.rules.isChecked && vigla.rules.inForce !== null", "the rules in force")
        assert page.run("return vigla.rules.text") == RULES
        assert page.find("#rules-state").text == "No faults · in force"
        assert not page.find("#rules-review").is_enabled(), "there is nothing to deploy"
        typing_showsFaults(page)
        deploying_isReviewedFirst_andTheHubObeys(page, guarded)
        goingBack_isADeployOfTheFormerText(page, guarded)
        refusals_appearAndAreExplained(page, guarded)
        words_sayWhatTheTextMeans(page)
        cases_showWhatTheyCover(page)
        values_stayText(page, guarded)
        nothingStays_forWhoSignsOut(page)
        quiet_until_here(page)


def typing_showsFaults(page):
    # An unknown variable at the caret, in the rule of /public.
    page.run("""const area = document.getElementById('rules-text'), at = area.value.indexOf('true'); area.focus(); area.setSelectionRange(at, at + 4)""")
    page.find("#rules-text").send_keys('"dta.exists()"')
    page.until("return vigla.rules.isChecked && vigla.rules.faults.length === 1", "the fault")
    [fault] = page.run("return vigla.rules.faults")
    assert (fault["line"], fault["column"], fault["kind"]) == (4, 27, "fault"), fault
    assert page.find("#rules-state").text == "1 fault · edited"
    assert not page.find("#rules-review").is_enabled()
    mark = page.find(".code-mark mark")
    assert mark.get_attribute("textContent") == "dta.exists"
    assert page.find("#rules-text").get_attribute("aria-invalid") == "true"
    drawn, typed = page.run("""const mark = document.querySelector('.code-mark mark').getBoundingClientRect(), area = document.getElementById('rules-text').getBoundingClientRect();
                               return [mark.top - area.top, 8 + 3 * 20]""")
    assert abs(drawn - typed) < 4, f"the mark is at {drawn} px, its line at {typed}"
    looks_right(page, "rules-fault", lambda: page.find(".rules-side [data-side=editor]").click())
    page.run("document.getElementById('rules-text').setSelectionRange(0, 0)")
    page.find(".faults .fault").click()
    assert page.run("const area = document.getElementById('rules-text'); return area.value.slice(area.selectionStart, area.selectionEnd)") == "dta.exists"
    page.run("document.querySelector('.rules-side [data-side=explain]').click()")


def deploying_isReviewedFirst_andTheHubObeys(page, hub):
    assert request(hub, "/public.json") == 200
    replace(page, "#rules-text", RULES.replace('"public": { ".read": true }', '"open": { ".read": true }'))
    page.until("return !document.getElementById('rules-review').disabled", "the check")
    page.find("#rules-text").send_keys(Keys.CONTROL, Keys.ENTER)
    page.until("return document.querySelector('.diff') !== null", "the difference")
    changed = page.run("return [...document.querySelectorAll('.diff-new code, .diff-gone code')].map((line) => line.textContent.trim())")
    assert changed == ['"public": { ".read": true },', '"open": { ".read": true },'], changed
    names = page.run("return [...document.querySelectorAll('.rule-names')].map((line) => line.textContent)")
    assert names == ["+ 1 rule added: /open.read", "− 1 rule removed: /public.read"], names
    assert request(hub, "/public.json") == 200, "a review changes nothing"
    looks_right(page, "rules-review", lambda: page.find(".rules-side [data-side=editor]").click())
    page.find("#rules-deploy").click()
    page.said("Deployed.")
    page.until("return vigla.rules.inForce.includes('open')", "the new rules")
    assert (request(hub, "/public.json"), request(hub, "/open.json")) == (401, 200)
    page.run("document.querySelector('.rules-side [data-side=explain]').click()")


def goingBack_isADeployOfTheFormerText(page, hub):
    page.find("#rules-former").click()
    page.until("return document.querySelector('.former button') !== null", "the former rules")
    page.find(".former button").click()
    page.until("return !document.querySelector('.review').hidden && !document.getElementById('rules-deploy').disabled", "the review")
    page.find("#rules-deploy").click()
    page.until_true(lambda: request(hub, "/public.json") == 200, "the former rules in force")
    assert request(hub, "/open.json") == 401
    page.until("return vigla.rules.text === vigla.rules.inForce && vigla.rules.isChecked", "the editor to follow")
    assert page.run("return vigla.rules.inForce") == RULES, "as they were written, with comments"


def refusals_appearAndAreExplained(page, hub):
    page.find(".rules-side [data-side=explain]").click()
    page.find("#explain-run").click()
    page.until("return document.querySelector('.explain-result .bad')?.textContent.startsWith('Name the place')", "an empty place to be asked for")
    assert page.run("return document.activeElement.id + document.activeElement.ariaInvalid") == "explain-pathtrue"
    page.find(".rules-side [data-side=refusals]").click()
    page.until("return vigla.rules.refusals > 0", "the refusals so far")
    before = page.run("return vigla.rules.refusals")
    assert request(hub, "/users/ada.json", "PUT", {"nick": "secret-value"}) == 401
    page.until("return vigla.rules.refusals > arguments[0]", "the refusal, live", before)
    newest = page.find(".refusal")
    assert "/users/ada" in newest.text and "write" in newest.text and "signed out" in newest.text, newest.text
    assert "secret-value" not in page.run("return document.body.textContent"), "values that were refused are not kept"
    newest.click()
    answer = page.until("return vigla.rules.explanation", "the explanation")
    assert (answer["allowed"], answer["paths"], answer["rules"][-1]["rule"]) == (False, ["/users/ada"], "/users/$uid.write"), answer
    page.until("return document.querySelector('.verdict')?.dataset.allowed === 'false'", "the verdict")
    parts = page.run("return [...document.querySelectorAll('.rule[open] .parts li')].map((part) => part.textContent)")
    assert parts == ["auth.uid == $uid = false", "auth.uid = null", '$uid = "ada"'], parts
    # As Ada, with a write that the rules allow.
    page.type("#explain-uid", "ada")
    replace(page, "#explain-value", '{"name": "Ada"}')
    page.find("#explain-run").click()
    page.until("return vigla.rules.explanation?.allowed === true", "the same write as Ada")
    looks_right(page, "rules-explain")
    page.find(".rule[open] .rule-where button").click()
    assert page.run("const area = document.getElementById('rules-text'); return area.value.slice(area.selectionStart, area.selectionEnd)") == '"auth.uid == $uid"'


def words_sayWhatTheTextMeans(page):
    loaded = "return performance.getEntriesByType('resource').filter((entry) => entry.name.includes('/words.')).length"
    assert page.run(loaded) == 0, "the view is loaded when it is shown"
    page.find(".rules-side [data-side=words]").click()
    page.until("return vigla.rules.words?.length === 4", "all places")
    assert page.run(loaded) == 2
    shown = "return [...document.querySelectorAll('.words-places section')].map((place) => [place.querySelector('h3').textContent, ...[...place.querySelectorAll('p')].map((text) => text.textContent)])"
    assert page.run(shown)[-1] == ["/users/$uid", "Nobody reads it.", "Written by the user whose id is $uid.", "Valid if it has name."], page.run(shown)
    assert page.find(".words-places code").text == "name"
    looks_right(page, "rules-words")
    # One place: that which is selected in the tree, or typed.
    page.run("vigla.hub.select('/public/x')")
    page.until("return vigla.rules.words.length === 1", "the selected place")
    assert page.find("#words-path").get_attribute("value") == "/public/x"
    assert page.run(shown) == [["/public", "Read by everybody, signed in or not.", "Nobody writes it."]]
    # As typed, once it is without faults.
    replace(page, "#rules-text", RULES.replace("true", "dta"))
    page.until("return document.querySelector('.words-view .quiet').textContent.startsWith('The text in the editor is faulty')", "the faults")
    replace(page, "#rules-text", RULES.replace('".read": true', '".read": "auth != null"'))
    page.until("return document.querySelector('.words-places p').textContent === 'Read by everybody who is signed in.'", "the new meaning")
    page.type("#words-path", "a.b" + Keys.ENTER)
    assert "can" in page.run("return document.getElementById('words-path').validationMessage"), "what is wrong with the path"
    page.run("vigla.hub.select('/')")
    page.until("return vigla.rules.words.length === 4", "all places again")
    page.find("#rules-discard").click()
    page.until("return vigla.rules.isChecked && vigla.rules.text === vigla.rules.inForce", "the text in force")


def cases_showWhatTheyCover(page):
    page.find(".rules-side [data-side=cases]").click()
    replace(page, "#rule-cases", """{
      "users": { "ada": { "uid": "ada" } },
      "cases": [
        { "as": "ada", "write": "/users/ada", "value": { "name": "Ada" }, "expect": "allow" },
        { "name": "a stranger", "as": null, "write": "/users/ada", "value": { "name": "Eve" }, "expect": "allow" },
      ] }""")
    page.find("#cases-run").click()
    answer = page.until("return vigla.rules.cases", "the answer")
    assert (answer["count"], answer["passed"], answer["covered"]) == (2, 1, 1), answer
    assert page.find(".cases-sum").text.startswith("1 of 2 cases passed")
    assert "a stranger" in page.find(".failure summary").text
    gaps = page.run("return [...document.querySelectorAll('.coverage .gap')].map((row) => row.cells[0].textContent + ' ' + row.cells[3].textContent)")
    assert gaps == ["/public.read never asked", "/users/$uid.validate never false"], gaps
    looks_right(page, "rules-cases")
    replace(page, "#rule-cases", '{"cases":[{"read":5}]}')
    page.find("#cases-run").click()
    page.until("return document.querySelector('.cases-result .bad')?.textContent.startsWith('The cases are faulty')", "the faults of the cases")
    page.drain()  # the browser's own message about a 400


def values_stayText(page, hub):
    """What strangers can name never becomes markup."""
    hostile = "<img src=x onerror=owned()>"
    page.find(".rules-side [data-side=refusals]").click()
    assert request(hub, "/%3Cimg%20src=x%20onerror=owned()%3E.json", "PUT", 1) == 401
    page.until("return [...document.querySelectorAll('.refusal-path')].some((path) => path.textContent.includes(arguments[0]))", "the hostile path as text", hostile)
    assert page.run("return document.querySelector('.refusals img') === null")


def nothingStays_forWhoSignsOut(page):
    # Acting as a user keeps the typed text; signing out clears it.
    replace(page, "#rules-text", "typed")
    page.run("vigla.hub.credentials.act({ uid: 'ada', token: {} })")
    page.until("return vigla.connection.identity?.acting && vigla.rules.isChecked", "acting as Ada")
    assert page.run("return vigla.rules.text") == "typed"
    page.run("vigla.hub.credentials.act(undefined)")
    page.until("return vigla.connection.identity?.admin && vigla.rules.isChecked", "himself")
    assert page.run("return vigla.rules.text") == "typed"
    # Nor does an answer that arrives afterwards restore it.
    page.run("""const real = vigla.hub.fetch.bind(vigla.hub);
        window.late = new Promise((come) => { window.come = come; });
        vigla.hub.fetch = async (path, init) => { const answer = await real(path, init); if (path === '/.settings/rules.json') { window.isHeld = true; await late; } return answer; };
        vigla.hub.credentials.act({ uid: 'ada', token: {} }); vigla.hub.credentials.act(undefined)""")
    page.until("return window.isHeld", "the rules to be on their way")
    page.run("vigla.hub.credentials.clear()")
    page.until("return !document.querySelector('.tab:not([hidden]) .gate').hidden", "the gate")
    page.run("delete vigla.hub.fetch; come(); return late.then(() => new Promise((next) => setTimeout(next)))")
    assert page.run("return [vigla.rules.text, vigla.rules.inForce, document.querySelector('.explain-result').textContent, vigla.rules.refusals]") == ["", None, "", 0]


STEPS = [rules_areTypedRefusedDeployedAndExplained]
