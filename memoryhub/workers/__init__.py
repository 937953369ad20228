"""Workers: background tasks that find rows out of order and correct them.

Workers have no queue and no memory: after a restart they find all work again by
looking.
"""
