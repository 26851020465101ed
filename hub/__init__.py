"""The hub decides which subscribers get a topic's content, in WebSub's terms (W3C Recommendation, 2018).

The terms. A **topic URL** names content, here ``<PUBLIC_URL>/topics/<name>``. A **subscriber** asks the **hub**, by a
form that it POSTs, to ``subscribe`` its **callback URL** to a topic or to ``unsubscribe`` it. Anyone can send such a
form in another name, so the hub first **verifies the intent**. It sends a GET with a random **challenge** to the
callback. Only a 2xx whose body is that challenge confirms the request. A subscription lasts for its **lease**; asking
again renews it. **Content distribution** is a POST of the topic's whole content to the callback, signed with the secret
that the subscriber chose.

Two different things have states. A **request** (one row of ``hookwire.intents``) is accepted, verified and decided::

                  claim: GET with a fresh challenge             2xx + challenge
      requested ------------------------------------> verifying ----------------> verified
          ^   ^                                        |  |   |
          |   '--- the claim's time ran out (crash) ---'  |   | any other answer, or no answer
          |                                               |   | after the last try
          '------ no answer at all: again after 5, 25 s --'   '----------------> failed

      requested, verifying ------ a newer request of the same pair was verified ------> superseded

Where a topic has a validator, the hub asks its publisher before the callback. A refused subscriber gets a denial
(``denied``). A request goes through up to three **steps**, each with its own claims: validate, verify, deny.

A **subscription** (one row of ``hookwire.subscriptions``) changes only when a request is verified, never when a request
is made or fails (WS-18, WS-19)::

                  subscribe verified                      subscribe verified (renewal: new lease, new secret or none)
      (none) -----------------------------> active ---.
                                            |  |  ^---'
                     lease ends             |  |  unsubscribe verified
                expired <-------------------'  '-------------------> deleted
                (and gone: the callback answered 410 to a delivery; denied: the hub revoked it)

The pair. Requests and subscriptions belong together when topic and callback are the same (WS-20). Both are compared
after one decoding of percent-encoded unreserved characters (WS-23); ``topic_url.identity`` is the digest. The original
text is stored and used. Of two requests for one pair the later *accepted* request wins, whichever is verified first
(WS-103). Ids are drawn in the order of acceptance, and verifying a request supersedes every older open request. An
older request that is verified in time takes effect until the newer one does.

Answer first, verify later. The answer to the form is 202 as soon as the request is committed; it depends on no other
server (WS-33, WS-69). After that the row is the only memory: ``verification`` claims it for a limited time. A process
that dies leaves a row that comes due again by itself. The number of the claim is its fence: a late outcome of a stopped
process finds another number and changes nothing.

Limits protect third parties from too many requests (WS-101, AB-01). Each callback host and each tenant has a bucket of
tokens. One GET runs at a time per host and mode, and per pair. Delays grow for a pair that keeps failing.

Order. WebSub subscriptions are ordered: events with a key arrive in the key's order. A failing delivery holds back only
later events of the same key (DL-8). Events without a key have no order to keep.

Topics of **other publishers** are named by their own URL. After a ping the hub fetches their content and publishes it
here as an event. ``Link`` then has the topic's own links. A feed may be reduced to its new entries.

The files: ``form`` reads the request; ``topic_url`` finds the topic and the pair; ``acceptance`` decides whether to
store it. ``intent`` has the states above, without I/O; ``verification`` sends the GETs and stores their outcome.
``subscription_status`` joins both states; ``revocation`` ends a subscription by the hub. ``refresh`` renews leases of
PubSubHubbub 0.3; ``options`` has the settings. Foreign topics: ``fetching``, with ``discovery`` of their links and
``feed`` for Atom and RSS. ``content`` is content that comes with its ping; ``upstream`` makes this hub a subscriber of
others. ``topics`` and ``publish`` accept events. The folder ``rabbithub`` serves **RabbitHub**'s exchanges and queues
with the same parts.
"""
