"""The HTTP API, one noun per file. Publishing is :mod:`app.web.publishing.ingest`; everything else is a FastAPI route here."""
