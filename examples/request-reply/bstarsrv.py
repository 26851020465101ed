"""Binary Star server, proof of concept: the machine, three sockets and one timer by hand."""

import signal

from failures import parser

from reqrep.binary_star.state import BinaryStar, BinaryStarOptions
from reqrep.frames import Event
from reqrep.reactor import Reactor
from reqrep.transport import Transport

options = parser(
    __doc__, backup=False, bind="tcp://127.0.0.1:5001", state_bind="tcp://127.0.0.1:5003",
    state_peer="tcp://127.0.0.1:5004", state_ms=1000,
).parse_args()  # fmt: skip
reactor, transport = Reactor(), Transport()
machine = BinaryStar(
    "backup" if options.backup else "primary", reactor.clock(), BinaryStarOptions(options.state_ms / 1000)
)
clients, publisher, subscriber = transport.socket("router"), transport.socket("pub"), transport.socket("sub")
clients.bind(options.bind)
publisher.bind(options.state_bind)
subscriber.connect(options.state_peer)


def show(events: list[Event]) -> None:
    for event in events:
        print(event.kind, event.detail, flush=True)


def answer_clients() -> None:
    while (frames := clients.receive()) is not None:
        vote = machine.client(reactor.clock())
        show(vote.events)
        if vote.serve:
            clients.send(frames)


def hear_peer() -> None:
    while (frames := subscriber.receive()) is not None:
        show(machine.peer(reactor.clock(), frames)[1])


def publish(now: float) -> None:
    out, events = machine.tick(now)
    for frames in out:
        publisher.send(frames)
    show(events)


reactor.reader(clients, answer_clients)
reactor.reader(subscriber, hear_peer)
reactor.deadline(machine.deadline, publish)
signal.signal(signal.SIGTERM, lambda *_: reactor.stop())
print("listening", flush=True)
reactor.run()
transport.close()
