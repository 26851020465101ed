"""``hookwire chat``: topics as XMPP addresses. ``contacts`` remembers and permits, ``component`` speaks XMPP."""
