"""Steps: users on the page, made, disabled while they are connected, and deleted."""

import json

from administrator import be_administrator, looks_right, replace
from page import Keys, another_hub, quiet_until_here

RULES = json.dumps({"rules": {"notes": {".read": "auth != null"}, "staff": {".read": "auth.token.role === 'staff'"}}})


def user_isMadeDisabledAndCutOff(page, hub, client):
    with another_hub(page, "--dev", rules=RULES) as guarded:
        be_administrator(page, guarded, "users")
        page.until("return vigla.users.all", "the list")
        assert page.find(".user-count").text == "There is no user yet."
        user_isMade(page)
        mine = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        his = page.driver.current_window_handle
        user_signsIn_inHisOwnWindow(page, guarded)
        page.driver.switch_to.window(mine)
        claims_areChecked_andSaved(page)
        page.driver.switch_to.window(his)
        page.run("vigla.go({ path: '/staff' })")
        page.until("return vigla.data.state === 'empty'", "the claim to count for who is connected")
        page.run("vigla.go({ path: '/notes' })")
        page.until("return vigla.data.state === 'empty'", "his notes again")
        page.driver.switch_to.window(mine)
        page.find("#user-disable").click()
        page.until("return vigla.users.users[0].isDisabled", "the account to be disabled")
        assert page.find(".user-mark").text == "disabled"
        page.driver.switch_to.window(his)
        page.until("return vigla.connection.identity === null && vigla.data.state === 'refused'", "his window to be cut off")
        page.drain()  # the browser's own message about the token that is not renewed
        page.driver.close()
        page.driver.switch_to.window(mine)
        user_isEnabledAgain_andSessionsEnd(page)
        many_areFound(page, guarded)
        user_isDeleted_whenAskedTwice(page)
        quiet_until_here(page)


def user_isMade(page):
    page.find("#user-new").click()
    page.find("#user-make").click()
    page.until("return document.querySelector('dialog.ask[open] h2')?.textContent === 'Make a guest?'", "the question before a guest is made")
    page.find("dialog.ask[open] .ask-foot button").click()
    assert page.find(".user-count").text == "There is no user yet.", "an empty form makes nobody without being asked"
    page.type("#new-email", "ana@example.org")
    page.type("#new-password", "correct horse")
    page.type("#new-name", "<b>Ana</b>")
    page.type("#new-claims", "{")
    page.find("#user-make").click()
    page.until("return document.querySelector('.user-new [role=alert]').textContent.startsWith('This is not JSON')", "the fault of the claims")
    page.find("#new-claims").send_keys(Keys.BACKSPACE)
    page.find("#user-make").click()
    page.said("The account is made.")
    page.until("return vigla.users.users.length === 1 && vigla.users.chosen === vigla.users.users[0].id", "the new user")
    assert page.find(".user-detail:not([hidden]) h2").text == "<b>Ana</b>", "a name is text"


def user_signsIn_inHisOwnWindow(page, hub):
    page.open(hub, "#ns=default&path=/notes")
    page.find("#status").click()
    page.type("#email", "ana@example.org")
    page.type("#password", "correct horse")
    page.find("#sign-in").click()
    page.until("return vigla.connection.identity?.uid && vigla.data.state === 'empty'", "her notes, which are empty")


def claims_areChecked_andSaved(page):
    replace(page, "#user-claims", "[1]")
    assert not page.find("#user-claims-save").is_enabled()
    assert page.find("#user-claims-fault").text.startswith("Claims are a JSON object")
    replace(page, "#user-claims", '{"role":"staff"}')
    page.find("#user-claims-save").click()
    page.until("return vigla.users.users[0].claims === '{\"role\":\"staff\"}'", "the claims")
    page.find(".user-list button").click()
    looks_right(page, "users")


def user_isEnabledAgain_andSessionsEnd(page):
    page.find("#user-disable").click()
    page.until("return !vigla.users.users[0].isDisabled && document.getElementById('user-disable').textContent === 'Disable'", "the account to be enabled")
    page.run("""fetch('/identitytoolkit.googleapis.com/v1/accounts:signInWithPassword?key=x',
        { method: 'POST', body: JSON.stringify({ email: 'ana@example.org', password: 'correct horse', returnSecureToken: true }) })""")
    page.until("return vigla.users.sessions.length === 2", "the sessions: that of the closed window could go on")
    page.find("#sessions-end").click()
    page.said("2 sessions ended.")
    page.until("return vigla.users.sessions.length === 0", "an end to all sessions")
    page.find("#user-reset").click()
    page.until("return document.querySelector('.user-note').textContent.startsWith('A mail to choose a new password')", "the mail")
    # A hub without mail shows the link.
    page.run("""const real = vigla.hub.fetch.bind(vigla.hub);
        vigla.hub.fetch = (path, init) => path.includes('sendOobCode') && !init.body.includes('returnOobLink')
            ? Promise.resolve(new Response('{"error":{"message":"OPERATION_NOT_ALLOWED : no mail"}}', { status: 400 })) : real(path, init)""")
    page.find("#user-reset").click()
    link = page.until("return document.getElementById('user-link').value", "the link")
    assert link.startswith("http") and "oobCode=" in link, link
    assert page.find("#user-link").is_displayed()
    page.run("delete vigla.hub.fetch")


def many_areFound(page, hub):
    page.driver.execute_async_script("""const done = arguments[0];
        const users = Array.from({ length: 150 }, (_, i) => ({ localId: 'u' + String(i).padStart(3, '0'), email: `u${i}@example.org` }));
        vigla.hub.fetch('/identitytoolkit.googleapis.com/v1/projects/-/accounts:batchCreate', { method: 'POST', body: JSON.stringify({ users }) }).then(() => done())""")
    page.run("vigla.go({ tab: 'health' })")
    page.until("return vigla.health !== undefined", "another tab")
    page.run("vigla.go({ tab: 'users' })")
    page.until("return vigla.users.users.length === 100 && !vigla.users.all", "the first page")
    page.type("#user-search", "u149@example.org")
    page.until("return vigla.users.rows === 0", "nobody among those that are loaded")
    page.find("#user-search").send_keys(Keys.ENTER)
    page.until("return vigla.users.chosen === 'u149'", "him by his exact address")
    page.run("const search = document.getElementById('user-search'); search.value = ''; search.dispatchEvent(new Event('input'))")
    page.run("for (const close of document.querySelectorAll('.word .icon')) close.click()")
    page.find("#users-more").click()
    page.until("return vigla.users.all && vigla.users.rows === 151", "all of them")


def user_isDeleted_whenAskedTwice(page):
    page.type("#user-search", "ana@example.org")
    page.find("#user-search").send_keys(Keys.ENTER)
    page.until("return document.querySelector('.user-detail:not([hidden]) h2')?.textContent === '<b>Ana</b>'", "Ana")
    page.find("#user-delete").click()
    assert page.find("#user-delete").text == "Yes, delete <b>Ana</b>"
    page.find("#user-delete").click()
    page.said("<b>Ana</b> is deleted")
    page.until("return vigla.users.rows === 0", "her row to go")


STEPS = [user_isMadeDisabledAndCutOff]
