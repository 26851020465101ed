"""The one error for software that is not installed."""


class MissingServerError(RuntimeError):
    """A server of the tests cannot be booted here; the message is one sentence that says what to install."""
