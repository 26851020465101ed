"""The command ``hookwire consume``: run a program for each message of an AMQP queue."""
