"""AMQP 0-9-1 as a sink and as a source: the only package of this room that imports aio-pika.

``sink`` is the adapter of :mod:`relay.sink`. ``link`` is one connection with its lock queue, ``window`` keeps one
unconfirmed message per key, ``message`` writes properties and headers. ``source`` reads queues, and ``incoming`` reads
their messages. ``connection_check`` names the setting for which a broker refuses a connection.
"""
