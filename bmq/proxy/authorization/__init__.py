"""What clients may do: the right that each API asks for, and the answers where it is missing."""
