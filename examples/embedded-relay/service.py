"""A service that writes events in its own transactions and relays them in its own process.

Run it with HOOKWIRE_DATABASE_URL, and the address of a broker, such as HOOKWIRE_AMQP_URL. Any number of copies may run:
each partition group has one leader, and the others stand by.
"""

from __future__ import annotations

import asyncio
import signal

import asyncpg

from hookwire_server.embed import Event, load_settings, open_relay


def on_event(event: Event) -> None:
    """Called on the event loop when this process gains or loses the lead, and for the meter."""
    print(event, flush=True)


async def write_orders(database_url: str, stopping: asyncio.Event) -> None:
    """Do the service's own work: an event with each row, both or neither."""
    connection = await asyncpg.connect(database_url)
    try:
        number = 0
        while not stopping.is_set():
            number += 1
            async with connection.transaction():
                # Your INSERT of the order goes here.
                await connection.execute("SELECT hookwire.publish('orders.created', $1::text)", f"order {number}")
            try:
                await asyncio.wait_for(stopping.wait(), 1)
            except TimeoutError:
                continue
    finally:
        await connection.close()


async def main() -> None:
    settings = load_settings()
    assert settings.database_url is not None, "HOOKWIRE_DATABASE_URL names the database that you write to"
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with open_relay(settings, on_event) as relay:
        await relay.start()
        await write_orders(settings.database_url.get_secret_value(), stopping)
        relay.stop()
        await relay.wait()
        print(relay.state, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
