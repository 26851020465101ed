"""subscribing holds the routes of receivers: subscriptions, their callbacks and keys, pulling, and the WebSub hub."""
