"""The HTTP API, one noun per file. Publishing is :mod:`app.web.publishing.ingest`; all else is a FastAPI route here.

::

    docs -> contract --+-> subscribing --+-> operating --+-> events -> dependency -> route
                       +-> rabbithub     '-> work -------'
                       '-> keys

``route`` holds the parts that the routes share. A folder imports only from the folders to its right.
"""
