"""Paranoid Pirate queue: clients at the front, workers at the back."""

import signal

from failures import parser

from reqrep.pirate.paranoid_queue import ParanoidQueue
from reqrep.pirate.server import QueueServer
from reqrep.reactor import Reactor
from reqrep.transport import Transport

options = parser(__doc__, frontend="tcp://127.0.0.1:5555", backend="tcp://127.0.0.1:5556").parse_args()
reactor, transport = Reactor(), Transport()
server = QueueServer(ParanoidQueue(), reactor, transport, options.frontend, options.backend)
signal.signal(signal.SIGTERM, lambda *_: reactor.stop())
print(f"listening on {server.frontend} and {server.backend}", flush=True)
reactor.run()
server.close()
transport.close()
