"""route holds the parts that the routes share: context, bodies, paging, preconditions, refusals and audits.

No file here is a route itself.
"""
