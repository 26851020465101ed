"""The command ``hookwire monitor``: events as lines of an XMPP chat."""
