"""rabbithub holds the routes of RabbitHub: exchanges and queues as endpoints, in its own terms."""
