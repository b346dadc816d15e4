"""What runs the tests: stages, smokes."""
