"""SASL: the mechanisms and the state machine of a login, without I/O."""
