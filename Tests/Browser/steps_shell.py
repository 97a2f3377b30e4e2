"""Steps: the shell of the page, that is connection, sign-in, links, phone width, accessibility, and coming back after a crash."""

import json

from client import Client
from page import Keys, another_hub, only_this_host, quiet_until_here


def page_connects_andShowsTheClock(page, hub, client):
    page.open(hub)
    page.connected()
    state = page.run("return vigla.connection")
    assert state["session"], state
    assert abs(state["clockOffsetMs"]) < 60000, state
    page.until("return vigla.connection.roundTripMs !== null", "an answer to the ping")
    page.reads("#status-word", "Connected")
    assert page.run("return location.hash") == "#ns=default&path=/"


def token_staysOutOfTheLinkAndOfOtherHosts(page, hub, client):
    page.find("#status").click()
    page.find("[data-way=token]").click()
    page.type("#token", "owner")
    page.find("#use-token").click()
    page.until("return vigla.connection.identity?.admin === true", "an administrator")
    page.reads("#status-who", "Administrator")
    assert page.run("return vigla.connection.fault") is None
    assert "owner" not in page.driver.current_url
    assert page.run("return JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])") == '[{},{},""]'
    assert page.run("return document.getElementById('token').value") == ""
    page.run("vigla.hub.credentials.paste('wrong')")
    page.until("return document.getElementById('notice-text').textContent.startsWith('The hub refused')", "what is said of a wrong secret")
    assert ".." not in page.find("#notice-text").text, page.find("#notice-text").text
    page.drain()  # the browser's own message about requests with the old credential
    page.run("vigla.hub.credentials.paste('owner')")
    page.until("return vigla.connection.identity?.admin === true", "an administrator again")
    other = f"localhost:{hub.port}"  # the same hub under another name
    page.run("vigla.go({ host: arguments[0] })", other)
    page.until("return vigla.connection.host === arguments[0] && vigla.connection.phase === 'connected'", "the other host", other)
    assert page.run("return vigla.connection.identity") is None
    page.reads("#status-who", "Visitor")


def administrator_actsAsAUser(page, hub, client):
    with another_hub(page, "--dev", rules=json.dumps({"rules": {"private": {"$uid": {".read": "auth.uid === $uid && auth.token.role === 'staff'",
                                                                              ".write": "auth.uid === $uid"}}}})) as guarded:
        page.open(guarded, "#ns=default&path=/private/bo")
        page.until("return vigla.data.state === 'refused'", "the refusal to a visitor")
        page.find("#status").click()
        page.find("[data-way=token]").click()
        page.type("#token", "owner")
        page.find("#use-token").click()
        page.until("return vigla.connection.identity?.admin && vigla.data.state === 'empty'", "the place as an administrator")
        act(page, "ana", "")
        page.until("return vigla.data.state === 'refused'", "the refusal to Ana")
        act(page, "bo", '{"role":"staff"}')
        page.until("return vigla.data.state === 'empty'", "Bo's own place")
        page.until("return document.querySelector('#status-who').textContent === 'As bo'", "his name")
        page.find("#status").click()
        page.picture("sign-in")
        page.find("#act-self").click()
        page.until("return vigla.connection.identity?.admin === true", "himself again")
        page.find("dialog [aria-label=Close]").click()


def act(page, uid, claims):
    page.find("#status").click()
    page.until("return !document.getElementById('act-form').hidden", "the form for administrators")
    page.type("#act-uid", uid)
    page.type("#act-claims", claims or Keys.BACKSPACE)
    page.find("#act").click()


def user_signsIn_andIsToldWhenHeCannot(page, hub, client):
    page.open(hub)
    page.connected()
    page.find("#status").click()
    page.find("[data-way=account]").click()
    page.type("#email", "ana@example.org")
    page.type("#password", "correct horse")
    page.find("#sign-in").click()
    page.until("return document.getElementById('sign-in-result').textContent !== ''", "the refusal")
    page.drain()
    page.find("#sign-up").click()
    uid = page.until("return vigla.connection.identity?.uid", "the new user")
    page.reads("#status-who", "ana@example.org")
    page.find("#status").click()
    page.find("#sign-out").click()
    page.until("return vigla.connection.phase === 'connected' && vigla.connection.identity === null", "nobody")
    page.type("#email", "ana@example.org")
    page.type("#password", "correct horse")
    page.find("#sign-in").click()
    page.until("return vigla.connection.identity?.uid === arguments[0]", "the same user", uid)
    page.find("#status").click()
    page.find("[data-way=guest]").click()
    page.find("#be-guest").click()
    page.until("const who = vigla.connection.identity?.uid; return who && who !== arguments[0]", "a guest", uid)
    page.until("return document.getElementById('status-who').textContent.startsWith('Guest ')", "the guest's name")


def link_opensTheSameView(page, hub, client):
    client.set("/links", {"a": 1})
    page.open(hub, "#ns=default&tab=queries&path=/links&observe=/links")
    page.until("return vigla.queries?.events.length === 1", "the observer of the link")
    page.run("vigla.go({ tab: 'data' })")
    page.shows(["links=", "a=1"], "the place of the link")
    page.driver.back()
    page.until("return document.querySelector('[data-tab=queries][aria-current]') !== null", "the tab before")
    page.open(hub, "#ns=default&path=/links&view=map&events=/links")
    page.until("return vigla.follow?.path === '/links'", "a link from before there were tabs")


def phone_showsEveryTab_withoutSidewaysScroll(page, hub, client):
    page.open(hub, "#ns=default&path=/")
    page.connected()
    page.size(390, 844, phone=True)
    for tab in page.run("return [...document.querySelectorAll('[data-tab]')].map((tab) => tab.dataset.tab)"):
        page.run("vigla.go({ tab: arguments[0] })", tab)
        page.until("return document.querySelector(`.tab[data-tab=${arguments[0]}]:not([hidden])`) !== null", f"the tab {tab}", tab)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), f"{tab} scrolls sideways"
        for width in (360, 420):
            page.size(width, 844, phone=True)
            assert page.run("const tabs = document.getElementById('tabs'); return tabs.scrollWidth <= tabs.clientWidth"), f"tabs are cut at {width} px"
        page.size(390, 844, phone=True)
        page.picture(f"phone-{tab}")
    page.size(1440, 900)


def page_comesBack_afterTheHubWasKilled(page, hub, client):
    page.open(hub, "#ns=default&path=/after&observe=/after")
    client.set("/after", {"before": 1})
    page.shows(["after=", "before=1"], "the state before the crash")
    page.run("vigla.go({ tab: 'queries' })")
    page.until("return vigla.queries?.events.at(-1)?.key === 'before'", "the observer of the link")
    page.run("vigla.go({ tab: 'data' })")
    page.shows(["after=", "before=1"], "the rows, which were let go of meanwhile")
    first = page.run("return vigla.connection.session")
    quiet_until_here(page)
    hub.kill()
    page.until("return vigla.connection.phase !== 'connected'", "the loss to show")
    page.until("return vigla.data.stale", "the last known state to be marked")
    assert page.rows() == ["after=", "before=1"], "the last known state stays"
    page.until("return document.getElementById('notice').hidden === false", "advice after repeated failure")
    page.picture("reconnecting")
    hub.start()
    page.connected()
    assert page.run("return vigla.connection.session") != first
    page.until("return vigla.data.state === 'empty' && !vigla.data.stale", "the empty tree of the new hub")
    with Client(hub) as second:
        second.set("/after", {"since": 2})
        page.shows(["after=", "since=2"], "a write after the restart")
        page.until("const e = vigla.queries.events.at(-1); return e.event === 'added' && e.key === 'since'", "an event after the restart")
    page.until("return document.getElementById('notice').hidden", "the advice to go")
    # While the hub is away, the browser itself reports each failed attempt; any other message is a fault.
    for message in page.drain():
        assert "ERR_CONNECTION_REFUSED" in message["message"] or "WebSocket connection" in message["message"], message


def requests_goToThisHubOnly(page, hub, client):
    only_this_host(page, hub)


def closedHub_isExplained(page, hub, client):
    with another_hub(page) as closed:
        page.open(closed, "#ns=default&path=/users")
        page.until("return vigla.data.state === 'refused'", "a refusal without rules")
        page.until("const b = document.getElementById('tree-blank'); return !b.hidden && b.textContent.includes('rules do not let you read /users')", "the advice")
        page.picture("refused")
        only_this_host(page, closed)


STEPS = [
    page_connects_andShowsTheClock,
    token_staysOutOfTheLinkAndOfOtherHosts,
    administrator_actsAsAUser,
    user_signsIn_andIsToldWhenHeCannot,
    link_opensTheSameView,
    phone_showsEveryTab_withoutSidewaysScroll,
]

# These steps end the hub, so they come last.
LAST_STEPS = [
    page_comesBack_afterTheHubWasKilled,
    requests_goToThisHubOnly,
    closedHub_isExplained,
]
