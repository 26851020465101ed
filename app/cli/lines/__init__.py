"""Lines that commands print for people."""
