"""Hosts in namespaces, faults of processes and of the network between them from a seed, under a load of real clients."""
