"""Decides which messages of an authenticated user the broker takes. Without a file of rights it takes all."""

from __future__ import annotations

from reqrep.frames import Frames
from reqrep.inside import split_number
from reqrep.majordomo.wire import Command, MessageKind
from reqrep.majordomo.worker import Worker
from reqrep.rights import Rights, RightsFile

__all__ = ["Door", "answer_to_refused"]

_CALL = b"mmi.call"
_STORE = b"titanic.request"
_PUBLISH = b"hub.publish"
_OPEN = frozenset({b"titanic.reply", b"titanic.close"})
"""Services for everybody in the file: the id of a request is the right to it."""


class Door:
    """Asks the file for the rights of each message's user."""

    def __init__(self, file: RightsFile) -> None:
        self._file = file

    def lets_in(self, command: Command, user: str) -> bool:
        """Return whether the user may send this command."""
        if command.kind not in {MessageKind.REQUEST, MessageKind.READY}:
            return True  # only a registered worker's other commands have an effect
        rights = self._file.of(user)
        if rights is None:
            return False
        if command.kind is MessageKind.READY:
            return rights.may_serve(command.name)
        return _may_ask(rights, command.name, command.body)

    def keeps(self, worker: Worker) -> bool:
        """Return whether a registered worker may still serve, by the file as it is now."""
        rights = self._file.of(worker.user)
        return rights is not None and rights.may_serve(worker.service)


def _may_ask(rights: Rights, service: bytes, body: Frames) -> bool:
    """Return whether a request is allowed. One that names another service needs the right to that one, too."""
    if service in {_CALL, _STORE}:
        _, asked = split_number(body)
        return not asked or _may_ask(rights, asked[0], asked[1:])
    if service == _PUBLISH:
        _, event = split_number(body)
        return bool(event) and rights.may_publish(event[0])
    return service in _OPEN or service.startswith(b"mmi.") or rights.may_call(service)


def answer_to_refused(command: Command, names_inside: frozenset[bytes]) -> Frames | None:
    """Return the body of the answer to a request that was not let in, or None where the protocol has no status."""
    if command.name == _CALL:
        return [b"403", command.body[0], b"not-allowed"]
    return [*split_number(command.body)[0], b"400"] if command.name in names_inside else None
