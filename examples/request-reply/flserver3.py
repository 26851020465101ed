"""Freelance server, model 3: its routing id is the endpoint that clients connect to."""

from failures import parser

from hookwire.services.server import FreelanceServer

options = parser(__doc__, endpoint="tcp://127.0.0.1:5555", bind=None).parse_args()
server = FreelanceServer(options.endpoint, lambda frames: [b"OK"], options.bind)
print(f"listening on {server.endpoint}", flush=True)
server.run()
