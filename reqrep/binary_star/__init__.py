"""Binary Star: two servers of which one is active (ZeroMQ guide, chapter 4).

Each side publishes its state once per interval. The peer is gone after two silent intervals. A passive server becomes
active only when its peer is gone *and* a client asks: the client is the third voter::

             peer ACTIVE                        client asks and peer is gone
    PRIMARY -------------> PASSIVE <---------+ +---------------------------> ACTIVE
       |                      ^              | |                               ^
       |  peer BACKUP, or     |              +-' peer started again            |
       |  client and no peer  |                                                |
       '----------------------|------------------------------------------------'
    BACKUP -------------------'   a backup alone never serves

Recovery is manual: a primary that comes back finds an active peer and stays passive (BS-07). Use it for one pair on one
network with a dedicated link. Live-live brokers, to which all workers connect, need none of this and come first.
"""
