"""Settings of the language model: whole or absent, and no refusal tells the key."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field


class Price(BaseModel):
    """What a model takes for a million tokens, in any currency."""

    model_config = ConfigDict(extra="forbid")

    price: float = Field(ge=0)
    #: Of those that it has cached.
    cached: float = Field(ge=0)
    #: Of what it answers; None: as of what it is asked.
    answers: float | None = Field(default=None, ge=0)

    def cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return what a question and its answer cost, to six decimals."""
        answers = self.price if self.answers is None else self.answers
        return round((tokens_in * self.price + tokens_out * answers) / 1e6, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Where a chat-completions API is, and which of its models is asked."""

    #: Up to what `/chat/completions` follows.
    url: str
    name: str
    #: Sent to that address alone.
    key: str = field(repr=False)
    #: None: nobody said what it takes.
    price: Price | None = None
    #: What it takes of a question and its answer; None: nobody said so.
    window_tokens: int | None = None

    @property
    def host(self) -> str:
        """Give the host, which is given what the model is asked."""
        return urlsplit(self.url).netloc


def near_or_secret(url: str) -> bool:
    """Return whether an address is https, or http on loopback, with no user in it."""
    parts = urlsplit(url)
    near = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost"}
    if not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        return False
    return parts.scheme == "https" or near


def read_secret(file: Path, variable: str) -> str:
    """Read a secret. Raises ValueError if the file holds none."""
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        secret = ""
    if not secret:
        raise ValueError(f"{variable} holds no secret")
    return secret


def read(
    url: str,
    name: str,
    key: str,
    file: Path | None,
    *,
    price: Price | None = None,
    window_tokens: int | None = None,
) -> ModelSettings | None:
    """Return the settings; None where there is no model. Raises ValueError with why."""
    if not (url or name or key or file):
        return None
    parts = {"URL": url, "NAME": name, "KEY": key or file}
    if missing := [f"MEMORYHUB_MODEL_{each}" for each in parts if not parts[each]]:
        raise ValueError(f"the model needs {' and '.join(missing)} as well")
    if not near_or_secret(url):
        raise ValueError("MEMORYHUB_MODEL_URL must be an https:// address")
    if find_spec("httpx2") is None:
        raise ValueError("the model needs an extra: uv sync --inexact --extra llm")
    if file is not None:
        key = read_secret(file, "MEMORYHUB_MODEL_KEY_FILE")
    if not (key.isascii() and key.isprintable()):
        raise ValueError("MEMORYHUB_MODEL_KEY is no key: it has more than ASCII")
    return ModelSettings(
        url=url.rstrip("/"),
        name=name,
        key=key,
        price=price,
        window_tokens=window_tokens,
    )
