"""Settings: read once from the environment and a file, handed on as frozen options. Only ``app`` reads them."""
