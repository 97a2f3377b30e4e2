"""What the types of vigla.py accept, and, where an error is ignored, what they refuse: an ignored error that does not come is one."""

import asyncio
from typing import List, Optional

from vigla import Change, Event, Observer, Query, Vigla, ViglaError


def heard(change: Change) -> None:
    print(change["state"], change["error"].code if "error" in change else "")


async def token() -> Optional[str]:
    return None


async def main() -> None:
    query: Query = {"near": {"lat": 37.9, "lng": 23.7, "radius": 1000}, "where": [("status", "==", "open")]}
    async with Vigla("http://127.0.0.1:9000", ns="default", token=token, onstate=heard) as hub:
        events: List[Event] = []
        with hub.observe("/posts", events=["added", "removed"], query=query, maxHz=2) as observer:
            one: Observer = observer
            await one.move({"lat": 1, "lng": 2})
            async for event in observer:
                events.append(event)
                print(event["event"], event["key"].upper(), event["value"], event.get("distance", 0.0) / 2)
        number: int = await hub.set("/a", None) + await hub.update("/", {"a": 1}) + await hub.count("/a", query)
        key: str = await hub.push("/a", number)
        uid: Optional[str] = await hub.auth("token")
        await hub.onDisconnect("remove", "/online/ana")
        try:
            print(await hub.transaction("/visits", lambda was: (was or 0) + 1), key, uid)
        except ViglaError as error:
            print(error.code.upper(), error.text, error.member, error.messages[:1], error.value)

        Vigla()  # type: ignore[call-arg]
        Vigla("http://127.0.0.1:9000", namespace="default")  # type: ignore[call-arg]
        Vigla("http://127.0.0.1:9000", token=1)  # type: ignore[arg-type]
        await hub.get(1)  # type: ignore[arg-type]
        await hub.get("/a", {"limit": 1})  # type: ignore[arg-type]
        hub.observe("/a", query={"near": {"lat": 1}})  # type: ignore[arg-type]
        await hub.update("/a", 1)  # type: ignore[arg-type]
        await observer.move({"lat": 1, "lng": 2, "radius": 3})  # type: ignore[arg-type]
        events[0]["distanc"]  # type: ignore[typeddict-item]
        text: str = await hub.set("/a", 1)  # type: ignore[assignment]
        print(text)


asyncio.run(main())
