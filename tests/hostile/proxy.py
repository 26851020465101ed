"""An egress proxy for tests: CONNECT, and then bytes both ways; a script of the hostile server."""

import asyncio
from contextlib import suppress

from tests.hostile.server import Conversation, Script

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


def connecting(addresses: dict[str, str] | None = None) -> Script:
    """Note the CONNECT and connect; names are resolved by the given table, addresses go as they are."""

    async def script(conversation: Conversation) -> None:
        request = await conversation.read_head()
        await conversation.server.note(request)
        host, _, port = request.target.decode().rpartition(":")
        reader, writer = await asyncio.open_connection((addresses or {}).get(host, host).strip("[]"), int(port))
        await conversation.send(ESTABLISHED)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(_pass_on(conversation.reader, writer))
                ways.create_task(_pass_on(reader, conversation.writer))
        finally:
            writer.close()

    return script


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
