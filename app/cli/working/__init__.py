"""What commands need of the SDK: programs as handlers, and queues in MariaDB or MySQL."""
