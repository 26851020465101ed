"""Ask the broker whether a service has a worker: 200 or 404 (8/MMI)."""

from failures import parser

from hookwire.services import Client

options = parser(__doc__, connect="tcp://127.0.0.1:5555", service="echo").parse_args()
client = Client(options.connect)
print(f"lookup {options.service} service: {client.call('mmi.service', options.service.encode()).decode()}")
client.close()
