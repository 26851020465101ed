"""What `hookwire pipeline audit` asks of the database, and what it prints."""
