"""Kafka as a sink. Only this package and the NELI election use aiokafka.

``sink`` is the adapter of :mod:`relay.sink`. ``producer`` sends batches with a fence, and ``batches`` packs them.
``admin`` and ``topics`` describe topics, ``reader`` reads topics back, and ``connection_check`` finds why a broker
refuses the connection.
"""
