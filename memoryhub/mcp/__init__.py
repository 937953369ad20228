"""MCP server: tools, resources and prompts over the agents' API, at `/mcp`."""
