"""The vault: turns content into sealed bytes and names into keyed digests.

The only code that holds keys. All content is sealed or digested here.
"""
