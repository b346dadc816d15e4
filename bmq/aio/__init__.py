"""What an event loop does not bring: pauses between tries, and many deadlines behind one timer."""
