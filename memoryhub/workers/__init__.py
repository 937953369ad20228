"""Workers: look for rows that are not as they should be, and make them so.

No queue and no memory: what a restart forgets is found again by looking.
"""
