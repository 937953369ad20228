"""Screens of working memory."""
