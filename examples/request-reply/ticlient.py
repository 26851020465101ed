"""Titanic client: submit a request, come back for its reply with the id alone, close it."""

from failures import parser

from hookwire.services import NoReply, RequestRefused, RequestUnknown, StillPending, TitanicClient

options = parser(
    __doc__, connect="tcp://127.0.0.1:5555", service="echo", body="Hello world", id="", wait_seconds=60.0, keep=False
).parse_args()
client = TitanicClient(*options.connect.split(","))
try:
    request_id = options.id or client.submit(options.service, options.body.encode())
    print(f"request UUID {request_id}", flush=True)
    for frame in client.wait(request_id, options.wait_seconds):
        print(f"reply: {frame.decode(errors='replace')}")
    if not options.keep:
        client.close_request(request_id)
except (NoReply, RequestRefused, RequestUnknown, StillPending) as error:
    raise SystemExit(str(error)) from error
finally:
    client.close()
