"""Binary Star client: primary first, then backup, each time after the fail-over time; the request is kept."""

from failures import parser

from hookwire.services import LazyPirate

options = parser(
    __doc__, connect="tcp://127.0.0.1:5001,tcp://127.0.0.1:5002", count=10, timeout_seconds=1.0, settle_seconds=2.0,
    tries=100,
).parse_args()  # fmt: skip
client = LazyPirate(
    *options.connect.split(","), timeout_seconds=options.timeout_seconds, pause_seconds=options.settle_seconds,
    tries=options.tries,
)  # fmt: skip
for _ in range(options.count):
    client.call()
    print(f"server replied OK ({client.number})", flush=True)
client.close()
