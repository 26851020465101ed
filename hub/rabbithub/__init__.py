"""RabbitHub: exchanges and queues as further inputs and outputs of the hub. ``resource`` has the verbs, ``exchange``
routes by patterns of topics, and ``queues`` serves competing consumers. ``binding`` and ``token`` implement bindings
without HTTP. ``batch_import`` imports another hub's subscriptions.
"""
