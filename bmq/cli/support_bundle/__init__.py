"""`bmq support-bundle`: one file with what others need to find out what is wrong, without secrets."""
