"""Settings of the language model: complete or absent; no error shows the key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field


class Price(BaseModel):
    """Prices of a model for a million tokens, in any currency."""

    model_config = ConfigDict(extra="forbid")

    price: float = Field(ge=0)
    #: Price of cached tokens of questions; None: as for the others.
    cached: float | None = Field(default=None, ge=0)
    #: Price of tokens of answers; None: as for tokens of questions.
    answers: float | None = Field(default=None, ge=0)

    @property
    def cached_price(self) -> float:
        """Price of cached tokens, as of the others unless it is set."""
        return self.price if self.cached is None else self.cached

    def compute_cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return what a question and its answer cost, to six decimals."""
        answers = self.price if self.answers is None else self.answers
        return round((tokens_in * self.price + tokens_out * answers) / 1e6, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Address of a chat-completions API, and the model to ask there."""

    #: URL up to `/chat/completions`.
    url: str
    name: str
    #: Sent to that URL alone.
    key: str = field(repr=False)
    #: None: no price is configured.
    price: Price | None = None
    #: Limit of tokens of a question and its answer; None: none is configured.
    window_tokens: int | None = None

    @property
    def host(self) -> str:
        """Host that receives the questions."""
        return urlsplit(self.url).netloc


def is_secure_url(url: str) -> bool:
    """Return whether a URL is https, or http on loopback, without a user in it."""
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
    """Return the settings; None without a model. Raises ValueError with the reason."""
    if not (url or name or key or file):
        return None
    parts = {"URL": url, "NAME": name, "KEY": key or file}
    if missing := [f"MEMORYHUB_MODEL_{each}" for each in parts if not parts[each]]:
        raise ValueError(f"the model needs {' and '.join(missing)} as well")
    if not is_secure_url(url):
        raise ValueError("MEMORYHUB_MODEL_URL must be an https:// address")
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
