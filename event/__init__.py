"""The event, which every room uses. This room imports no other room and does no input or output.

An event
    Bytes that a publisher posted to a topic, with an ordering key, a content type and CloudEvents attributes.  The
    bytes are stored and sent as they were received; nothing re-serialises them (PA-02).  A ``Draft`` is the event of a
    publisher before COMMIT. An ``Event`` is the same after COMMIT, with an id and a time of acceptance.

        HTTP binary ----.                                                   .---- HTTP binary
        HTTP structured -+                                                 +----- HTTP structured
        HTTP batch ------+--> Draft --- hub, SQL: one transaction ---> Event ---- HTTP batch
        Kafka -----------+              (draws the id, COMMIT)             +----- Kafka headers ``ce_*``
        AMQP 0-9-1 ------'                                                  '---- AMQP headers ``cloudEvents_*``
             decode_*                                                         encode_*

Its id
    ``evt_<incarnation>_<id>``: the installation's random name and the row's number.  It is derived, never stored, and
    the same on every transport (``webhook-id``, ``hookwire-event-id``, the default ``ce-id``). It holds no dot, because
    a dot separates the parts of a webhook's signed content (WH-S05).  See ``event.identity``.

Its key and its hash
    Events of one (topic, key) keep their commit order; an event without a key has no order.  One documented hash of
    (topic, key) gives the shard that one relay owns and the stripe that one publishing transaction locks
    (``event.key_hash``).  Three writers compute it (SQL, service, SDK), so its vectors are published in
    ``openapi/key-hash-vectors.json``.  Kafka's own choice of partition is another hash: ``event.partition``.

Its carriers
    An event published in any CloudEvents mode can be delivered in any other (WH-C10).  The canonical form is that of
    binary mode: each attribute is a header ``ce-<name>`` with plain text as its value. ``datacontenttype`` is the
    content type, and the data are the payload.  ``event.cloudevents`` holds the bindings, ``event.json_format`` the
    JSON form, ``event.attribute`` the rules of attributes, ``event.strict_json`` the only JSON reader for untrusted
    bytes.
"""
