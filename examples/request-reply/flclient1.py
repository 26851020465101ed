"""Freelance client, model 1: one server three times, or each of several once, in order."""

import sys

from failures import parser

from hookwire.services import NoReply, ask_in_turn

options = parser(__doc__, connect="tcp://127.0.0.1:5555,tcp://127.0.0.1:5556", timeout_seconds=1.0).parse_args()
try:
    reply = ask_in_turn(options.connect.split(","), b"Hello world", options.timeout_seconds)
except NoReply as error:
    sys.exit(f"no server answered: {error}")
print(f"service is running OK at {reply.server}")
