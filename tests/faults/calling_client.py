"""A client as a process: calling_client.py KIND ENDPOINTS BODY. It says when it calls, then prints its reply."""

import sys
from collections.abc import Callable

from hookwire.services import Client, FreelanceClient, FreelanceOptions, LazyPirate, TitanicClient

PATIENT = {"timeout_seconds": 1.0, "tries": 60}


def caller(kind: str, *endpoints: str) -> Callable[[bytes], bytes]:
    """Return a call of the echo service of a pattern, by a client of its own."""
    if kind == "freelance":
        options = FreelanceOptions(ping_seconds=0.2, dead_seconds=0.6, request_seconds_max=60.0)
        freelance = FreelanceClient(*endpoints, options=options)
        return lambda body: freelance.call(body).frames[0]
    if kind == "majordomo":
        majordomo = Client(*endpoints, **PATIENT)
        return lambda body: majordomo.call("echo", body)
    if kind == "titanic":
        titanic = TitanicClient(*endpoints, **PATIENT)
        return lambda body: titanic.call("echo", body)
    pirate = LazyPirate(*endpoints, **PATIENT)
    return lambda body: pirate.call(body)[0]


if __name__ == "__main__":
    kind, endpoints, body = sys.argv[1:]
    call = caller(kind, *endpoints.split(","))
    print("calling", flush=True)
    print(call(body.encode()).decode(), flush=True)
