"""A FastAPI application that publishes orders and receives them again.

    pip install 'hookwire[http,fastapi]' uvicorn
    export HOOKWIRE_URL=http://127.0.0.1:8080 HOOK_SECRET=whsec_...
    uvicorn fastapi_app:app --port 8001

Or by gunicorn: `pip install gunicorn`, and

    gunicorn fastapi_app:app --worker-class asgi --bind 127.0.0.1:8001

HOOK_SECRET is the secret of a subscription to http://127.0.0.1:8001/hook, which the hub returns when it is made.
"""

import os
from contextlib import asynccontextmanager

from fastapi import FastAPI

from hookwire import AsyncHookwire
from hookwire.receive import Event
from hookwire.receive.fastapi import Receiver

hub = AsyncHookwire()
receive = Receiver(secrets=[os.environ["HOOK_SECRET"]])
received: list[dict[str, object]] = []


@asynccontextmanager
async def lifespan(_: FastAPI):
    """Close the connections to the hub at the end."""
    async with hub:
        yield


app = FastAPI(lifespan=lifespan)
app.include_router(receive.router("/hook"))


@app.post("/orders")
async def place(order: dict[str, object]) -> dict[str, str]:
    """Publish an order. The answer comes when its event is stored."""
    event = await hub.publish("orders.created", order, key=str(order["customer"]))
    return {"event": event.id}


@receive.on("orders.*")
async def order(event: Event) -> None:
    """Take an order that the hub delivers."""
    received.append({"id": event.id, "key": event.key, "order": event.data})


@app.get("/orders")
async def orders() -> list[dict[str, object]]:
    """List what was received."""
    return received
