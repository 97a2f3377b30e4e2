"""A whole application against the real hub: what the people of WatchMe do in its first days, in order, and what each of them is told.

Nothing but Examples/watchme/rules.json decides, and does what follows. They sign in with accounts of the hub, observe with the Python
client, and their visitors ask over REST. Left out are pictures and pushes to phones, and what takes six hours (cases.json has that).

  Tests/Clients/watchme_acceptance.py
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from watchme_people import DAY, DENIED, Feed, K, PASSWORD, ViglaError, World, post, seconds  # noqa: E402

Z = {"lat": 37.9770, "lng": 23.7695}
D = {"latitude": 37.9674, "longitude": 23.7113}
NOW = {".sv": "timestamp"}

# The rows, in order: each continues from the end of the previous one.

async def row_1_a_taken_address(world):
    before = world.stored("users")
    assert world.account("accounts:signUp", {"email": "danae@example.org", "password": PASSWORD}) == "EMAIL_EXISTS"
    assert world.stored("users") == before


async def row_2_signing_in(world):
    token = world.sign_in("nina")["idToken"]
    assert world.account("accounts:lookup", {"idToken": token})["users"][0]["emailVerified"] is False
    assert world.sign_in("nina", "wrong") == "INVALID_LOGIN_CREDENTIALS"


async def row_3_sign_up_of_an_old_client(world):
    await world.nina.denied({"users/nina/name": "Nina", "users/nina/email": "eve@example.org"})
    await world.nina.hub.update("/", {
        "users/nina/name": "Nina", "users/nina/email": "nina@example.org", "users/nina/profileImageUrl": "https://files.example.org/n.jpg"})
    for person in (world.nina, world.ada):
        assert await person.hub.get("users/nina") == {"name": "Nina", "profileImageUrl": "https://files.example.org/n.jpg"}


async def row_4_before_and_after_verification(world):
    request = {"users-friends/nina/ada": "requested", "users-friends/ada/nina": "pending"}
    larissa = ("posts/n1", post("nina", latitude=39.6390, longitude=22.4191))
    await world.nina.denied(request, larissa)
    session = world.sign_in("nina")
    world.account("accounts:sendOobCode", {"requestType": "VERIFY_EMAIL", "idToken": session["idToken"]})
    assert world.account("accounts:update", {"oobCode": world.mailed("VERIFY_EMAIL", "nina")})["emailVerified"] is True
    world.nina.token = world.refresh(session["refreshToken"])[1]["id_token"]
    await world.nina.hub.auth(world.nina.token)
    await world.nina.hub.update("/", request)
    await world.nina.hub.set(*larissa)
    await world.nina.hub.remove("users-friends/nina/ada")
    assert world.stored("users-friends/ada") == {"eleni": "added"}


async def row_5_no_list_of_everybody(world):
    await world.mallory.cannot_get("users", ("users", {"orderBy": "name", "startAt": "", "endAt": "\uf8ff"}))


async def row_6_search_by_name(world):
    found = Feed(world.danae, "users", query={"orderBy": "name", "startAt": "El", "endAt": "El\uf8ff"})
    assert [event["key"] for event in await found.begin()] == ["eleni"]
    await world.nina.hub.set("users/nina/name", "Elina")
    assert await found.keys(1) == [("added", "nina")]
    await world.nina.hub.set("users/nina/name", "Nina")
    assert await found.keys(1) == [("removed", "nina")]
    found.observer.end()


async def row_7_her_list(world):
    world.friends = {name: Feed(person, f"users-friends/{name}") for name, person in world.people.items()}
    began = {name: [(event["key"], event["value"]) for event in await feed.begin()] for name, feed in world.friends.items()}
    assert began == {"ada": [("eleni", "added")], "eleni": [("ada", "added")], "danae": [("andreas", "pending")],
                     "andreas": [("danae", "requested")], "mallory": [], "nikos": [], "nina": []}


async def row_8_accepting(world):
    await world.danae.hub.update("/", {"users-friends/danae/andreas": "added", "users-friends/andreas/danae": "added"})
    for name, other in (("danae", "andreas"), ("andreas", "danae")):
        event, = await world.friends[name].take(1)
        assert (event["event"], event["key"], event["value"]) == ("changed", other, "added")


async def row_9_a_request_in_two_writes(world):
    await world.danae.hub.set("users-friends/danae/ada", "requested")
    await world.danae.hub.set("users-friends/ada/danae", "pending")
    event, = await world.friends["ada"].take(1)
    assert (event["event"], event["key"], event["value"]) == ("added", "danae", "pending")
    assert await world.friends["danae"].keys(1) == [("added", "ada")]


async def row_10_accepting_for_the_other(world):
    await world.danae.denied(
        ("users-friends/ada/danae", "added"), {"users-friends/ada/danae": "added", "users-friends/danae/ada": "added"})


async def row_11_requests_that_are_none(world):
    await world.mallory.denied(("users-friends/eleni/mallory", "pending"), ("users-friends/mallory/mallory", "requested"))


async def row_12_a_third_person(world):
    await world.mallory.denied(("users-friends/ada/eleni", None))
    assert world.rest("DELETE", "/users-friends/ada/eleni.json")[0] == 401
    for name in ("ada", "eleni"):
        await world.friends[name].is_silent()


async def row_13_accepting_too(world):
    await world.ada.hub.update("/", {"users-friends/ada/danae": "added", "users-friends/danae/ada": "added"})
    assert await world.friends["ada"].keys(1) == [("changed", "danae")]
    assert await world.friends["danae"].keys(1) == [("changed", "ada")]


async def row_14_danger_in_the_old_form(world):
    world.timelines = {name: Feed(world.people[name], f"timeline/{name}") for name in ("ada", "andreas", "eleni", "mallory")}
    world.own, world.all = Feed(world.danae, "users-posts/danae"), Feed(world.nikos, "posts")
    for feed in [*world.timelines.values(), world.own, world.all]:
        await feed.begin()
    world.p1 = post("danae")
    await world.danae.hub.update("/", {
        place: world.p1 for place in ("posts/p1", "users-posts/danae/p1", "timeline/ada/p1", "timeline/andreas/p1")})
    for feed in (world.timelines["ada"], world.timelines["andreas"], world.own, world.all):
        event, = await feed.take(1)
        assert (event["event"], event["key"], event["value"]) == ("added", "p1", world.p1)
    for name in ("eleni", "mallory"):
        await world.timelines[name].is_silent()


async def row_15_a_copy_for_a_stranger(world):
    p2 = post("danae")
    await world.danae.denied({place: p2 for place in ("posts/p2", "users-posts/danae/p2", "timeline/ada/p2", "timeline/mallory/p2")})
    assert "p2" not in json.dumps(world.stored(""))


async def row_16_danger_in_the_new_form(world):
    seq = await world.danae.hub.set("posts/p2", post("danae"))
    for feed in (world.timelines["ada"], world.timelines["andreas"], world.own, world.all):
        event, = await feed.take(1)
        assert (event["event"], event["key"], event["seq"]) == ("added", "p2", seq)


async def row_17_posts_that_are_none(world):
    ms = seconds() * 1000
    await world.danae.denied(*[("posts/p3", post("danae", **changed)) for changed in (
        {"user": "ada"}, {"timestamp": "now"}, {"timestamp": ms}, {"timestamp": seconds() - 2 * DAY}, {"latitude": 999}, {"x": 1},
        {"policeArrived": True}, {"description": "x" * 501})])


async def row_18_no_description(world):
    p3 = post("danae")
    del p3["description"]
    await world.danae.hub.set("posts/p3", p3)
    for feed in (world.timelines["ada"], world.timelines["andreas"], world.own, world.all):
        assert await feed.keys(1) == [("added", "p3")]


async def row_19_edits_in_the_old_form(world):
    for change in ({"description": "Bag snatched, man arrested"}, {"policeArrived": True}):
        world.p1 |= change
        await world.danae.hub.update("/", {
            f"{place}/{name}": value for place in ("posts/p1", "users-posts/danae/p1", "timeline/ada/p1", "timeline/andreas/p1")
            for name, value in change.items()})
    for name in ("ada", "andreas"):
        first, second = await world.timelines[name].take(2)
        assert first["event"] == second["event"] == "changed" and first["key"] == second["key"] == "p1"
        assert not first["value"]["policeArrived"] and second["value"] == world.p1
    await world.own.take(2), await world.all.take(2)


async def row_20_a_friend_who_came_later(world):
    await world.eleni.hub.update("/", {"users-friends/eleni/danae": "requested", "users-friends/danae/eleni": "pending"})
    await world.danae.hub.update("/", {"users-friends/eleni/danae": "added", "users-friends/danae/eleni": "added"})
    for name in ("eleni", "danae"):
        await world.friends[name].take(2)
    assert await world.danae.hub.get("timeline/eleni/p1") is None
    await world.danae.hub.set("posts/p1/description", "Bag snatched")
    world.p1["description"] = "Bag snatched"
    for name in ("ada", "andreas"):
        assert await world.timelines[name].keys(1) == [("changed", "p1")]
    await world.timelines["eleni"].is_silent()
    assert world.stored("timeline/eleni") is None
    await world.own.take(1), await world.all.take(1)


async def row_21_a_stranger_and_a_post(world):
    await world.mallory.denied(
        ("posts/p1/description", "x"), ("posts/p1/policeArrived", True), ("posts/p1", post("mallory")), ("posts/p1", None))


async def row_22_what_its_author_may_not(world):
    await world.danae.denied(("posts/p1/policeArrived", False), ("posts/p1/latitude", 37.9), ("posts/p1", None))


async def row_23_clearing_a_timeline(world):
    await world.ada.denied(("timeline/andreas", None))
    await world.ada.hub.remove("timeline/ada/p2")
    assert await world.timelines["ada"].keys(1) == [("removed", "p2")]
    await world.timelines["andreas"].is_silent()
    assert world.stored("timeline/andreas/p2") and world.stored("posts/p2")


async def row_24_the_next_morning(world):
    await world.ada.leave()
    world.ada.connect()
    world.friends["ada"] = Feed(world.ada, "users-friends/ada")
    world.timelines["ada"] = Feed(world.ada, "timeline/ada")
    await world.friends["ada"].begin()
    began = await world.timelines["ada"].begin()
    assert [event["key"] for event in began] == ["p1", "p3"]
    assert began[0]["value"] == world.p1


async def row_25_danger_around(world):
    year = seconds() - 365 * DAY
    near = {"near": {**Z, "radius": 1000}}
    counted = [await world.eleni.hub.count("posts", {**near, "where": where}) for where in (
        [["timestamp", ">=", year], ["falseAlarm", "!=", True]],
        [["timestamp", ">=", year - 365 * DAY], ["timestamp", "<", year], ["falseAlarm", "!=", True]])]
    assert counted == [6, 2], counted
    world.around = Feed(world.eleni, "posts", query=near)
    entered = {event["key"]: event["value"]["policeArrived"] for event in await world.around.begin()}
    assert sorted(entered) == ["z1", "z10", "z2", "z3", "z4", "z5", "z6", "z8", "z9"]
    assert entered["z2"] and entered["z4"]


async def row_26_a_visitor(world):
    for place in ("/users.json", "/posts.json"):
        assert world.rest("GET", place) == (401, {"error": "Permission denied"})
    circle = f"{K['latitude']},{K['longitude']},1000"
    status, counted = world.rest(
        "GET", "/posts.json", count="true", near=circle, where=json.dumps([["timestamp", ">=", seconds() - 365 * DAY]]))
    assert (status, counted) == (200, 3), (status, counted)
    assert world.rest("GET", "/posts.json", count="true", near=circle, where='[["user","==","danae"]]')[0] == 401


async def row_27_a_curious_visitor(world):
    circle = f"{K['latitude']},{K['longitude']}"
    assert world.rest("GET", "/posts.json", count="true", near=f"{circle},50")[0] == 401
    statuses = [world.rest("GET", "/posts.json", count="true", near=f"{circle},1000")[0] for _ in range(40)]
    assert statuses.count(200) <= 30 and set(statuses[30:]) == {429}, statuses


async def row_28_the_circle_moves(world):
    await world.around.observer.move({"lat": 37.9770, "lng": 23.77292})
    events = await world.around.take(3)
    assert sorted((event["event"], event["key"]) for event in events) == [("added", "z7"), ("removed", "z8"), ("removed", "z9")]
    assert abs(next(event["distance"] for event in events if event["key"] == "z7") - 715) < 2
    world.around.observer.end()


async def row_29_follow_to_a_destination(world):
    world.follows = {name: Feed(world.people[name], f"users-follow/{name}") for name in ("andreas", "ada")}
    for feed in world.follows.values():
        assert await feed.begin() == []
    await world.danae.hub.onDisconnect("set", "users-follow/andreas/danae/online", False)
    await world.danae.hub.update("/", {"users-follow/andreas/danae": {
        "current": {**K, "at": NOW}, "destination": D, "startedAt": NOW, "dueAt": (seconds() + 1200) * 1000, "minutes": 20,
        "status": "active", "online": True}})
    event, = await world.follows["andreas"].take(1)
    assert (event["event"], event["key"], event["value"]["destination"]) == ("added", "danae", D)
    await world.follows["ada"].is_silent()


async def row_30_five_steps(world):
    current = Feed(world.andreas, "users-follow/andreas/danae/current", ("value",))
    destination = Feed(world.andreas, "users-follow/andreas/danae/destination", ("value",))
    await current.take(1), await destination.take(1)
    steps = [{"latitude": 37.95728 + step * 0.0019775, "longitude": 23.70381 + step * 0.00171} for step in range(5)]
    for step in steps:
        await world.danae.hub.update("users-follow/andreas/danae/current", step)
    told = await current.take(5)
    assert [{name: event["value"][name] for name in ("latitude", "longitude")} for event in told] == steps
    await destination.is_silent()
    await world.follows["andreas"].take(5)
    current.observer.end(), destination.observer.end()


async def row_31_who_does_not_follow(world):
    for name in ("mallory", "eleni", "ada"):
        await world.people[name].cannot_get("users-follow/andreas", "users-follow/andreas/danae/current")
    assert (await world.danae.hub.get("users-follow/andreas/danae"))["status"] == "active"


async def row_32_steps_that_are_none(world):
    here = "users-follow/andreas/danae"
    await world.danae.denied(
        {f"{here}/current/latitude": "x"}, (f"{here}/current", {"latitude": 37.9}),
        ("users-follow/mallory/danae/current", K), (f"{here}/destination", K), (f"{here}/status", "overdue"))


async def row_33_follow_in_the_old_form(world):
    here = "users-follow/ada/danae"
    await world.danae.hub.set(f"{here}/destination", D)
    await world.danae.hub.set(f"{here}/current", K)
    event = (await world.follows["ada"].take(2))[0]
    assert (event["event"], event["key"]) == ("added", "danae")
    destination = Feed(world.ada, f"{here}/destination", ("value",))
    await destination.take(1)
    for step in (37.956, 37.957):
        await world.danae.hub.set(f"{here}/destination", D)
        await world.danae.hub.set(f"{here}/current", {**K, "latitude": step})
    await world.follows["ada"].take(2)
    await destination.is_silent()
    destination.observer.end()


async def row_34_the_phone_loses_power(world):
    online = Feed(world.andreas, "users-follow/andreas/danae", ("value",))
    assert (await online.take(1))[0]["value"]["online"] is True
    world.danae.link.hold()
    event, = await online.take(1)
    assert event["value"]["online"] is False and event["value"]["current"]
    online.observer.end()
    await world.follows["andreas"].take(1)
    world.danae.link.cut()


async def row_35_no_check_in(world):
    # Danae's phone is off, so the operator brings her time forward; the hub is away when it comes.
    due = seconds() * 1000 + 1_500
    assert world.rest("PUT", "/users-follow/andreas/danae/dueAt.json", due, owner=True)[0] == 200
    await world.follows["andreas"].take(1)
    await asyncio.to_thread(world.hub.halt)
    await asyncio.sleep(2)
    await asyncio.to_thread(world.hub.start)
    event, = await world.follows["andreas"].take(1)
    assert (event["event"], event["key"], event["value"]["status"]) == ("changed", "danae", "overdue")
    await asyncio.sleep(1.5)
    await world.follows["andreas"].is_silent()


async def row_36_back_and_arrived(world):
    world.danae.link.mend()
    here = "users-follow/andreas/danae"
    await world.danae.hub.update(here, {"dueAt": (seconds() + 600) * 1000, "status": "active", "online": True})
    assert await world.follows["andreas"].keys(1) == [("changed", "danae")]
    current = Feed(world.andreas, f"{here}/current", ("value",))
    await current.take(1)
    log = {"startedAt": (seconds() - 60) * 1000, "endedAt": seconds() * 1000, "result": "arrived"}
    await world.danae.hub.update("/", {here: None, "follow-log/andreas/danae/l1": log})
    assert await world.follows["andreas"].keys(1) == [("removed", "danae")]
    assert (await current.take(1))[0]["value"] is None
    assert await world.andreas.hub.get("follow-log/andreas/danae") == {"l1": log}
    current.observer.end()


async def row_37_danger_on_the_way(world):
    here = "users-follow/andreas/danae"
    await world.danae.hub.set(here, {
        "current": K, "startedAt": NOW, "dueAt": (seconds() + 2700) * 1000, "minutes": 45, "status": "active", "online": True})
    assert await world.follows["andreas"].keys(1) == [("added", "danae")]
    # Rows written while the hub was away follow the observers' return.
    for feed in (*world.timelines.values(), world.own, world.all):
        await feed.rest()
    seq = await world.danae.hub.update("/", {"posts/p4": post("danae"), f"{here}/status": "danger"})
    for name in ("ada", "andreas", "eleni"):
        event, = await world.timelines[name].take(1)
        assert (event["event"], event["key"], event["seq"]) == ("added", "p4", seq)
    event, = await world.follows["andreas"].take(1)
    assert (event["value"]["status"], event["seq"]) == ("danger", seq)
    await world.danae.hub.update(f"{here}/current", {"latitude": 37.956, "longitude": 23.703})
    assert await world.follows["andreas"].keys(1) == [("changed", "danae")]


async def row_38_unfriended_on_the_way(world):
    for name in ("andreas", "danae"):
        await world.friends[name].rest()
    await world.andreas.hub.update("/", {"users-friends/andreas/danae": None, "users-friends/danae/andreas": None})
    assert await world.follows["andreas"].keys(1) == [("removed", "danae")]
    assert await world.friends["andreas"].keys(1) == [("removed", "danae")]
    assert await world.friends["danae"].keys(1) == [("removed", "andreas")]
    await world.danae.denied({"users-follow/andreas/danae/current/latitude": 37.957, "users-follow/andreas/danae/current/longitude": 23.7})
    await world.danae.hub.remove("users-follow/andreas/danae")


async def row_39_dismissed(world):
    await world.ada.hub.remove("users-follow/ada/danae")
    assert ("removed", "danae") in [(event["event"], event["key"]) for event in await world.follows["ada"].rest()]
    assert await world.danae.hub.get("users-follow/ada/danae") is None


async def row_40_rejected_and_blocked(world):
    for name in ("ada", "mallory"):
        await world.friends[name].rest()
    await world.mallory.hub.update("/", {"users-friends/mallory/ada": "requested", "users-friends/ada/mallory": "pending"})
    await world.ada.hub.update("/", {"users-friends/mallory/ada": None, "users-friends/ada/mallory": None})
    assert await world.friends["mallory"].keys(2) == [("added", "ada"), ("removed", "ada")]
    assert await world.friends["ada"].keys(2) == [("added", "mallory"), ("removed", "mallory")]
    await world.ada.hub.set("users-blocks/ada/mallory", True)
    await world.mallory.denied({"users-friends/mallory/ada": "requested", "users-friends/ada/mallory": "pending"})


async def row_41_posted_in_a_tunnel(world):
    for person in (world.ada, world.danae):
        person.link.cut()
    while world.danae.hub.state == "connected":
        await asyncio.sleep(0.01)
    written = asyncio.create_task(world.danae.hub.set("posts/p5", post("danae")))
    await asyncio.sleep(0.5)
    assert world.stored("posts/p5") is None
    for person in (world.danae, world.ada):
        person.link.mend()
    await asyncio.wait_for(written, 30)
    assert await world.timelines["ada"].keys(1) == [("added", "p5")]
    assert world.stored("users-posts/danae/p5") == world.stored("posts/p5")
    await world.friends["ada"].is_silent()


async def row_42_removed_by_a_moderator(world):
    for feed in (world.timelines["ada"], world.timelines["eleni"], world.own, world.all):
        await feed.rest()
    await world.nikos.hub.remove("posts/p5")
    for feed in (world.timelines["ada"], world.timelines["eleni"], world.own, world.all):
        assert await feed.keys(1) == [("removed", "p5")]
    assert "p5" not in json.dumps(world.stored(""))


async def row_43_password_from_another_device(world):
    session = world.sign_in("ada")
    world.ada.token = session["idToken"]
    await world.ada.hub.auth(world.ada.token)
    world.account("accounts:sendOobCode", {"requestType": "PASSWORD_RESET", "email": "ada@example.org"})
    changed = {"oobCode": world.mailed("PASSWORD_RESET", "ada"), "newPassword": "another horse battery"}
    await asyncio.to_thread(world.account, "accounts:resetPassword", changed)
    assert world.refresh(session["refreshToken"])[0] == 400
    try:
        async with asyncio.timeout(20):
            while True:
                await anext(world.timelines["ada"].observer)
    except ViglaError as error:
        assert error.code == DENIED, error.code
    world.ada.token = world.sign_in("ada", "another horse battery")["idToken"]
    await world.ada.hub.auth(world.ada.token)
    world.timelines["ada"], world.friends["ada"] = Feed(world.ada, "timeline/ada"), Feed(world.ada, "users-friends/ada")
    assert [event["key"] for event in await world.timelines["ada"].begin()] == ["p1", "p3", "p4"]
    await world.friends["ada"].begin()


async def row_44_an_account_is_deleted(world):
    for name in ("ada", "eleni"):
        await world.friends[name].rest()
    for name in ("ada", "eleni"):
        await world.timelines[name].rest()
    session = world.sign_in("danae")
    await asyncio.to_thread(world.account, "accounts:delete", {"idToken": session["idToken"]})
    told = [(await world.friends[name].take(1))[0] for name in ("ada", "eleni")]
    assert [(event["event"], event["key"]) for event in told] == [("removed", "danae")] * 2
    assert told[0]["seq"] == told[1]["seq"], "in one commit"
    changed = await world.timelines["ada"].take(3)
    assert {(event["event"], event["value"]["user"], event["seq"]) for event in changed} == {("changed", "deleted", told[0]["seq"])}
    left = world.stored("")
    # z10 is older than 25 months.
    assert {key for key, value in left["posts"].items() if value["user"] == "deleted"} == {"p1", "p2", "p3", "p4", "z10"}
    assert "danae" not in json.dumps(left)
    assert world.sign_in("danae") == "INVALID_LOGIN_CREDENTIALS"
    assert "localId" in world.account("accounts:signUp", {"email": "danae@example.org", "password": PASSWORD})


async def main(folder):
    rows = [(name, body) for name, body in globals().items() if name.startswith("row_")]
    world = World(folder)
    try:
        await world.meet()
        for name, body in rows:
            print(f"{name[4:].replace('_', ' ')} … ", end="", flush=True)
            try:
                await asyncio.wait_for(body(world), 120)
            except BaseException:
                print("FAILED", flush=True)
                raise
            print("ok", flush=True)
        for person in world.people.values():
            await person.leave()
    finally:
        await asyncio.to_thread(world.hub.stop)
    print(f"WatchMe: {len(rows)} rows passed")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="vigla-watchme-") as folder:
        asyncio.run(main(folder))
