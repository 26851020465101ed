"""The server's public name. A wheel holds the rooms in this package; a checkout holds them beside it."""
