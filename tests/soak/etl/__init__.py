"""Copiers of a topic, exactly once, which are killed as often as the nodes they work with: is the copy whole?"""
