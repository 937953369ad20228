"""Vendors: which API's shape a part, call or result came in. Pure."""

from __future__ import annotations

from typing import Any

from memoryhub.kernel.messages.message import Vendor

Block = dict[str, Any]

SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})
# fmt: off
_GEMINI = (
    "functionCall", "functionResponse", "inlineData", "fileData",
    "function_call", "function_response", "inline_data", "file_data",
)
#: Code that Gemini ran, and what came of it.
_RUNS = (
    "executableCode", "codeExecutionResult",
    "executable_code", "code_execution_result",
)
#: Calls of Responses whose outputs are separate items; the first two are not hosted.
ANSWERED = (
    "function_call", "custom_tool_call", "computer_call", "local_shell_call",
    "shell_call", "apply_patch_call",
)
# fmt: on
VENDORS: dict[str, Vendor] = {
    **dict.fromkeys(("function", "custom"), "chat"),
    **dict.fromkeys(("tool_use", "mcp_tool_use", "server_tool_use"), "anthropic"),
    **dict.fromkeys(("tool_result", "mcp_tool_result"), "anthropic"),
    **dict.fromkeys(("thinking", "redacted_thinking"), "anthropic"),
    **dict.fromkeys(("input_text", "output_text", "input_image"), "responses"),
    **dict.fromkeys(("input_file", "mcp_approval_response"), "responses"),
    **dict.fromkeys(("function_call", "custom_tool_call"), "responses"),
    **{f"{each}_output": "responses" for each in ANSWERED},
}


def find_medium_vendor(block: Block) -> Vendor | None:
    kind = str(block.get("type"))
    if kind in {"image", "document"}:
        return "anthropic" if isinstance(block.get("source"), dict) else None
    if kind in {"image_url", "input_audio", "file"}:
        return "chat" if isinstance(block.get(kind), dict) else None
    return VENDORS.get(kind) or find_gemini(block)


def find_call_vendor(block: Block, kind: str, sent: Any) -> Vendor | None:
    if kind in {"function", "custom"}:
        sound = isinstance(block.get(kind), dict) and isinstance(sent, str)
    else:
        sound = isinstance(sent, dict if kind.endswith("tool_use") else str)
    return (VENDORS.get(kind) if sound else None) or find_gemini(block)


def find_run_vendor(block: Any) -> Vendor | None:
    """Return Gemini for a part with code that Gemini ran, or with what came of it."""
    own = isinstance(block, dict) and "type" not in block
    return (
        "gemini" if own and any(isinstance(block.get(n), dict) for n in _RUNS) else None
    )


def find_gemini(block: Block) -> Vendor | None:
    """Return the vendor of a part in Gemini's shape; None for any other."""
    own = "type" not in block and any(isinstance(block.get(n), dict) for n in _GEMINI)
    return "gemini" if own else None


def find_server_tool(kind: str) -> str | None:
    """Return the name of Anthropic's own tool whose result is of this kind."""
    name = kind.removesuffix("_tool_result")
    return name if name not in {kind, "mcp"} else None


def has_failed(item: Block) -> bool:
    """Return whether a result says that its tool failed."""
    return (
        item.get("is_error") is True
        or item.get("isError") is True
        or item.get("status") == "error"
        or item.get("state") == "output-error"
    )
