"""``hookwire sources``: Kafka sources with their refused records, and inbound sources for webhooks of others."""
