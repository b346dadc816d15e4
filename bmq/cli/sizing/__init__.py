"""`bmq plan`: how large a cluster has to be for a load, with its arithmetic."""
