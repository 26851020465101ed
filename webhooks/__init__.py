"""webhooks delivers: fan-out, attempts, retry, signature, all through the guarded client.

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

* A *claim* makes the row due again at the end of its lease, so a worker that dies loses nothing.
* The *fence* is the claim's token. A worker that was stopped and wakes up settles under an old fence, which changes
  nothing. The receiver may get the event twice and recognises it by ``webhook-id``.
* An attempt counts from its claim on, so an attempt that kills the worker counts too (WH-R11).
* A delivery that is neither delivered nor dead is in ``deliveries``: no state is in memory alone.

Order: a plain subscription has none. In an *ordered* subscription a key's events form a lane. Only the lane's lowest
event is ever claimed, and a failing event delays only its own key. A delivery behind it is due at infinity until the
settlement of its predecessor promotes it. WebSub's new content wakes a head that backs off, outside its schedule.

Four parts, with arrows one way: :mod:`webhooks.claim` takes and returns deliveries. :mod:`webhooks.schedule` decides
for which subscription how many, and which is next. :mod:`webhooks.attempt` sends. :mod:`webhooks.settlement` stores.
The worker moves claims and results between them.

Every untrusted URL goes through :mod:`egress.client`, which dials only addresses that :mod:`egress.guard` has judged.
"""
