"""The vault: turns content into sealed bytes and names into keyed digests.

The only code that holds keys. What is not sealed or digested here is not content.
"""
