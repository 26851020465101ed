"""A question about a service, as in the ZeroMQ guide, chapter 4, "Service Discovery".

The paragraph on ``mmi.service``, and 8/MMI: a Majordomo request whose body is the name of a service. The broker answers
200 if the service has a worker, and 404 if it has none.

    mmiecho.py ENDPOINT SERVICE [SERVICE ...]
"""

import sys

from tests.ancestors.mdclient import Client

client = Client(sys.argv[1])
for service in sys.argv[2:]:
    print(f"{service}: {client.send(b'mmi.service', service.encode())}", flush=True)
