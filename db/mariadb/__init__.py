"""MariaDB and MySQL, for an outbox that lies there. The only package that knows aiomysql."""
