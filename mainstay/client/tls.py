"""TLS as a client speaks it: whom to trust, and what to show."""

import ssl

from mainstay.client.config import BadConfig, ClientTls
from mainstay.env.memory_file import memory_file


def tls_context(tls: ClientTls) -> ssl.SSLContext:
    """Blocks for as long as it takes to read the certificates of this machine. Raises `BadConfig`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not tls.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not tls.authorities:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=tls.authorities)
        except (ssl.SSLError, ValueError) as error:
            raise BadConfig(f"the certificate authorities of the server cannot be read: {error}") from None
    if tls.certificate:
        show_certificate(context, tls)
    return context


def show_certificate(context: ssl.SSLContext, tls: ClientTls) -> None:
    """Show the certificate of the client on new connections. Raises `BadConfig`."""

    def password() -> str:
        raise BadConfig("the key of the client certificate has a passphrase; remove it")

    with memory_file(f"{tls.certificate}\n{tls.key}".encode()) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            raise BadConfig(f"the client certificate and its key cannot be used: {error}") from None
