"""Trouble with a sink: a receipt tells whether it begins or ends."""

from __future__ import annotations

from relay.sink import Receipt
from runtime.trouble import Trouble

__all__ = ["SinkTrouble"]


class SinkTrouble(Trouble):
    """A lasting failure of the broker behind one sink."""

    def __init__(self) -> None:
        super().__init__("relay_backs_off", "relay_goes_on")

    def hear(self, receipt: Receipt, sent: int, **labels: object) -> None:
        """Update it from a receipt for so many records: the trouble begins, or ends because the broker keeps all of
        them. A partial receipt without an error changes nothing: the missing records may be the failing ones.
        """
        if receipt.trouble is not None:
            self.tell(receipt.trouble, **labels)
        elif 0 < len(receipt.acknowledged) == sent:
            self.over(**labels)
