"""asking speaks HTTP to a hub: requests over kept connections."""
