"""A publisher of RabbitHub, as its README has it under "Declaring and deleting exchanges and queues" and "Publishing".

It PUTs an exchange, and POSTs the body with the routing key as `hub.topic`.

    rabbithub_publisher.py BASE EXCHANGE KEY BODY
"""

import sys
import urllib.request

base, exchange, key, body = sys.argv[1:]
endpoint = f"{base}/endpoint/x/{exchange}"
for method, url, data in (
    ("PUT", f"{endpoint}?amqp.exchange_type=topic", None),
    ("POST", f"{endpoint}?hub.topic={key}", body.encode()),
):
    with urllib.request.urlopen(urllib.request.Request(url, data, method=method)) as answer:
        print(answer.status, flush=True)
