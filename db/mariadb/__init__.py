"""MariaDB and MySQL, for an outbox in such a database. No other package knows aiomysql."""
