"""Addresses of receivers: which URLs a webhook may have, and where it may connect."""

from __future__ import annotations

import socket
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

_GLOBAL_V6: Final = IPv6Network("2000::/3")
#: Prefixes whose addresses hold an IPv4 address, and how far that is from the end.
_EMBEDDING: Final = (
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)


class PrivateAddressError(Exception):
    """A host name that leads to an address which no webhook may reach."""


def is_permitted(url: str, *, hosts: Collection[str]) -> bool:
    """Return whether a URL is https, or http to one of these hosts.

    It has no user, no fragment, and a host that is a public address or a name.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url
    if not host or not plain or "@" in parts.netloc or "#" in url:
        return False
    if host in hosts:
        return parts.scheme in ("https", "http")
    try:
        return parts.scheme == "https" and is_public(host)
    except ValueError:
        return parts.scheme == "https"


def resolve(host: str, port: int, *, hosts: Collection[str]) -> str:
    """Return an address of a host, to be connected to instead of the name.

    Raises PrivateAddressError if any address is not public and the host is none of
    these; OSError if there is none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(each[4][0]) for each in found]
    if host not in hosts and not all(map(is_public, addresses)):
        raise PrivateAddressError
    return addresses[0]


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the internet. Raises ValueError."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        for network, shift in _EMBEDDING:
            if ip in network:
                return is_public(str(IPv4Address(int(ip) >> shift & 0xFFFF_FFFF)))
        if ip not in _GLOBAL_V6:
            return False
    return ip.is_global and not ip.is_multicast
