"""Kafka as a sink: the only package, with the NELI election, that knows aiokafka.

``sink`` is the adapter of :mod:`relay.sink`. ``producer`` sends batches with a fence, ``batches`` packs them, ``admin``
and ``topics`` ask about topics, ``reader`` reads markers back, ``connection_check`` says why a broker refuses us.
"""
