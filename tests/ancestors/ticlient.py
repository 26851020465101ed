"""A Titanic client, as in the ZeroMQ guide, chapter 4, "Disconnected Reliability (Titanic Pattern)".

The paragraph on the client, and 9/TSP: it stores a request by ``titanic.request``, asks ``titanic.reply`` until the
reply is there, and ends the request by ``titanic.close``.

    ticlient.py ENDPOINT SERVICE BODY
"""

import sys
import time

from tests.ancestors.mdclient import Client


def main() -> int:
    endpoint, service, body = sys.argv[1:]
    client = Client(endpoint)
    answer = client.send(b"titanic.request", service.encode(), body.encode())
    if answer is None or answer[0][:3] != b"200":
        print(f"refused: {answer}", flush=True)
        return 1
    request_id = answer[1]
    while True:
        answer = client.send(b"titanic.reply", request_id)
        if answer is None or answer[0][:3] in {b"300", b"500"}:
            time.sleep(0.1)
            continue
        break
    closed = client.send(b"titanic.close", request_id)
    gone = client.send(b"titanic.reply", request_id)
    print(f"{answer} {closed} {gone}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
