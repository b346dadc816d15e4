"""Authorization of requests: the right that each API demands, and the answers where it is missing."""
