"""Who may come in and what they may do: SASL, ACLs and quotas, decided apart from I/O."""
