# mypy: ignore-errors
"""Google's publisher client, converted from Python 2: google_publisher.py HUB URL... It announces all of the URLs."""

import sys
import urllib.request

import pubsubhubbub_publish

hub, *urls = sys.argv[1:]
opened = urllib.request.urlopen
requests = []


def urlopen(url, form):
    """In Python 2 a form was bytes already."""
    requests.append(form)
    return opened(url, form.encode())


urllib.request.urlopen = urlopen
pubsubhubbub_publish.publish(hub, *urls)
print(f"announced in {len(requests)} requests")
