"""Bearer tokens (JWT): who a token stands for, and the keys that it is checked by."""
