"""AMQP 0-9-1 as a sink and as a source. No other package of ``relay`` imports aio-pika.

``sink`` is the adapter of :mod:`relay.sink`. ``link`` is one connection with its lock queue, ``window`` allows one
unconfirmed message per key, and ``message`` builds messages. ``source`` consumes queues, and ``incoming`` parses their
messages. ``connection_check`` connects, and names the setting to change if the broker refuses. ``notifications``
consumes the ids of tasks. ``error`` translates the client's exceptions, ``name`` checks names that it cannot send,
and ``decoding`` makes it read all messages.
"""
