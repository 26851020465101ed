"""A receiver for Django, as a view: synchronous and asynchronous.

::

    receive = Receiver(secrets=["whsec_..."])
    urlpatterns = [path("hook", receive.view)]        # or receive.async_view
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from hookwire.receive.receiver import ReceiverBase, Response, refused

__all__ = ["Receiver"]


class Receiver(ReceiverBase):
    """A receiver whose ``view`` and ``async_view`` are free of Django's check of forms (CSRF).

    The signature takes its place. Django's own limit of a body does not count here; ``bytes_max`` does.
    """

    @property
    def view(self) -> Callable[[HttpRequest], HttpResponse]:
        """The view for WSGI; its handlers are plain functions."""

        def receive(request: HttpRequest) -> HttpResponse:
            body = self._body(request)
            if isinstance(body, Response):
                return _written(body)
            return _written(self.answer(*_parts(request, body)))

        view: Callable[[HttpRequest], HttpResponse] = csrf_exempt(receive)
        return view

    @property
    def async_view(self) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
        """The view for ASGI; handlers that are no coroutine functions run in a thread."""

        async def receive(request: HttpRequest) -> HttpResponse:
            body = self._body(request)
            if isinstance(body, Response):
                return _written(body)
            return _written(await self.answer_async(*_parts(request, body)))

        view: Callable[[HttpRequest], Awaitable[HttpResponse]] = csrf_exempt(receive)
        assert inspect.iscoroutinefunction(view), "Django asks for this"
        return view

    def _body(self, request: HttpRequest) -> bytes | Response:
        announced = request.META.get("CONTENT_LENGTH") or "0"
        most = self.policy.bytes_max
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > most:
            return refused(self.policy.too_large())
        try:
            body = request.read(most + 1)
        except RequestDataTooBig:
            return refused(self.policy.too_large())
        return refused(self.policy.too_large()) if len(body) > most else body


def _parts(request: HttpRequest, body: bytes) -> tuple[str, dict[str, str], bytes, str, str]:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return request.method or "", headers, body, request.META.get("QUERY_STRING", ""), request.path


def _written(response: Response) -> HttpResponse:
    headers = {name: value for name, value in response.headers.items() if name != "Connection"}
    return HttpResponse(response.body, status=response.status, headers=headers)
