"""Majordomo broker, as a program of a few lines; `hookwire broker` is the same with options."""

import signal

from failures import parser

from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram

options = parser(__doc__, bind="tcp://127.0.0.1:5555").parse_args()
program = BrokerProgram([options.bind], BrokerOptions(), report=lambda event: print(*filter(None, event), flush=True))
signal.signal(signal.SIGTERM, lambda *_: program.stop())
print(f"listening on {', '.join(program.endpoints)}", flush=True)
program.run()
