"""Routes of working memory."""
