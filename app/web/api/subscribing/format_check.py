"""Format check: options of a delivery format that contradict each other, for the API and for ``hookwire sync``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.web.problem import Problem
from webhooks.chat import CHAT_FORMATS, TemplateRefused, check_template

__all__ = ["check_format"]


def check_format(options: Mapping[str, Any]) -> None:
    """Raise ``Problem`` for options that contradict each other.

    Format batch requires ``batch_max`` (WH-C05). A template is for chat formats only and may use known fields only.
    """
    form, template = options.get("format"), options.get("template")
    if form == "batch" and options.get("batch_max") is None:
        raise Problem("invalid-parameter", "format batch requires batch_max, 1 to 1000", parameter="batch_max")
    if template is None:
        return
    if form not in CHAT_FORMATS:
        raise Problem("invalid-parameter", f"a template is for {' and '.join(CHAT_FORMATS)}", parameter="template")
    try:
        check_template(template)
    except TemplateRefused as error:
        raise Problem("invalid-parameter", str(error), parameter="template") from None
