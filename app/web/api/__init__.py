"""The HTTP API, one noun per file. Publishing is :mod:`app.web.ingest`; everything else is a FastAPI route here."""
