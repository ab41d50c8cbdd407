"""The HTTP API and the page: a client like the command line.

::

    asgi           the ASGI application: gate, then route, then answer
    access_gate    who may, decided before routing; everything is denied unless it is allowed
    identity       who asks: tokens (bearer tokens with roles, hashed in a file), login_sessions (cookies and codes)
    table          every path, with its method, role, body and answer; routes matches it on the raw path
    handler_call   what a handler gets; problems: errors as RFC 9457 documents; queries: parameters
    *_routes       the answers, a file for each thing people ask about; fleet: workflows, workers and problems
    streams        server-sent events
    openapi        the document, made from the routes
    static · metrics · server    files, Prometheus, uvicorn
"""
