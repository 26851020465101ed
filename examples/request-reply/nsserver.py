"""Name service: a Freelance server that knows the endpoints of logical names. Run two or more (FL-13)."""

import json
import tomllib
from pathlib import Path

from failures import parser

from hookwire.services.server import FreelanceServer

options = parser(
    __doc__, endpoint="tcp://127.0.0.1:5555", names=str(Path(__file__).with_name("names.toml"))
).parse_args()
names = tomllib.loads(Path(options.names).read_text(encoding="utf-8"))


def look_up(frames: list[bytes]) -> list[bytes]:
    """Take environment and name; return 200 and the endpoints, or 404."""
    words = [frame.decode("utf-8", "replace") for frame in frames]
    found = names.get(words[0], {}).get(words[1]) if len(words) == 2 else None
    return [b"404"] if found is None else [b"200", json.dumps(found).encode()]


server = FreelanceServer(options.endpoint, look_up)
print(f"listening on {server.endpoint}", flush=True)
server.run()
