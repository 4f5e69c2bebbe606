"""Fuzz the API server: structure-aware requests through the whole handler, in process and in virtual time.

    python -m tests.fuzz --requests 100000 --seed 1 --jobs 2
    python -m tests.fuzz --seed 1 --episode 17             the episode in which something was found

Requests come in episodes, each with a server of its own, so that a finding is small and can be repeated by its seed.

    samples.py      a valid object of every kind, and definitions with odd schemas
    values.py       values that are wrong, extreme or odd, and mutations of valid ones
    bodies.py       objects, patches, options, in all content types, some of them damaged
    queries.py      options, selectors, tokens to continue; forms, impersonation, upgrades
    requests.py     requests: methods on kinds, subresources and pages, by all sorts of users
    deliveries.py   bodies that do not come with their head: in pieces, framed oddly, cut, lost
    connections.py  the same over the simulated network, through the HTTP layer
    writers.py      which request, or which task of the server, has written what
    failures.py     the answers 5xx that are right
    world.py        the server, open watches, and what must hold after each request and at the end

Bugs that it must find are in tests/twins/requests.py.
"""
