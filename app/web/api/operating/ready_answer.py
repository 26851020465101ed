"""The answer of /readyz, which is given also before the routes of the API are imported."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import JSONResponse

from app.web.api.route.context import Context

__all__ = ["ready_answer"]

_ILL: Final = ("backing off", "refused")


async def ready_answer(context: Context) -> JSONResponse:
    """Return the answer. The stage is read last, because the questions to the database may take seconds."""
    sinks: dict[str, Any] = {}
    for name, (state, error) in context.relay_states().items():
        sinks[name] = {"state": state, **({"error": error[:200]} if error and state in _ILL else {})}
    if outage := await context.readiness.check():
        return JSONResponse({"status": "unavailable", "database": outage, "sinks": sinks, "verdict": "trouble"}, 503)
    degraded = any(sink["state"] in _ILL for sink in sinks.values())
    found = await context.verdict.get_older()
    word = "trouble" if found is None else found.word
    stage = context.stage
    status = stage or ("degraded" if degraded else "ok")
    answer = {"status": status, "database": "ok", "sinks": sinks, "verdict": word}
    return JSONResponse(answer, 200 if stage is None else 503)
