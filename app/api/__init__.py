"""The HTTP API, one noun per file. Publishing is :mod:`app.ingest`; everything else is a FastAPI route here."""
