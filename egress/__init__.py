"""egress reaches out: the one guarded HTTP client for every URL from an untrusted source.

::

    url ----> guard: may this be dialled? ----> resolver ----> guard judges the addresses
                                                                    |
    client <---- connection <---- pool <---- connector: dials exactly those addresses
                                                  |
                                              tunnel: the same through a proxy

Callbacks of subscribers, pages of foreign publishers and other hubs all have URLs that an outsider chose. Every request
to such a URL goes through :class:`egress.client.Client` (EG-13).

* The address that the guard has judged is the address that is dialled, and TLS checks the name in the URL. A name
  whose answer changes between the two questions gains nothing.
* A request has one total deadline and a cap on what it reads. It follows no redirect, reads no proxy from the
  environment, and decompresses nothing.
* :mod:`egress.callback_worker` POSTs work to callbacks: requests of services and jobs.
* A failure is an :class:`egress.failure.OutboundError`; no exception of a foreign library leaves this room.
"""
