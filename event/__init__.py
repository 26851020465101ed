"""The shape that everyone passes.  This room imports nothing of ours and does no input or output.

What an event is
    Bytes that somebody posted to a topic, and what was said about them: an ordering key, a content type, the
    CloudEvents attributes.  The bytes are stored and sent as they were received; nothing re-serialises them
    (PA-02).  A ``Draft`` is what a publisher hands in; an ``Event`` is the same thing after COMMIT, when it has an
    id and a time of acceptance.

        HTTP binary ----.                                                   .---- HTTP binary
        HTTP structured -+                                                 +----- HTTP structured
        HTTP batch ------+--> Draft --- hub, SQL: one transaction ---> Event ---- HTTP batch
        Kafka -----------+              (draws the id, COMMIT)             +----- Kafka headers ``ce_*``
        AMQP 0-9-1 ------'                                                  '---- AMQP headers ``cloudEvents_*``
             decode_*                                                         encode_*

Its id
    ``evt_<incarnation>_<id>``: the installation's random name and the row's number.  It is derived, never stored,
    the same on every transport (``webhook-id``, ``hookwire-event-id``, the default ``ce-id``), and holds no dot,
    because a dot separates the parts of what a webhook signature covers (WH-S05).  See ``event.identity``.

Its key and its hash
    Events of one (topic, key) keep their commit order; an event without a key has no order.  One documented hash of
    (topic, key) gives the shard that one relay owns and the stripe that one publishing transaction locks
    (``event.key_hash``).  Three writers compute it (SQL, service, SDK), so its vectors are published in
    ``openapi/key-hash-vectors.json``.  Kafka's own choice of partition is another hash: ``event.partition``.

Its carriers
    An event published in any CloudEvents mode can be delivered in any other (WH-C10).  The canonical form is that
    of binary mode: each attribute is a header ``ce-<name>`` with plain text as its value, ``datacontenttype`` is the
    content type, the data are the payload.  ``event.cloudevents`` holds the bindings, ``event.json_format`` the JSON
    form, ``event.attribute`` what an attribute may be, ``event.strict_json`` the only JSON reader for strangers'
    bytes.
"""
