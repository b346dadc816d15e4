"""What development and tests need and a server never does: clusters started on this machine."""
