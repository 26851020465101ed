"""RabbitHub: exchanges and queues as further ways in and out of the hub.

``resource`` has the verbs, ``exchange`` routes by patterns of topics, ``queue`` serves competing consumers, ``binding``
and ``token`` hold what a subscriber was given, ``batch_import`` takes over another hub's subscriptions.
"""
