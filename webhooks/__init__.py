"""webhooks delivers: fan-out, attempts, retry, signature, and the one guarded client for strangers' URLs.

One delivery
------------

::

     event + subscription --fan-out--> pending --claim (lease, fence)--> sending
                                          ^                                 |
                                          | retry at T (schedule, jitter,   | outcome
                                          |             Retry-After)        v
                                          +------------------------- settlement ----> delivered
                                                                            |
                                                                            +-------> dead letter
                                                                            |         exhausted, declined,
                                                                            |         aborted, gone
                                                                            +-------> subscription gone or disabled

* A *claim* makes the row due again at the end of its lease: a worker that dies gives back by dying.
* The *fence* is the claim's token. A worker that was stopped and wakes up settles under an old fence, which
  changes nothing; the receiver may have got the event twice and tells by ``webhook-id``.
* An attempt counts from its claim on, so one that kills the worker counts too (WH-R11).
* A delivery that is neither delivered nor dead is in ``deliveries``: nothing lives in memory alone.

Order: a plain subscription has none. In an *ordered* one a key's events form a lane, only the lane's lowest event
is ever claimed, and a failing one holds back its own key alone. What is behind it is due at infinity until the
settlement of the one before promotes it. WebSub's new content wakes a head that backs off, outside its schedule.

Four parts, with arrows one way: :mod:`webhooks.claim` takes and returns deliveries. :mod:`webhooks.schedule` decides
for which subscription how many, and which is next. :mod:`webhooks.attempt` sends. :mod:`webhooks.settlement` stores.
The worker moves claims and results between them.

Every URL that a stranger named goes through :mod:`egress.client`, which dials only what
:mod:`egress.guard` has judged.
"""
