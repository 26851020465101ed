"""route holds what the routes share: context, strict bodies, pages of lists, preconditions, refusals and audit entries.

No file here is a route itself.
"""
