"""Addresses of receivers: the internet only, in every way to write an address."""

from __future__ import annotations

import pytest

from memoryhub.services.access import addresses
from memoryhub.services.access.addresses import PrivateAddressError


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0", "100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
        *("::127.0.0.1", "2001::1", "fec0::1", "64:ff9b:1::1"),
    ],
)
def test_private_addresses_are_not_public(address: str) -> None:
    assert not addresses.is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822"]
)
def test_public_addresses_are_public(address: str) -> None:
    assert addresses.is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        *("http://hooks.example.com/", "ftp://hooks.example.com/", "hooks.example.com"),
        *("https://", "https://a@hooks.example.com/", "https://hooks.example.com/#a"),
        *("https://127.0.0.1/", "https://[::1]/", "https://hooks.example.com:99999/"),
        *("https://hooks.example.com/ a", "https://höoks.example.com/", ""),
    ],
)
def test_url_of_no_public_host_is_refused(url: str) -> None:
    assert not addresses.is_permitted(url, hosts=["near.example"])


def test_named_hosts_may_be_near_and_plain() -> None:
    assert addresses.is_permitted("http://127.0.0.1:81/a", hosts=["127.0.0.1"])
    assert addresses.is_permitted("https://hooks.example.com/a?b=1", hosts=[])
    assert addresses.resolve("localhost", 80, hosts=["localhost"]) in (
        "127.0.0.1",
        "::1",
    )
    for host in ("localhost", "127.1", "2130706433", "0x7f000001"):
        with pytest.raises(PrivateAddressError):
            addresses.resolve(host, 80, hosts=[])
