"""HTTP/1.1 and WebSocket for the API server: bytes in, requests to a handler, answers out in order.

`messages.py` is what a handler sees. `reader.py` turns bytes into requests and `encoder.py` answers into bytes, neither
with any I/O. `connection.py` is one connection and `server.py` all of them. What is too much or too slow is in
`limits.py`.
"""
