"""Acts on working memory."""
