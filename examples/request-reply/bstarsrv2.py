"""Binary Star server with the reactor: handlers for clients and for each change of state."""

import signal

from failures import parser

from reqrep.binary_star.server import BinaryStarServer
from reqrep.binary_star.state import BinaryStarOptions
from reqrep.reactor import Reactor
from reqrep.transport import Transport

options = parser(
    __doc__, backup=False, bind="tcp://127.0.0.1:5001", state_bind="tcp://127.0.0.1:5003",
    state_peer="tcp://127.0.0.1:5004", state_ms=1000,
).parse_args()  # fmt: skip
reactor, transport = Reactor(), Transport()
server = BinaryStarServer(
    "backup" if options.backup else "primary", options.state_bind, options.state_peer, reactor, transport,
    BinaryStarOptions(options.state_ms / 1000),
)  # fmt: skip
server.on_active(lambda: print("active", flush=True))
server.on_passive(lambda: print("passive", flush=True))
server.voter(options.bind, lambda socket, frames: socket.send(frames) and None)
signal.signal(signal.SIGTERM, lambda *_: reactor.stop())
print("listening", flush=True)
reactor.run()
server.close()
transport.close()
