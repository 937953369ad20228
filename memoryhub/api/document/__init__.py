"""The OpenAPI document, and fields that schemas share."""
