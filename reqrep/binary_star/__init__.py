"""Binary Star: two servers of which one is active (ZeroMQ guide, chapter 4).

Each side publishes its state once per interval. The peer counts as gone after two silent intervals. A passive server
becomes active only when its peer is gone *and* a client sends a request::

             peer ACTIVE                        client asks and peer is gone
    PRIMARY -------------> PASSIVE <---------+ +---------------------------> ACTIVE
       |                      ^              | |                               ^
       |  peer BACKUP, or     |              +-' peer started again            |
       |  client and no peer  |                                                |
       '----------------------|------------------------------------------------'
    BACKUP -------------------'   a backup alone never serves

Recovery is manual: a restarted primary finds an active peer and stays passive (BS-07). Use a pair only where a
dedicated network link joins the two servers. Several independent brokers, to which all workers connect, need no pair;
prefer them.
"""
