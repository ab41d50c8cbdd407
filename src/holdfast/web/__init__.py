"""The HTTP API and the page: a client like the command line.

::

    asgi.py       the ASGI application: gate, then route, then answer
    gate.py       who may, decided before routing; everything is denied unless it is allowed
    tokens.py     bearer tokens with roles, kept hashed in a file
    sessions.py   cookies and one-time codes of the page
    routes.py     every path, with its method, role, body and answer; matched on the raw path
    calls.py      what a handler gets; problems.py: errors as RFC 9457 documents; queries.py: parameters
    runs.py · steps.py · acts.py · bulk.py · batches.py · fleet.py    the answers
    streams.py    server-sent events
    openapi.py    the document, made from the routes
    static.py · metrics.py · server.py    files, Prometheus, uvicorn
"""
