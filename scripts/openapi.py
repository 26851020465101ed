"""Writes `openapi/openapi.json` from the application. A test proves it fresh (`make openapi` writes it anew)."""

import json
import sys
from pathlib import Path

from app.web.api.contract import openapi_document
from app.web.application import build_api
from app.web.problem import Problems

OPENAPI_FILE = Path(__file__).parents[1] / "openapi" / "openapi.json"


def text() -> str:
    """Return the document as it is checked in."""
    return json.dumps(openapi_document(build_api(Problems())), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    OPENAPI_FILE.write_text(text(), encoding="utf-8")
    print(f"wrote {OPENAPI_FILE.name}")
    sys.exit(0)
