"""Django: an order and the event that tells of it, in one transaction.

A whole project in one file, for reading; what matters is `create`.

    pip install django 'psycopg[binary]' ../../sdk
    DATABASE=shop python django_orders.py runserver
"""

import json
import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path

from hookwire import Record, stash

settings.configure(
    SECRET_KEY=os.environ.get("SECRET_KEY", "for reading only"),
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": os.environ["DATABASE"],
            "USER": os.environ.get("DATABASE_USER", ""),
            "HOST": os.environ.get("DATABASE_HOST", ""),
            "PORT": os.environ.get("DATABASE_PORT", ""),
        }
    },
)
django.setup()


@transaction.atomic
def create(request: HttpRequest) -> JsonResponse:
    order = json.loads(request.body)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s, %s, %s)", [order["id"], order["customer"], order["total"]])
    event_id = stash(connection, Record("orders.created", order, key=order["customer"]))
    return JsonResponse({"event": event_id}, status=201)


urlpatterns = [path("orders", create)]
application = get_wsgi_application()

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
