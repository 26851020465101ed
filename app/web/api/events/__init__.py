"""events holds the routes that read stored events and topics, and the OpenAPI part of publishing."""
