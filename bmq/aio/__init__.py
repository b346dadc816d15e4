"""Additions to asyncio: pauses between tries, and many deadlines behind one timer."""
