"""goharvest's command line: ``hookwire relay --compat``, ``hookwire pump`` and its configuration files."""
