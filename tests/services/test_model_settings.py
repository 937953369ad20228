"""Settings of the model: whole or absent, and no refusal tells a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memoryhub import model_settings

WHOLE: dict[str, Any] = {
    "url": "https://models.example/v1/",
    "name": "small",
    "key": "sk-4711",
    "file": None,
}


def test_complete_model_settings_are_read_and_empty_ones_are_none(
    tmp_path: Path,
) -> None:
    found = model_settings.read(**WHOLE)
    assert found is not None
    assert (found.url, found.host) == ("https://models.example/v1", "models.example")
    assert "sk-4711" not in repr(found)
    assert model_settings.read(url="", name="", key="", file=None) is None
    file = tmp_path / "key"
    file.write_text("sk-filed\n")
    filed = model_settings.read(**{**WHOLE, "key": "", "file": file})
    assert filed is not None
    assert filed.key == "sk-filed"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"url": ""}, "MEMORYHUB_MODEL_URL as well"),
        ({"name": ""}, "MEMORYHUB_MODEL_NAME as well"),
        ({"key": ""}, "MEMORYHUB_MODEL_KEY as well"),
        ({"url": "http://models.example/v1"}, "must be an https:// address"),
        ({"url": "https://me:sk-4711@models.example/v1"}, "must be an https://"),
        ({"url": "https://models.example/v1?key=sk-4711"}, "must be an https://"),
        ({"key": "", "file": Path("/nowhere")}, "KEY_FILE holds no secret"),
        ({"key": "sk-\n4711"}, "is no key"),
    ],
)
def test_incomplete_model_settings_are_refused(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        model_settings.read(**{**WHOLE, **changes})
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost"])
def test_loopback_model_needs_no_tls(host: str) -> None:
    assert model_settings.read(**{**WHOLE, "url": f"http://{host}/v1"})
