# mypy: ignore-errors
"""A subscriber on django-push: django_subscriber.py HUB TOPIC SECRET FOLDER.

It prints its callback, then each notification that it accepts.
"""

import sys
import threading
from wsgiref.simple_server import make_server

import django
from django.conf import settings
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application

hub, topic, secret, folder = sys.argv[1:]
server = make_server("127.0.0.1", 0, None)
settings.configure(
    SECRET_KEY="interop",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="django_push.subscriber.urls",
    INSTALLED_APPS=["django_push.subscriber"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/subscriber.sqlite"}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    PUSH_DOMAIN=f"127.0.0.1:{server.server_port}",
    USE_TZ=True,
)
django.setup()
call_command("migrate", verbosity=0)

from django_push.subscriber.models import Subscription  # noqa: E402 - models need the settings
from django_push.subscriber.signals import updated  # noqa: E402


def arrived(notification, **_):
    print(notification.decode(), flush=True)


updated.connect(arrived)
server.set_app(get_wsgi_application())
threading.Thread(target=server.serve_forever, daemon=True).start()
subscription = Subscription.objects.create(hub=hub, topic=topic, secret=secret)
print(subscription.callback_url, flush=True)
subscription.subscribe()
threading.Event().wait()
