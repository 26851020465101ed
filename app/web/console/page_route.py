"""PageRoute: a route of the console, whose refusals are pages too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.responses import Response
from typing_extensions import override

from app.web.api.route.context import context_of
from app.web.console.frame import frame_of
from app.web.pages.shell import page
from app.web.pages.sign_in_page import problem_content
from app.web.problem import Problem, problem_of_database, problem_of_validation
from db.errors import Busy, OutcomeUnknown, Unavailable

__all__ = ["PageRoute", "problem_page"]


class PageRoute(APIRoute):
    """Answer each operating error by a page with its status, and leave programming errors alone."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the framework's handler with our pages of problems."""
        handle = super().get_route_handler()

        async def handle_with_pages(request: Request) -> Response:
            try:
                return await handle(request)
            except Problem as problem:
                return problem_page(request, problem)
            except RequestValidationError as error:
                return problem_page(request, problem_of_validation(error.errors()))
            except (Busy, OutcomeUnknown, Unavailable) as error:
                reads = request.method in ("GET", "HEAD")
                if not reads:
                    context_of(request).readiness.doubt()
                return problem_page(request, problem_of_database(error, reads=reads))

        return handle_with_pages


def problem_page(request: Request, problem: Problem) -> Response:
    """Return the page of a refusal."""
    after = problem.retry_after_seconds
    headers = {} if after is None else {"Retry-After": str(after)}
    return page(frame_of(request), problem.kind.title, problem_content(problem), problem.status, headers=headers)
