"""Settings, read from the environment only; a wrong value is refused by name."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dj_database_url
import structlog
from pydantic import BaseModel, ConfigDict, Field, Json, ValidationError

from memoryhub import distribution, model_settings
from memoryhub.model_settings import ModelSettings, Price

BASE_DIR = distribution.FILES_DIR
#: Good enough on loopback; `serve` refuses it on a public bind.
DEFAULT_SECRET_KEY = "memoryhub-default-secret-for-loopback-only-" + "0" * 32


#: Addresses of PostgreSQL, or none.
_POSTGRES = "^$|^postgres(ql)?://"


class Environment(BaseModel):
    """Every variable the server reads; docs/configuration.md lists them."""

    model_config = ConfigDict(extra="ignore")

    DATABASE_URL: str = Field(default="", pattern=_POSTGRES)
    KEYS_DATABASE_URL: str = Field(default="", pattern=_POSTGRES)
    REDIS_URL: str = ""
    MEMORYHUB_DATA: Path = distribution.DATA_DIR
    MEMORYHUB_KEK_FILE: Path | None = None
    MEMORYHUB_LEDGER: Path | None = None
    MEMORYHUB_LEDGER_MIRROR: Path | None = None
    #: Folder of the server's output files, if its operator keeps any: scans read them.
    MEMORYHUB_LOGS: Path | None = None
    #: MiB of disk given up when a full disk blocks an erasure; 0: none.
    MEMORYHUB_BALLAST_MIB: int = Field(default=64, ge=0, le=65_536)
    MEMORYHUB_KEYS_BACKUP_DAYS: int = Field(default=7, ge=1)
    MEMORYHUB_BACKUP_DAYS: int = Field(default=30, ge=1)
    MEMORYHUB_SECRET_KEY: str = DEFAULT_SECRET_KEY
    MEMORYHUB_DEBUG: bool = False
    MEMORYHUB_TESTING: bool = False
    MEMORYHUB_ENV: str = Field(default="live", pattern="^[a-z]{2,8}$")
    #: Comma-separated host names, exact; loopback names are always in.
    MEMORYHUB_HOSTS: str = ""
    #: Comma-separated origins with scheme and port for sockets and forms.
    MEMORYHUB_ORIGINS: str = ""
    #: Comma-separated networks whose X-Forwarded-* headers count.
    MEMORYHUB_TRUSTED_PROXIES: str = ""
    MEMORYHUB_TLS: bool = False
    MEMORYHUB_SUDO_MINUTES: int = Field(default=60, ge=1)
    #: Officers and owners may sign in by a password alone, from anywhere.
    MEMORYHUB_ALLOW_PASSWORD_ONLY: bool = False
    #: Single sign-on by OpenID Connect: all of it or nothing.
    MEMORYHUB_SSO_ISSUER: str = ""
    MEMORYHUB_SSO_CLIENT_ID: str = ""
    MEMORYHUB_SSO_CLIENT_SECRET: str = ""
    MEMORYHUB_SSO_CLIENT_SECRET_FILE: Path | None = None
    #: The provider asks every user for two factors, even if its tokens do not say so.
    MEMORYHUB_SSO_MFA: bool = False
    #: A chat-completions API, without the path of its calls.
    MEMORYHUB_MODEL_URL: str = ""
    MEMORYHUB_MODEL_NAME: str = ""
    MEMORYHUB_MODEL_KEY: str = ""
    MEMORYHUB_MODEL_KEY_FILE: Path | None = None
    #: Tokens of one question and its answer; None: no limit.
    MEMORYHUB_MODEL_WINDOW_TOKENS: int | None = Field(default=None, ge=4_000)
    #: Tokens per project and day, questions and answers together.
    MEMORYHUB_MODEL_DAILY_TOKENS: int = Field(default=1_000_000, ge=1)
    #: Comma-separated host names, exact, to which webhooks may go by http, and where
    #: their address is private.
    MEMORYHUB_WEBHOOK_HOSTS: str = ""
    #: Mail server that alerts go by; empty: no mail.
    MEMORYHUB_MAIL_HOST: str = ""
    MEMORYHUB_MAIL_PORT: int = Field(default=587, ge=1, le=65_535)
    MEMORYHUB_MAIL_USER: str = ""
    MEMORYHUB_MAIL_PASSWORD: str = ""
    MEMORYHUB_MAIL_TLS: bool = True
    MEMORYHUB_MAIL_FROM: str = "memoryhub@localhost"
    MEMORYHUB_LEAN_API: bool = True
    #: Spans of OpenTelemetry, whose own variables say where to.
    MEMORYHUB_TRACES: bool = False
    MEMORYHUB_BODY_BYTES: int = Field(default=1_048_576, ge=1024)
    MEMORYHUB_KEY_REQUESTS_PER_SECOND: int = Field(default=500, ge=1)
    MEMORYHUB_KEY_BURST: int = Field(default=1000, ge=1)
    MEMORYHUB_ANONYMOUS_REQUESTS_PER_SECOND: int = Field(default=20, ge=1)
    MEMORYHUB_KEY_BYTES_PER_DAY: int = Field(default=10 * 2**30, ge=1)
    MEMORYHUB_KEY_STREAMS: int = Field(default=50, ge=1)
    MEMORYHUB_QUEUE_COMMANDS: int = Field(default=10_000, ge=1)
    MEMORYHUB_QUEUE_BYTES: int = Field(default=64 * 2**20, ge=1)
    MEMORYHUB_EXPIRY_INTERVAL_SECONDS: int = Field(default=15, ge=1, le=3600)
    MEMORYHUB_EXPORTS_PER_PROJECT: int = Field(default=2, ge=1, le=9)
    MEMORYHUB_EXPORTS_AT_ONCE: int = Field(default=4, ge=1)
    MEMORYHUB_EXPORTS_PER_DAY: int = Field(default=10, ge=1)
    #: Bytes of search indexes that a process keeps in memory.
    MEMORYHUB_SEARCH_BYTES: int = Field(default=48 * 2**20, ge=2**20)
    MEMORYHUB_READERS: int = Field(default=4, ge=1, le=64)
    MEMORYHUB_SQLITE_SYNCHRONOUS: str = Field(default="FULL", pattern="^(FULL|NORMAL)$")
    #: Days without an event after which payloads of a closed thread move to cold
    #: storage; None: never.
    MEMORYHUB_COLD_DAYS: int | None = Field(default=None, ge=0)
    #: A folder, or s3://bucket/prefix; empty: a folder below the data folder.
    MEMORYHUB_COLD_STORAGE: str = ""
    #: JSON: prices by the model's name, or any other name, for what-if costs.
    MEMORYHUB_PRICES: Json[dict[str, Price]] = Field(
        default="{}", validate_default=True
    )


def _read_environment() -> Environment:
    try:
        return Environment.model_validate(dict(os.environ))
    except ValidationError as failure:
        wrong = sorted({str(error["loc"][0]) for error in failure.errors()})
    # Omit the value, which may be a secret in the wrong place.
    raise _build_refusal(
        f"{', '.join(wrong)} can not have this value; docs/configuration.md says what "
        "it takes"
    )


def _read_sso_secret() -> str:
    """Return the secret of single sign-on, "" if off. Refuses partial settings."""
    secret, file = ENV.MEMORYHUB_SSO_CLIENT_SECRET, ENV.MEMORYHUB_SSO_CLIENT_SECRET_FILE
    parts = {
        "MEMORYHUB_SSO_ISSUER": ENV.MEMORYHUB_SSO_ISSUER,
        "MEMORYHUB_SSO_CLIENT_ID": ENV.MEMORYHUB_SSO_CLIENT_ID,
        "MEMORYHUB_SSO_CLIENT_SECRET": secret or file,
    }
    if not any(parts.values()):
        return ""
    if missing := [name for name, value in parts.items() if not value]:
        raise _build_refusal(f"single sign-on needs {' and '.join(missing)} as well")
    if not model_settings.is_secure_url(ENV.MEMORYHUB_SSO_ISSUER):
        raise _build_refusal("MEMORYHUB_SSO_ISSUER must be an https:// address")
    if find_spec("allauth") is None:
        raise _build_refusal(
            f"single sign-on needs an extra: {distribution.describe_extra('sso')}"
        )
    if file is None:
        return secret
    try:
        return model_settings.read_secret(file, "MEMORYHUB_SSO_CLIENT_SECRET_FILE")
    except ValueError as wrong:
        raise _build_refusal(str(wrong)) from None


def _read_model() -> ModelSettings | None:
    """Return the configured model; None without one. Refuses partial settings."""
    names = (f"MEMORYHUB_MODEL_{each}" for each in ("URL", "NAME", "KEY", "KEY_FILE"))
    price = ENV.MEMORYHUB_PRICES.get(ENV.MEMORYHUB_MODEL_NAME)
    try:
        return model_settings.read(
            *(getattr(ENV, name) for name in names),
            price=price,
            window_tokens=ENV.MEMORYHUB_MODEL_WINDOW_TOKENS,
        )
    except ValueError as wrong:
        raise _build_refusal(str(wrong)) from None


def _should_trace() -> bool:
    """Return whether spans are wanted. Refuses if the extra is missing."""
    if not ENV.MEMORYHUB_TRACES:
        return False
    try:
        found = find_spec("opentelemetry.exporter.otlp.proto.http")
    except ModuleNotFoundError:
        found = None
    if found is None:
        extra = distribution.describe_extra("otel")
        raise _build_refusal(f"MEMORYHUB_TRACES needs an extra: {extra}")
    return True


def _build_refusal(reason: str) -> SystemExit:
    sys.stderr.write(f"MemoryHub does not start: {reason}\n")
    return SystemExit(2)


def _warn_of_misspelt_names() -> None:
    """Tell of variables that nothing reads, but for one letter or two."""
    prefix = "MEMORYHUB_"
    ours = [name.removeprefix(prefix) for name in Environment.model_fields]
    for name in sorted({*os.environ} - {*Environment.model_fields}):
        if name.startswith(prefix):
            near = get_close_matches(name.removeprefix(prefix), ours, 1, cutoff=0.8)
            for each in near:
                sys.stderr.write(f"Nothing reads {name}; is it {prefix}{each}?\n")


ENV = _read_environment()
_warn_of_misspelt_names()


def _split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


SECRET_KEY = ENV.MEMORYHUB_SECRET_KEY
DEBUG = ENV.MEMORYHUB_DEBUG
TESTING = ENV.MEMORYHUB_TESTING
HOSTS = _split_words(ENV.MEMORYHUB_HOSTS)
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *HOSTS]
ORIGINS = _split_words(ENV.MEMORYHUB_ORIGINS)
TRUSTED_PROXIES = _split_words(ENV.MEMORYHUB_TRUSTED_PROXIES)
SUDO_MINUTES = ENV.MEMORYHUB_SUDO_MINUTES
ALLOW_PASSWORD_ONLY = ENV.MEMORYHUB_ALLOW_PASSWORD_ONLY
TLS = ENV.MEMORYHUB_TLS
SSO_ISSUER, SSO_CLIENT_ID = ENV.MEMORYHUB_SSO_ISSUER, ENV.MEMORYHUB_SSO_CLIENT_ID
SSO_CLIENT_SECRET = _read_sso_secret()
SSO = bool(SSO_CLIENT_SECRET)
SSO_MFA = ENV.MEMORYHUB_SSO_MFA
MODEL = _read_model()
MODEL_DAILY_TOKENS = ENV.MEMORYHUB_MODEL_DAILY_TOKENS

# Paths

DATA_DIR = ENV.MEMORYHUB_DATA.resolve()
KEK_FILE = (ENV.MEMORYHUB_KEK_FILE or DATA_DIR / "kek.json").resolve()
KEK_FILE_IS_DEFAULT = ENV.MEMORYHUB_KEK_FILE is None
KEYS_BACKUP_DAYS = ENV.MEMORYHUB_KEYS_BACKUP_DAYS
BACKUP_DAYS = ENV.MEMORYHUB_BACKUP_DAYS
LEDGER = (ENV.MEMORYHUB_LEDGER or DATA_DIR / "ledger").resolve()
LEDGER_MIRROR = ENV.MEMORYHUB_LEDGER_MIRROR and ENV.MEMORYHUB_LEDGER_MIRROR.resolve()
LOGS = ENV.MEMORYHUB_LOGS and ENV.MEMORYHUB_LOGS.resolve()
BALLAST = DATA_DIR / "ballast"
BALLAST_BYTES = ENV.MEMORYHUB_BALLAST_MIB << 20
# Every command but a help needs the folder, and no other user should read it.
try:
    if not distribution.is_help(sys.argv):
        DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
except OSError as failure:
    raise _build_refusal(
        f"MEMORYHUB_DATA can not be the folder {DATA_DIR} ({failure.strerror}); "
        "name one that you may make and write to"
    ) from None


def _build_cold_storage() -> dict[str, Any]:
    """Build Django's description of cold storage. Refuses S3 without its extra."""
    place = ENV.MEMORYHUB_COLD_STORAGE
    if not place.startswith("s3://"):
        folder = Path(place).resolve() if place else DATA_DIR / "cold"
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {
                "location": folder,
                "file_permissions_mode": 0o600,
                "directory_permissions_mode": 0o700,
            },
        }
    if find_spec("storages") is None or find_spec("boto3") is None:
        extra = distribution.describe_extra("s3")
        raise _build_refusal(f"MEMORYHUB_COLD_STORAGE needs an extra: {extra}")
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    if not bucket:
        raise _build_refusal("MEMORYHUB_COLD_STORAGE must name a bucket: s3://bucket")
    config = import_module("botocore.config").Config(
        connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 2}
    )
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        # Address and credentials: AWS's own variables.
        "OPTIONS": {
            "bucket_name": bucket,
            "location": prefix,
            "client_config": config,
        },
    }


STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "cold": _build_cold_storage(),
}


def _build_sqlite(name: str, pragmas: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(DATA_DIR / f"{name}.sqlite3"),
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": pragmas,
        },
        # A file, since an in-memory test database is one shared cache that locks.
        "TEST": {"NAME": str(DATA_DIR / f"test-{name}.sqlite3")},
    }


def _build_postgres(name: str, test_name: str) -> dict[str, Any]:
    if find_spec("psycopg") is None:
        extra = distribution.describe_extra("postgres")
        raise _build_refusal(f"{name} needs an extra: {extra}")
    primary = import_module("memoryhub.primary")
    database: dict[str, Any] = {**dj_database_url.parse(getattr(ENV, name))}
    limits = "-c statement_timeout=5000 -c idle_in_transaction_session_timeout=30000"
    database["CONN_MAX_AGE"] = 0
    database["CONN_HEALTH_CHECKS"] = True
    database["OPTIONS"] = {
        **primary.PATIENCE,
        **database.get("OPTIONS", {}),
        "pool": {
            "connection_class": primary.PrimaryConnection,
            "min_size": 1,
            # The readers, the writer, pages, and five threads of background work.
            "max_size": ENV.MEMORYHUB_READERS + 10,
            # An absent database is reported, not waited for.
            "timeout": 5,
            # Then each request tries anew: a pool that retries by itself doubles its
            # pauses, and pauses long after the database is back.
            "reconnect_timeout": 2,
        },
        "options": limits,
    }
    database["TEST"] = {"NAME": test_name}
    return database


_MAIN_PRAGMAS = (
    "PRAGMA journal_mode=WAL;"
    f"PRAGMA synchronous={ENV.MEMORYHUB_SQLITE_SYNCHRONOUS};"
    "PRAGMA secure_delete=ON;"
    "PRAGMA foreign_keys=ON"
)
_KEYS_PRAGMAS = (
    "PRAGMA journal_mode=DELETE;"
    "PRAGMA synchronous=FULL;"
    "PRAGMA secure_delete=ON;"
    "PRAGMA foreign_keys=ON"
)

DATABASES = {
    "default": _build_postgres("DATABASE_URL", "test_memoryhub")
    if ENV.DATABASE_URL
    else _build_sqlite("memoryhub", _MAIN_PRAGMAS),
    "keys": _build_postgres("KEYS_DATABASE_URL", "test_memoryhub_keys")
    if ENV.KEYS_DATABASE_URL
    else _build_sqlite("keys", _KEYS_PRAGMAS),
}
DATABASE_ROUTERS = ["memoryhub.models.server.router.KeysRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = ENV.REDIS_URL
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {
            # The hub waits five seconds for a notice; the client's own limit, five as
            # well, would turn every silence into an error.
            "hosts": [{"address": REDIS_URL, "socket_timeout": 15}],
            "expiry": 10,
            "capacity": 100,
        },
    }
    if REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"},
}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}

# Installed apps, and the order in which middleware runs

INSTALLED_APPS = [
    "servestatic.runserver_nostatic",
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "channels",
    "ninja",
    "memoryhub",
    "inspector",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "inspector.web.compression.PageCompression",
    "django.middleware.common.CommonMiddleware",
    "inspector.web.middleware.BrowserPolicy",
    "servestatic.middleware.ServeStaticMiddleware",
    "inspector.web.middleware.Sessions",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    # BrowserPolicy sends the same to every current browser; Django's check asks for it.
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if SSO:
    INSTALLED_APPS += ["allauth", "allauth.account", "allauth.socialaccount"]
    MIDDLEWARE.append("allauth.account.middleware.AccountMiddleware")
    # We use only the part that speaks to a provider. It stores nothing, so no table is
    # made.
    MIGRATION_MODULES = {"account": None, "socialaccount": None}
    SOCIALACCOUNT_ADAPTER = "inspector.access.providers.Adapter"
    SOCIALACCOUNT_STORE_TOKENS = False
    SOCIALACCOUNT_REQUESTS_TIMEOUT = 10
    ACCOUNT_USER_MODEL_EMAIL_FIELD = None
ROOT_URLCONF = "memoryhub.urls"
ASGI_APPLICATION = "memoryhub.asgi.application"
APPEND_SLASH = False
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        # The API's reference page is a template of Ninja.
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": ["django.template.context_processors.request"],
            "builtins": ["inspector.templatetags.program"],
            "libraries": {
                "screens": "inspector.templatetags.screens",
                "units": "inspector.templatetags.units",
            },
        },
    }
]
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG
USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en"

# Operators: sign-in, sessions, browser policy

AUTH_USER_MODEL = "memoryhub.Operator"
AUTHENTICATION_BACKENDS = [
    "inspector.access.backends.PasskeyBackend",
    "inspector.access.backends.Sso",
    "inspector.access.backends.Password",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]
_VALIDATION = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"{_VALIDATION}.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": f"{_VALIDATION}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATION}.NumericPasswordValidator"},
    {"NAME": f"{_VALIDATION}.UserAttributeSimilarityValidator"},
]
LOGIN_URL = "/sign-in"
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_NAME = "__Host-mh_session" if TLS else "mh_session"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = TLS
# A cookie of its own, since a token in the session would write a row for every visitor
# of the sign-in page. It ends with the browser; no script reads it. See
# decision 6.
CSRF_COOKIE_NAME = "__Host-mh_csrf" if TLS else "mh_csrf"
CSRF_COOKIE_AGE = None
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = TLS
CSRF_FAILURE_VIEW = "inspector.web.refusals.csrf"
CSRF_TRUSTED_ORIGINS = ORIGINS
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = TLS
SECURE_HSTS_SECONDS = 31_536_000 if TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = TLS
SECURE_HSTS_PRELOAD = TLS
DATA_UPLOAD_MAX_MEMORY_SIZE = ENV.MEMORYHUB_BODY_BYTES
DATA_UPLOAD_MAX_NUMBER_FIELDS = 200
DATA_UPLOAD_MAX_NUMBER_FILES = 0

# Limits of the agent API and the writer

LEAN_API = ENV.MEMORYHUB_LEAN_API
TRACES = _should_trace()
BODY_BYTES = ENV.MEMORYHUB_BODY_BYTES
KEY_ENV = ENV.MEMORYHUB_ENV
KEY_REQUESTS_PER_SECOND = ENV.MEMORYHUB_KEY_REQUESTS_PER_SECOND
KEY_BURST = ENV.MEMORYHUB_KEY_BURST
ANONYMOUS_REQUESTS_PER_SECOND = ENV.MEMORYHUB_ANONYMOUS_REQUESTS_PER_SECOND
KEY_BYTES_PER_DAY = ENV.MEMORYHUB_KEY_BYTES_PER_DAY
KEY_STREAMS = ENV.MEMORYHUB_KEY_STREAMS
QUEUE_COMMANDS = ENV.MEMORYHUB_QUEUE_COMMANDS
QUEUE_BYTES = ENV.MEMORYHUB_QUEUE_BYTES
EXPIRY_INTERVAL_SECONDS = ENV.MEMORYHUB_EXPIRY_INTERVAL_SECONDS
EXPORTS_PER_PROJECT = ENV.MEMORYHUB_EXPORTS_PER_PROJECT
EXPORTS_AT_ONCE = ENV.MEMORYHUB_EXPORTS_AT_ONCE
EXPORTS_PER_DAY = ENV.MEMORYHUB_EXPORTS_PER_DAY
READERS = ENV.MEMORYHUB_READERS
WEBHOOK_HOSTS = _split_words(ENV.MEMORYHUB_WEBHOOK_HOSTS)
# Mail is for alerts alone; without a host it is not offered.
EMAIL_HOST = ENV.MEMORYHUB_MAIL_HOST
EMAIL_PORT = ENV.MEMORYHUB_MAIL_PORT
EMAIL_HOST_USER = ENV.MEMORYHUB_MAIL_USER
EMAIL_HOST_PASSWORD = ENV.MEMORYHUB_MAIL_PASSWORD
EMAIL_USE_TLS = ENV.MEMORYHUB_MAIL_TLS
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = ENV.MEMORYHUB_MAIL_FROM
COLD_DAYS = ENV.MEMORYHUB_COLD_DAYS
SEARCH_BYTES = ENV.MEMORYHUB_SEARCH_BYTES
PRICES = ENV.MEMORYHUB_PRICES

# Logs: JSON lines of a closed set of fields; nothing personal

LOGGING_CONFIG = None
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.JSONRenderer(),
    ],
)
