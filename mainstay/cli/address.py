"""HOST:PORT as an option."""

import click


class AddressParam(click.ParamType[tuple[str, int]]):
    name = "host:port"

    def convert(
        self, value: str | tuple[str, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            self.fail(f"{value!r}: put the IPv6 address in brackets (for example [::1]:6443)", param, ctx)
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            self.fail(f"{value!r} is not HOST:PORT (for example 127.0.0.1:6443)", param, ctx)
        return host or "0.0.0.0", int(port)
