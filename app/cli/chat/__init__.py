"""``hookwire chat``: topics as XMPP addresses. ``contacts`` stores contacts; ``component`` connects to the server."""
