"""Shapes of messages: content, role, words and vendor of each.

`•` is a word to be found, `◆` base64. Thoughts' words stand last, in angle brackets.
"""

from __future__ import annotations

from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAZAAAABkCAYAAACoy2Z3"
_CALL = {"name": "find", "arguments": '{"q":"•"}'}
_LC = ["langchain", "schema", "messages"]


def said(*blocks: Any, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": [*blocks]}


def heard(*blocks: Any) -> dict[str, Any]:
    return said(*blocks, role="user")


def build_source(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", **more}}


Row = tuple[Any, str | None, str, str]
#: Content, role, words (thoughts last, in brackets), vendors of what has one.
SHAPES: list[Row] = [
    ("•", None, "•", ""),
    (None, None, "null", ""),
    ({"price": [7, "•"]}, None, '{"price":[7,"•"]}', ""),
    # Chat completions
    ({"role": "user", "content": "•"}, "user", "•", ""),
    ({"role": "developer", "content": "•", "name": "x"}, "system", "•", ""),
    ({"role": "assistant", "content": None, "refusal": "•"}, "assistant", "•", ""),
    ({"role": "user", "content": {"next": "•"}}, "user", '{"next":"•"}', ""),
    (
        {
            "role": "assistant",
            "tool_calls": [{"id": 5, "function": _CALL, "type": "function"}],
        },
        "assistant",
        'find({"q":"•"})',
        "chat",
    ),
    (
        {
            "role": "assistant",
            "tool_calls": [{"type": "custom", "custom": {"name": "run", "input": "•"}}],
        },
        "assistant",
        "run(•)",
        "chat",
    ),
    ({"role": "assistant", "function_call": _CALL}, "assistant", 'find({"q":"•"})', ""),
    ({"role": "function", "name": "find", "content": "•"}, "tool", "•", ""),
    ({"role": "tool", "tool_call_id": "c", "content": "•"}, "tool", "•", "chat"),
    ({"role": "tool", "tool_call_id": "c", "content": 7}, "tool", "7", "chat"),
    (
        {
            "role": "assistant",
            "audio": {"id": "a", "data": "◆", "transcript": "•"},
            "reasoning_content": "•",
        },
        "assistant",
        "•<•>",
        "chat",
    ),
    (
        {
            "role": "assistant",
            "content": "•",
            "annotations": [{"type": "url_citation", "url_citation": {"title": "•"}}],
        },
        "assistant",
        "•\n[cited: •]",
        "",
    ),
    (
        heard({"type": "image_url", "image_url": {"url": "data:image/png;base64,◆"}}),
        "user",
        "[image 400×100, png]",
        "chat",
    ),
    (
        heard({"type": "input_audio", "input_audio": {"data": "◆", "format": "wav"}}),
        "user",
        "[audio]",
        "chat",
    ),
    (
        heard(
            {
                "type": "file",
                "file": {
                    "file_data": "data:application/pdf;base64,◆",
                    "filename": "•.pdf",
                },
            }
        ),
        "user",
        "[file •.pdf]",
        "chat",
    ),
    # Responses
    (
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "•"}],
        },
        "user",
        "•",
        "responses",
    ),
    (
        [
            {
                "type": "reasoning",
                "id": "r",
                "summary": [{"type": "summary_text", "text": "•"}],
                "encrypted_content": "◆",
            },
            {"type": "function_call", "call_id": "c", **_CALL},
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_text", "text": "•"}],
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "•"}],
            },
        ],
        "assistant",
        '•\nfind({"q":"•"})\n•<•>',
        "responses",
    ),
    (
        {"type": "custom_tool_call", "call_id": "c", "name": "run", "input": "•"},
        "assistant",
        "run(•)",
        "responses",
    ),
    (
        {
            "type": "web_search_call",
            "id": "w",
            "action": {"type": "search", "query": "•"},
        },
        "assistant",
        'web_search({"type":"search","query":"•"})',
        "responses",
    ),
    (
        {"type": "file_search_call", "id": "f", "queries": ["•"], "results": None},
        "assistant",
        'file_search(["•"])',
        "responses",
    ),
    (
        {"type": "image_generation_call", "result": "◆"},
        "assistant",
        "[image 400×100]\nimage_generation()",
        "responses",
    ),
    (
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {
                "type": "computer_screenshot",
                "image_url": "data:image/png;base64,◆",
            },
        },
        "tool",
        "[image 400×100, png]",
        "responses",
    ),
    (
        heard({"type": "input_file", "file_url": "https://a.example/•"}),
        "user",
        "[file https://a.example/•]",
        "responses",
    ),
    # Anthropic
    (
        heard({"type": "text", "text": "•", "cache_control": {"type": "ephemeral"}}),
        "user",
        "•",
        "anthropic",
    ),
    (
        heard(build_source("image", media_type="image/png", data="◆")),
        "user",
        "[image 400×100, png]",
        "anthropic",
    ),
    (
        heard(
            {
                "type": "document",
                "title": "•",
                "source": {"type": "text", "media_type": "text/plain", "data": "•"},
            }
        ),
        "user",
        "[file •, plain]\n•",
        "anthropic",
    ),
    (
        heard(
            {
                "type": "search_result",
                "title": "•",
                "source": "•",
                "content": [{"type": "text", "text": "•"}],
            }
        ),
        "user",
        "•\n•\n•",
        "anthropic",
    ),
    (
        said(
            {"type": "thinking", "thinking": "•", "signature": "◆"},
            {"type": "redacted_thinking", "data": "◆"},
            {"type": "tool_use", "id": "c", "name": "find", "input": {"q": "•"}},
        ),
        "assistant",
        'find({"q":"•"})<•>',
        "anthropic",
    ),
    (
        heard(
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "•"},
                    build_source("image", media_type="image/png", data="◆"),
                ],
            },
            {"type": "text", "text": "•"},
        ),
        "user",
        "•\n[failed]\n•\n[image 400×100, png]",
        "anthropic",
    ),
    (
        said(
            {
                "type": "server_tool_use",
                "id": "s",
                "name": "web_search",
                "input": {"query": "•"},
            },
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s",
                "content": [{"title": "•", "encrypted_content": "◆"}],
            },
        ),
        "assistant",
        'web_search({"query":"•"})\n{"title":"•","encrypted_content":"…"}',
        "anthropic",
    ),
    # Ollama, LangChain, the AI SDK
    (
        {"role": "user", "content": "•", "images": ["◆"]},
        "user",
        "•\n[image 400×100]",
        "",
    ),
    (
        {
            "role": "assistant",
            "content": "",
            "thinking": "•",
            "tool_calls": [{"function": {"name": "find", "arguments": {"q": "•"}}}],
        },
        "assistant",
        'find({"q":"•"})<•>',
        "",
    ),
    ({"type": "human", "content": "•"}, "user", "•", ""),
    (
        {
            "lc": 1,
            "type": "constructor",
            "id": [*_LC, "AIMessage"],
            "kwargs": {
                "content": "•",
                "tool_calls": [
                    {"name": "find", "args": {"q": "•"}, "id": "c", "type": "tool_call"}
                ],
            },
        },
        "assistant",
        '•\nfind({"q":"•"})',
        "",
    ),
    (
        {
            "type": "tool",
            "data": {"content": "•", "tool_call_id": "c", "status": "error"},
        },
        "tool",
        "[failed]\n•",
        "",
    ),
    (
        said(
            {
                "type": "tool-call",
                "toolCallId": "c",
                "toolName": "find",
                "input": {"q": "•"},
            }
        ),
        "assistant",
        'find({"q":"•"})',
        "",
    ),
    (
        said(
            {
                "type": "tool-result",
                "toolCallId": "c",
                "toolName": "find",
                "output": {"type": "error-text", "value": "•"},
            },
            role="tool",
        ),
        "tool",
        "[failed]\n•",
        "",
    ),
    (
        {
            "role": "assistant",
            "content": "•",
            "parts": [
                {"type": "step-start"},
                {"type": "text", "text": "•"},
                {
                    "type": "tool-find",
                    "toolCallId": "c",
                    "input": {"q": "•"},
                    "output": {"at": "•"},
                },
            ],
        },
        "assistant",
        '•\nfind({"q":"•"})\n{"at":"•"}',
        "",
    ),
    # Gemini and Converse
    (
        {
            "role": "model",
            "parts": [
                {"text": "•"},
                {"text": "•", "thought": True},
                {"inlineData": {"mimeType": "image/png", "data": "◆"}},
                {"functionCall": {"name": "find", "args": {"q": "•"}}},
            ],
        },
        "assistant",
        '•\n[image 400×100, png]\nfind({"q":"•"})<•>',
        "gemini",
    ),
    (
        {"role": "model", "parts": [{"text": "•", "thoughtSignature": "CiQB"}]},
        "assistant",
        "•",
        "gemini",
    ),
    (
        {
            "role": "function",
            "parts": [{"functionResponse": {"name": "find", "response": {"at": "•"}}}],
        },
        "tool",
        '{"at":"•"}',
        "gemini",
    ),
    (
        heard(
            {"text": "•"},
            {"document": {"format": "pdf", "name": "•", "source": {"bytes": "◆"}}},
        ),
        "user",
        "•\n[file •, pdf]",
        "",
    ),
    (
        heard(
            {
                "toolResult": {
                    "toolUseId": "c",
                    "status": "error",
                    "content": [{"text": "•"}, {"json": {"at": "•"}}],
                }
            }
        ),
        "user",
        '[failed]\n•\n{"json":{"at":"•"}}',
        "",
    ),
    # No one's, and some of it
    (
        heard({"type": "unheard", "of": "•"}, "•"),
        "user",
        '{"type":"unheard","of":"•"}\n•',
        "",
    ),
    ({"role": "user", "content": "•", "mood": "•"}, "user", "•\nmood: •", ""),
]
