"""Freelance server, model 2: a request has two frames, number and body; the reply is the number and OK."""

from failures import parser

from hookwire.services.server import ReplyServer


def answer(frames: list[bytes]) -> list[bytes]:
    return [frames[0], b"OK"] if len(frames) == 2 else [frames[0], b"BAD REQUEST"]


server = ReplyServer(parser(__doc__, bind="tcp://127.0.0.1:5555").parse_args().bind, answer)
print(f"listening on {server.endpoint}", flush=True)
server.run()
