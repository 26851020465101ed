"""FastAPI and SQLAlchemy: an order and the event that tells of it, in one transaction.

pip install fastapi uvicorn 'sqlalchemy[asyncio]' asyncpg ../../sdk
DATABASE_URL=postgresql+asyncpg://user:secret@host/shop uvicorn fastapi_sqlalchemy:app
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from hookwire import Record, stash

engine = create_async_engine(os.environ["DATABASE_URL"])


class Order(BaseModel):
    """The order of a customer."""

    id: int
    customer: str
    total: float


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    async with engine.begin() as connection:
        await connection.execute(
            text("CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, customer text, total numeric)")
        )
    yield
    await engine.dispose()


async def session() -> AsyncIterator[AsyncSession]:
    """Open one transaction for each request: committed at its end, rolled back by an exception."""
    async with AsyncSession(engine) as session, session.begin():
        yield session


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def create(order: Order, session: Annotated[AsyncSession, Depends(session, scope="function")]) -> dict[str, str]:
    await session.execute(text("INSERT INTO orders VALUES (:id, :customer, :total)"), order.model_dump())
    event_id = await stash(session, Record("orders.created", order.model_dump(), key=order.customer))
    return {"event": event_id}
