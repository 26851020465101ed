"""inbound takes webhooks that others send: a *door* (inbound source) for each sender, ``POST /in/{source}``.

::

    body, headers --> door of this name --> signature over the raw bytes --> window of time --> handshake? --> event
                       |  unknown: a door       |  wrong                      |  too old          |
                       |  that fits nobody      v                             v                   v
                       '----------------> refused, all in the same words                     answered, no event

A *preset* (``presets.json``) says how a sender signs and where it writes id and type; its vectors stand beside it. A
door is a preset with a name, secrets and a topic of its own. Judging it is pure: bytes and a time in, a verdict out.
"""
