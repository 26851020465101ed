"""AMQP 0-9-1 as a sink: the only package of this room that knows aio-pika.

``sink`` is the adapter of :mod:`relay.sink`. ``link`` is one connection with its lock queue, ``window`` keeps one
unconfirmed message per key, ``message`` writes properties and headers, ``connection_check`` says why a broker refuses
us.
"""
