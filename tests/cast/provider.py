"""Provider of single sign-on on loopback: OpenID Connect, signed by RS256.

The double does what a provider does, and wrong what it is told to: `wrong` replaces
claims of the ID token, `deed` does more.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLIENT_ID, SECRET = "memoryhub", "kept between the two"


def _generate_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _encode_text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass(kw_only=True)
class Provider:
    """Running provider, the user before it, and the requests it was sent."""

    port: int = 0
    subject: str = "subject-of-nobody"
    #: Claims of its own; None takes one away.
    wrong: dict[str, Any] = field(default_factory=dict)
    #: One of: forged, unsigned, hashed, stranger, moved, away; endless, dripping, or
    #: with "_head" behind it, at one of the paths in `at`.
    deed: str = ""
    at: str = ""
    #: Set once a reply that never ends is not taken any more.
    hung_up: threading.Event = field(default_factory=threading.Event)
    key: rsa.RSAPrivateKey = field(default_factory=_generate_key)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def about(self) -> dict[str, Any]:
        issuer = "http://127.0.0.1:9" if self.deed == "stranger" else self.issuer
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def build_key_set(self) -> dict[str, Any]:
        own = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**own, "kid": "one", "use": "sig", "alg": "RS256"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Return the address to send the browser back to; everybody is signed in."""
        self.asked.append(asked)
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        sent = urlencode({"code": code, "state": asked["state"]})
        return f"{asked['redirect_uri']}?{sent}"

    def exchange_code(self, sent: dict[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a code, once, to the client that proves it asked."""
        asked = self.codes.pop(sent["code"], None)
        known = sent.get("client_id") == CLIENT_ID and sent["client_secret"] == SECRET
        if asked is None or not known:
            return None
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        proof = ("S256", _encode_text(digest))
        if (asked["code_challenge_method"], asked["code_challenge"]) != proof:
            return None
        return {
            "access_token": "opens nothing",
            "token_type": "Bearer",
            "id_token": self.id_token(asked["nonce"]),
        }

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "sub": self.subject,
            "nonce": nonce,
            "iat": now,
            "exp": now + 300,
            "auth_time": now,
            **self.wrong,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"kid": "one"}
        if self.deed == "unsigned":
            return jwt.encode(claims, "", algorithm="none", headers=header)
        if self.deed == "hashed":
            return self._hashed(claims)
        key = _generate_key() if self.deed == "forged" else self.key
        return jwt.encode(claims, key, algorithm="RS256", headers=header)

    def _hashed(self, claims: dict[str, Any]) -> str:
        """Sign with the public key, which everybody has, as if it were a secret."""
        kind = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        public = self.key.public_key().public_bytes(*kind)
        header = {"alg": "HS256", "typ": "JWT", "kid": "one"}
        said = ".".join(
            _encode_text(json.dumps(part).encode()) for part in (header, claims)
        )
        return f"{said}.{_encode_text(hmac.digest(public, said.encode(), 'sha256'))}"


class _Handler(BaseHTTPRequestHandler):
    provider: ClassVar[Provider]

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            # The client has hung up.
            self.close_connection = True
            self.provider.hung_up.set()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = {name: each[0] for name, each in parse_qs(parts.query).items()}
        if parts.path == "/.well-known/openid-configuration":
            self._about()
        elif parts.path == "/keys":
            self._say(200, self.provider.build_key_set())
        elif parts.path == "/authorize":
            self._send_on(self.provider.authorize(asked))
        else:
            self._say(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        sent = {name: each[0] for name, each in parse_qs(body).items()}
        tokens = self.provider.exchange_code(sent)
        self._say(400 if tokens is None else 200, tokens or {"error": "no"})

    def _about(self) -> None:
        if self.provider.deed == "moved":
            self._send_on(f"{self.provider.issuer}/elsewhere")
        elif self.provider.deed == "away":
            self._say(503, {})
        else:
            self._say(200, self.provider.about())

    def _send_on(self, address: str) -> None:
        self.send_response(302)
        self.send_header("Location", address)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _go_on(self) -> None:
        """Write until the client hangs up: at once, or a byte now and then."""
        drips = self.provider.deed.startswith("dripping")
        head = b"HTTP/1.1 200 OK\r\nX-Long: "
        if not self.provider.deed.endswith("_head"):
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"
        self.wfile.write(head)
        never = threading.Event()
        while not never.wait(0.05 if drips else 0):
            self.wfile.write(b" " if drips else b" " * 65_536)

    def _say(self, status: int, body: dict[str, Any]) -> None:
        if self.provider.at and self.path.startswith(self.provider.at):
            self._go_on()
            return
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Print nothing: tests say what went on."""


@contextmanager
def serving() -> Iterator[Provider]:
    """Run a provider on its own port, until the block ends."""
    provider = Provider()
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    provider.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
