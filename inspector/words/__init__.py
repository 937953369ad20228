"""Glossary of the kernel's terms, for hovers and for a page."""
