"""Titanic, as in the ZeroMQ guide, chapter 4, "Disconnected Reliability (Titanic Pattern)".

The paragraphs on the three services, and 9/TSP: a program that is a worker of ``titanic.request``, ``titanic.reply``
and ``titanic.close`` at a Majordomo broker, and a client of the services that it calls. Each request and each reply is
a file.

    titanic.py ENDPOINT FOLDER
"""

import sys
import threading
import time
import uuid
from pathlib import Path

from tests.ancestors.mdclient import Client
from tests.ancestors.mdworker import EMPTY, REPLY, Worker

endpoint, folder = sys.argv[1], Path(sys.argv[2])
MARK = b"\x00frame\x00"


def request(body: list[bytes]) -> list[bytes]:
    name = uuid.uuid4().hex
    part = folder / f"{name}.part"
    part.write_bytes(MARK.join(body))
    part.rename(folder / f"{name}.req")
    return [b"200", name.encode()]


def reply(body: list[bytes]) -> list[bytes]:
    answer, waiting = (folder / f"{body[0].decode()}.{kind}" for kind in ("rep", "req"))
    if answer.exists():
        return [b"200", *answer.read_bytes().split(MARK)]
    return [b"300" if waiting.exists() else b"400"]


def close(body: list[bytes]) -> list[bytes]:
    for kind in ("req", "rep"):
        (folder / f"{body[0].decode()}.{kind}").unlink(missing_ok=True)
    return [b"200"]


def serve(service: str) -> None:
    worker = Worker(endpoint, service.encode(), 2500, None)
    while True:
        client, body = worker.next_request()
        worker.send(REPLY, client, EMPTY, *SERVICES[service](body))


SERVICES = {"titanic.request": request, "titanic.reply": reply, "titanic.close": close}
folder.mkdir(exist_ok=True)
for name in SERVICES:
    threading.Thread(target=serve, args=(name,), daemon=True).start()
caller = Client(endpoint)
print("ready", flush=True)
while True:
    time.sleep(0.1)
    for waiting in folder.glob("*.req"):
        answer = waiting.with_suffix(".rep")
        if answer.exists():
            continue
        service, *body = waiting.read_bytes().split(MARK)
        if caller.send(b"mmi.service", service) != [b"200"]:
            continue
        found = caller.send(service, *body)
        if found is not None and waiting.exists():
            part = waiting.with_suffix(".answer")
            part.write_bytes(MARK.join(found))
            part.rename(answer)
