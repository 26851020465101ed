"""Signing in and out: sessions, the form of the key, and the check of each form."""
