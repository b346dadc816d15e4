"""The web console: files for browsers (`static`), and what keeps them ready to be sent."""
