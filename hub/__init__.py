"""Hub: decides who gets a topic's content, in WebSub's words (W3C Recommendation, 2018).

The words. A **topic URL** names content, here ``<PUBLIC_URL>/topics/<name>``. A **subscriber** asks the **hub**, by a
form that it POSTs, to ``subscribe`` its **callback URL** to a topic or to ``unsubscribe`` it. Anyone can send such a
form in anyone's name, so the hub first **verifies the intent**: it sends a GET with a random **challenge** to the
callback, and only a 2xx whose body is that challenge makes the request real. A subscription lasts for its **lease**;
asking again renews it. **Content distribution** is a POST of the topic's whole content to the callback, signed with
the secret that the subscriber chose.

Two things have states, and they must not be mixed up. A **request** (one row of ``hookwire.intents``) is accepted,
asked about, and decided::

                  claim: GET with a fresh challenge             2xx + challenge
      requested ------------------------------------> verifying ----------------> verified
          ^   ^                                        |  |   |
          |   '--- the claim's time ran out (crash) ---'  |   | any other answer, or no answer
          |                                               |   | after the last try
          '------ no answer at all: again after 5, 25 s --'   '----------------> failed

      requested, verifying ------ a newer request of the same pair was verified ------> superseded

Where a topic has a validator, its publisher is asked before the callback; who is not welcome is told so (``denied``). A
request goes through up to three **stages**, each of them one claim after the other: validate, verify, deny.

A **subscription** (one row of ``hookwire.subscriptions``) changes only when a request is verified, never when one is
made or fails (WS-18, WS-19)::

                  subscribe verified                      subscribe verified (renewal: new lease, new secret or none)
      (none) -----------------------------> active ---.
                                            |  |  ^---'
                     lease ends             |  |  unsubscribe verified
                expired <-------------------'  '-------------------> deleted
                (and gone: the callback answered 410 to a delivery; denied: the hub revoked it)

The pair. Requests and subscriptions belong together when topic and callback are the same (WS-20) after one decoding of
percent-encoded unreserved characters (WS-23); ``topic_url.identity`` is the digest of that comparison. What was sent is
kept and used as it came. Of two requests for one pair the later *accepted* one wins, whichever is verified first
(WS-103): ids are drawn in the order of acceptance, and verifying one supersedes every older one that is still open.
An older request that is verified in time takes effect until the newer one does.

Answer first, ask later. The answer to the form is 202 as soon as the request is committed; it depends on nothing that
another server does (WS-33, WS-69). After that the row is the only memory: ``verification`` claims it for a limited
time, and a process that dies in the middle leaves a row that comes due again by itself. The number of the claim is its
fence: an outcome that comes late, from a process that was stopped meanwhile, finds another number and changes nothing.

Third parties are protected from being asked too often (WS-101, AB-01): a bucket of tokens per callback host and per
tenant, one GET at a time per host and mode and per pair, and growing delays for a pair that keeps failing.

Order. WebSub subscriptions are ordered: events with a key arrive in the key's order, so that a failing delivery holds
back only what came later for the same key (DL-8). Events without a key have no order to keep.

Topics of **other publishers** are named by their own URL. A ping has their content fetched and published here as an
event; ``Link`` then says what the topic advertises of itself. Where it is a feed, it may be cut down to what is new.

The files: ``form`` what was asked; ``topic_url`` which topic, which pair; ``acceptance`` whether it is taken in;
``intent`` the states above, without I/O; ``verification`` the GETs and what they decide; ``subscription_status``
both states in one word; ``revocation`` how the hub itself ends a subscription; ``refresh`` leases of PubSubHubbub 0.3;
``options`` the settings. Foreign topics: ``fetching``, with ``discovery`` of their links and ``feed`` for Atom and RSS;
``content`` that comes with its ping; ``upstream``, this hub as a subscriber of others. ``topics`` and ``publish`` are
the other half, how events come in. **RabbitHub**'s exchanges and queues are further ways in and out over the same
machine: ``rabbithub`` its verbs, ``exchange`` routing as patterns of topics, ``rabbithub_queue`` competing consumers,
``rabbithub_token``.
"""
