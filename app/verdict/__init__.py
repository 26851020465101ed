"""The verdict on the whole: whether something is wrong, what, since when. Facts are read, judged and printed apart.

::

    relay, source --> presence --> process_states -+
    outbox, deliveries, queues, tasks, jobs, ... --+--> facts --> judge --> verdict --> page, command,
                                                                                         GET /status, metrics
"""
