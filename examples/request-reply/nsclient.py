"""Ask the name service. Its own endpoints are the only ones that a program must know; the environment is a word."""

import json
import sys

from failures import parser

from hookwire.services import FreelanceClient

options = parser(
    __doc__, connect="tcp://127.0.0.1:5555,tcp://127.0.0.1:5556", environment="test", name="echo"
).parse_args()
client = FreelanceClient(*options.connect.split(","))
status, *rest = client.call(options.environment.encode(), options.name.encode()).frames
client.close()
if status != b"200":
    sys.exit(f"{options.name} is unknown in {options.environment}")
found = json.loads(rest[0])
print(f"bind {' '.join(found['bind'])}; connect {' '.join(found['connect'])}")
