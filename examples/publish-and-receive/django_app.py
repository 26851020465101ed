"""A Django project in one file that publishes orders and receives them again.

    pip install 'hookwire[http,django]' gunicorn
    export HOOKWIRE_URL=http://127.0.0.1:8080 HOOK_SECRET=whsec_...
    gunicorn django_app:application --bind 127.0.0.1:8002

By ASGI: `pip install uvicorn`, and

    uvicorn django_app:asgi_application --port 8002

HOOK_SECRET is the secret of a subscription to http://127.0.0.1:8002/hook, which the hub returns when it is made.
"""

import json
import os

from django.conf import settings

if not settings.configured:
    settings.configure(SECRET_KEY=os.environ.get("SECRET_KEY", "only for this example"), ALLOWED_HOSTS=["*"])

from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from hookwire import Hookwire
from hookwire.receive import Event
from hookwire.receive.django import Receiver

hub = Hookwire()
receive = Receiver(secrets=[os.environ["HOOK_SECRET"]])
received: list[dict[str, object]] = []


@csrf_exempt  # this example has no form
def orders(request: HttpRequest) -> JsonResponse:
    """Publish an order, or list what was received."""
    if request.method == "POST":
        placed = json.loads(request.body)
        return JsonResponse({"event": hub.publish("orders.created", placed, key=placed["customer"]).id})
    return JsonResponse(received, safe=False)


@receive.on("orders.*")
def order(event: Event) -> None:
    """Take an order that the hub delivers."""
    received.append({"id": event.id, "key": event.key, "order": event.data})


urlpatterns = [path("orders", orders), path("hook", receive.view)]
settings.ROOT_URLCONF = __name__
application = WSGIHandler()
asgi_application = ASGIHandler()
