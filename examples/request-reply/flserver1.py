"""Freelance server, model 1: returns each request."""

from failures import parser

from hookwire.services.server import ReplyServer

server = ReplyServer(parser(__doc__, bind="tcp://127.0.0.1:5555").parse_args().bind, lambda frames: frames)
print(f"listening on {server.endpoint}", flush=True)
server.run()
