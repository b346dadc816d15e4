"""How the roles of different processes reach each other: elections, links between nodes, remote partitions and groups."""
